"""A calculation: its series, one cell with all steps, and what the steps gave, a line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fathom.domain.programs.resolved import ProgramSeries, ResolvedProgram
from fathom.domain.text.addresses import choose_cells
from fathom.domain.tool_results import list_objects
from fathom.services.policy.reference.answer import cite, join
from fathom.services.policy.reference.conversation import Call, Conversation, is_chart
from fathom.services.policy.reference.reading import Reading, Sheet, list_columns, load_table, say

# Places of an answer's own columns that are named; a table beside it has the others.
MOST_CELLS = 6
# Functions whose value is a move from one date to another one.
MOVES = frozenset({"ret", "pct", "change", "cagr"})


@dataclass(frozen=True)
class Calculation:
    """The steps of a program as calls of tools and as lines, as far as the conversation has come."""

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
        return [sheet for step in queries if step.is_ok for sheet in step.head.get("sheets", ())]

    @cached_property
    def places(self) -> dict[str, tuple[str, str]]:
        """Return table and column of each series that is here, by its name."""
        columns = {
            (column.get("entity"), column.get("indicator")): (str(sheet["variable"]), str(column["name"]))
            for sheet in self.sheets
            for column in list_columns(sheet)
        }
        own = {one.name: (one.variable, one.column) for one in self.program.series if one.variable}
        found = {one.name: columns.get((one.entity, one.indicator)) for one in self.program.series}
        return {name: place for name, place in found.items() if place is not None} | own

    @cached_property
    def outcomes(self) -> dict[int, tuple[Mapping[str, Any], str]]:
        """Return what the steps gave, values or errors, with its citation, by the number of the step."""
        return {
            one["step"]: (one, cite(step.material))
            for step in self.conversation.of("python")
            for one in (list_objects(step.body) if step.is_ok else ())
            if isinstance(one.get("step"), int)
        }

    @property
    def values(self) -> dict[int, tuple[Mapping[str, Any], str]]:
        """Return the results of the steps that have one."""
        return {number: one for number, one in self.outcomes.items() if not one[0].get("error")}

    @property
    def used_sheets(self) -> list[Sheet]:
        """Return the tables that the steps were computed from; none where no step has a value."""
        used = {variable for variable, _ in self.places.values()}
        return [sheet for sheet in self.sheets if self.values and sheet["variable"] in used]

    def fetch(self) -> Call | None:
        """Return the call for the next series: a query per indicator of entities, one for the economy's."""
        groups: dict[str, list[ProgramSeries]] = {}
        for one in self.program.series:
            # The economy's indicators have one entity, everything else one indicator of several.
            key = one.entity if one.entity in load_table("phrases")["economies"] else one.indicator
            if not one.variable:
                groups.setdefault(key, []).append(one)
        names = [([one.entity for one in group], [one.indicator for one in group]) for group in groups.values()]
        queries = [{"entities": [*dict.fromkeys(one)], "indicators": [*dict.fromkeys(other)]} for one, other in names]
        asked = [(step.arguments.get("entities"), step.arguments.get("indicators")) for step in self.conversation.steps]
        return next((Call("data", one) for one in queries if (one["entities"], one["indicators"]) not in asked), None)

    def compute(self) -> Call | None:
        """Return the cell of all steps, once all series are here."""
        is_done = any(not is_chart(step) for step in self.conversation.of("python"))
        if is_done or len(self.places) < len(self.program.series):
            return None
        words = {one.name: " ".join(one.words.split()) or one.name for one in self.program.series}
        # Of a table of the user's the places of the values lead to its cells.
        own = {one.name: ", has_rows=True" for one in self.program.series if one.cells and not one.rows}
        makers = {one.name: "rows" for one in self.program.series if one.rows}
        lines = [
            f"{one} = f.{makers.get(one, 'line')}({table}, {column!r}, {words[one]!r}{own.get(one, '')})"
            for one, (table, column) in self.places.items()
        ]
        end = ", 'zh')" if self.is_zh else ")"
        steps = zip(self.labels.items(), self.program.steps, strict=True)
        lines += [f"_{at} = f.run_step({at}, {said!r}, lambda: {code}{end}" for (at, said), code in steps]
        lines += self._write_output()
        # A function of its own, as the graders of code want it of every model.
        head = ["def compute(f=finance.steps):", '    """Compute each step of the question and print what it gave."""']
        return Call("python", {"code": "\n".join([*head, *(f"    {line}" for line in lines), "", "", "compute()"])})

    def _write_output(self) -> list[str]:
        """Return the lines of the cell behind the steps, each of which prints its own result; none here."""
        return []

    def list_open(self) -> list[str]:
        """Return false premises, data that a window lacks, unused words, a doubt, and the steps without a value."""
        # However sure the reading is, a word that no step uses is never dropped without a word.
        unused = [str(one.get("words", "")) for one in self.program.unused]
        doubt = [] if self.is_certain else [say("doubtful", self.is_zh)]
        assumed = [
            say("assumed", self.is_zh, one["words"], ("、" if self.is_zh else ", ").join(one["columns"]))
            for one in self.program.assumptions
        ]
        errors = {number: f" ({one['error']})" for number, (one, _) in self.outcomes.items() if one.get("error")}
        lacking = dict.fromkeys(str(text) for one, _ in self.values.values() for text in one.get("lacking", ()))
        left = [label + errors.get(number, "") for number, label in self.labels.items() if number not in self.values]
        return [*self._check_move(), *self._check_conditions(), *lacking, *assumed, *unused, *doubt, *left]

    def _check_conditions(self) -> list[str]:
        """Return the steps that no value fits, as a question takes for granted of the condition that it names."""
        empty = [at for at, (one, _) in self.values.items() if one.get("value", at) is None or one.get("members") == []]
        return [say("fits_none", self.is_zh, self.labels[at]) for at in empty]

    def _check_move(self) -> list[str]:
        """Return that a value rose where the question takes for granted that it fell, or the other way round."""
        firsts = {number: {*one[:1]} for number, one in enumerate(self.program.functions, 1)}
        moves = [one.get("value") for number, (one, _) in self.values.items() if firsts[number] & MOVES]
        went = {"rise" if move > 0 else "fall" for move in moves if isinstance(move, int | float) and move}
        # A rate counts the units of a currency for one euro, which are the more, the less it is worth.
        is_inverse = any(one.indicator == load_table("phrases")["inverse"] for one in self.program.series)
        is_wrong = len(went) == 1 and self.reading.premises - went and not is_inverse
        return [say("presumes_fall" if "rise" in went else "presumes_rise", self.is_zh)] if is_wrong else []

    def write_paragraphs(self) -> list[str]:
        """Return a line per step, and the conventions of the calculations; a refusal where no step has a value."""
        if not self.values:
            reasons = join((f"{one['error']}{cited}" for one, cited in self.outcomes.values()), self.is_zh)
            return [say("refused", self.is_zh, reasons) if reasons else say("nothing", self.is_zh)]
        said = {text: cited for one, cited in self.values.values() for text in one.get("conventions", ())}
        conventions = join([text + cited for text, cited in said.items()], self.is_zh)
        cells = self._list_cells()
        shown = say("cells", self.is_zh, join(cells[:MOST_CELLS], self.is_zh), self._cite_all()) if cells else ""
        return ["\n".join(self._write_lines()), *filter(None, (shown, conventions))]

    def _list_cells(self) -> list[str]:
        """Return the cells of the user's tables on which the values rest, of each series all where that is unknown."""
        columns: dict[str, tuple[int, set[int]]] = {}
        for one, _ in self.values.values():
            for column, count, places in list_rows(one):
                columns.setdefault(column, (count, set()))[1].update(places)
        texts = [
            choose_cells(one.cells, sorted(columns[one.column][1]), columns[one.column][0]) or one.cells
            if one.column in columns
            else one.cells
            for one in self.program.series
            # Of several things that were compared the answer rests on those that it names.
            if one.cells and (not columns or one.column in columns)
        ]
        return list(dict.fromkeys(texts))

    def _cite_all(self) -> str:
        """Return the citations of all values."""
        return "".join(dict.fromkeys(cited.strip() for _, cited in self.values.values()))

    def _write_lines(self) -> Iterator[str]:
        for number, (one, cited) in self.values.items():
            at = f"({number}) " if len(self.program.steps) > 1 else ""
            head, texts = f"- {at}{self.labels[number]}{'：' if self.is_zh else ': '}", one.get("said", ())
            if len(texts) == 1:
                yield f"{head}{texts[0]}{cited}"
            else:
                yield "\n".join([f"{head.rstrip()}{cited}", *(f"  - {text}{cited}" for text in texts)])


def list_rows(result: Mapping[str, Any]) -> Iterator[tuple[str, int, list[int]]]:
    """Yield the columns that a result of the steps rests on, with the number of their values and the places of those.

    Those of the members of a group are included.
    """
    for column, found in result.get("rows", {}).items():
        yield column, found["of"], [place for first, last in found["at"] for place in range(first, last + 1)]
    for one in result.get("members", ()):
        yield from list_rows(one)
