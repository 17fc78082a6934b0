"""A calculation: what brings its series, its cells, what its steps gave in words, and what stays open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fathom.domain.conversation import Conversation
from fathom.domain.programs.cells import choose_tables, find_places, list_queries, write_cell, write_chart
from fathom.domain.programs.outcomes import Outcome, find_move, list_cells, read_outcomes
from fathom.domain.programs.reading import Reading
from fathom.domain.programs.resolved import CALCULATION, ResolvedProgram
from fathom.domain.tool_results import Sheet
from fathom.domain.writing.wording import join, say

# Places of an answer's own columns that are named, of which a table beside it has the others; and tables in which
# something was looked for.
MOST_CELLS, MOST_NAMED = 6, 4
NO_SERIES = "UNKNOWN_SERIES"


@dataclass(frozen=True)
class Calculation:
    """The steps of a program as queries, cells and lines, as far as the conversation has come."""

    conversation: Conversation
    program: ResolvedProgram
    reading: Reading
    is_certain: bool
    """True when nothing need be said of how the question was read."""

    @property
    def is_zh(self) -> bool:
        """Return whether the answer is to be in Chinese."""
        return self.conversation.is_zh

    @cached_property
    def labels(self) -> dict[int, str]:
        """Return what each step computes, by its number."""
        return {number: str(label[self.is_zh]) for number, label in enumerate(self.program.labels, 1)}

    @cached_property
    def sheets(self) -> list[Sheet]:
        """Return the tables that typed queries have brought."""
        queries = [step for step in self.conversation.of("data") if "question" not in step.arguments]
        return [sheet for step in queries for sheet in step.sheets]

    @cached_property
    def places(self) -> dict[str, tuple[str, str]]:
        """Return table and column of each series that is here, by its name."""
        return find_places(self.program, self.sheets)

    @cached_property
    def outcomes(self) -> dict[int, Outcome]:
        """Return what the steps gave, values or errors, by the number of the step."""
        return read_outcomes(step for step in self.conversation.of("python") if step.is_ok)

    @cached_property
    def values(self) -> dict[int, Outcome]:
        """Return the results of the steps that have one."""
        return {number: one for number, one in self.outcomes.items() if not one.error}

    @property
    def used_sheets(self) -> list[Sheet]:
        """Return the tables that the steps were computed from; none where no step has a value."""
        used = {variable for variable, _ in self.places.values()}
        return [sheet for sheet in self.sheets if self.values and sheet["variable"] in used]

    @cached_property
    def tables(self) -> list[Sheet]:
        """Return the tables that the cell of the steps has shown."""
        cells = [step for step in self.conversation.of("python") if not step.is_chart]
        return [sheet for step in cells for sheet in step.sheets]

    @property
    def placed_sheets(self) -> Sequence[Sheet]:
        """Return the tables for the answer: those of the results, or else the inputs."""
        return choose_tables(self.values, self.tables) or self.used_sheets

    def list_calls(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the calls that are left: queries for the series, the cell of all steps, and that of the chart."""
        asked = [(step.arguments.get("entities"), step.arguments.get("indicators")) for step in self.conversation.steps]
        for query in list_queries(self.program):
            if (query["entities"], query["indicators"]) not in asked:
                yield "data", query
        cells = self.conversation.of("python")
        if all(step.is_chart for step in cells) and len(self.places) == len(self.program.series):
            yield "python", {"code": write_cell(self.program, self.places, is_zh=self.is_zh)}
        if self.values and not any(step.is_chart for step in cells):
            code = write_chart(self.program, self.values, self.tables, is_zh=self.is_zh)
            if code:
                yield "python", {"code": code}

    def list_open(self) -> list[str]:
        """Return false premises, data that a window lacks, unused words, a doubt, and the steps without a value."""
        is_zh, went = self.is_zh, find_move(self.program, self.values, self.reading.premises)
        premise = [say("presumes_fall" if went == "rise" else "presumes_rise", is_zh)] if went else []
        # A question takes for granted that something meets the condition that it names.
        empty = [say("fits_none", is_zh, self.labels[number]) for number, one in self.values.items() if one.is_empty]
        lacking = [str(text) for one in self.values.values() for text in one.result.get("lacking", ())]
        assumed = [
            say("assumed", is_zh, one["words"], ("、" if is_zh else ", ").join(one["columns"]))
            for one in self.program.assumptions
        ]
        # However sure the reading is, a word that no step uses is never dropped without a word.
        unused = [str(one.get("words", "")) for one in self.program.unused]
        doubt = [] if self.is_certain else [say("doubtful", is_zh)]
        errors = {number: f" ({one.error})" for number, one in self.outcomes.items() if one.error}
        left = [label + errors.get(number, "") for number, label in self.labels.items() if number not in self.values]
        return [*premise, *empty, *dict.fromkeys(lacking), *assumed, *unused, *doubt, *left]

    def write_paragraphs(self) -> list[str]:
        """Return a line per step, and the conventions of the calculations; a refusal where no step has a value."""
        values = self.values.values()
        if not values:
            reasons = join((one.error + one.citation for one in self.outcomes.values()), self.is_zh)
            return [say("refused", self.is_zh, reasons) if reasons else say("nothing", self.is_zh)]
        conventions = {text: cited for one in values for text, cited in one.conventions.items()}
        cells = list_cells(self.program, values)
        cited = "".join(dict.fromkeys(one.citation.strip() for one in values))
        shown = say("cells", self.is_zh, join(cells[:MOST_CELLS], self.is_zh), cited) if cells else ""
        notes = (shown, join((text + cited for text, cited in conventions.items()), self.is_zh))
        return ["\n".join(self._write_lines()), *filter(None, notes)]

    def _write_lines(self) -> Iterator[str]:
        for number, one in self.values.items():
            at = f"({number}) " if len(self.program.steps) > 1 else ""
            head = f"- {at}{self.labels[number]}{'：' if self.is_zh else ': '}"
            if len(one.texts) == 1:
                yield f"{head}{one.texts[0]}{one.citation}"
            else:
                yield "\n".join(
                    [f"{head.rstrip()}{one.citation}", *(f"  - {text}{one.citation}" for text in one.texts)]
                )


def list_gaps(program: ResolvedProgram | None, reading: Reading, conversation: Conversation) -> list[str]:
    """Return what a question asks for and is not here, with the reason; none where something can be computed."""
    is_zh = conversation.is_zh
    # What no series here can say may well stand in the user's own documents.
    if program is not None and program.kind == "outside" and not conversation.has_own_documents:
        return [say("outside", is_zh, conversation.question[:200])]
    # What is known of several series can be answered.
    if program is None or program.kind != CALCULATION or program.series:
        return []
    # Words with a meaning of their own are no unknown name: "What is maximum drawdown?" has none.
    unknown = [one["words"].casefold() for one in program.missing if one["reason"] == NO_SERIES]
    known = [text.casefold() for text in reading.texts("entity", "indicator", "measure")]
    if any(text in words or words in text for text in known for words in unknown):
        return []
    tables, more = join(conversation.given_tables[:MOST_NAMED], is_zh), len(conversation.given_tables) - MOST_NAMED
    tables = say("more_tables", is_zh, tables, more) if more > 0 else tables
    unheld = "no_given" if tables else "no_series"
    return [
        say(unheld, is_zh, one["words"], tables)
        if one["reason"] == NO_SERIES
        else say("no_value", is_zh, one["words"], one["detail"].rstrip("."))
        for one in program.missing
    ]
