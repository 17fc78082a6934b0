"""A calculation: its series, one cell with all steps, a chart, and what the steps gave, a line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fathom.domain.tool_results import Step, list_objects
from fathom.services.policy.reference.answer import cite, join
from fathom.services.policy.reference.conversation import Call, Conversation, is_chart
from fathom.services.policy.reference.programs import Program
from fathom.services.policy.reference.reading import Reading, load_table, say
from fathom.services.policy.reference.tables import Sheet

# Places of an answer's own columns that are named; a table beside it has the others.
MOST_CELLS = 6
# Functions whose value is a move from one date to another one.
MOVES = frozenset({"ret", "pct", "change", "cagr"})


@dataclass(frozen=True)
class Calculation:
    """The steps of a program as calls of tools and as lines, as far as the conversation has come."""

    conversation: Conversation
    program: Program
    reading: Reading

    @property
    def is_zh(self) -> bool:
        """Return whether the answer is to be in Chinese."""
        return self.conversation.is_zh

    @cached_property
    def typed_queries(self) -> list[Step]:
        """Return the typed queries so far."""
        return [step for step in self.conversation.of("data") if "question" not in step.arguments]

    @cached_property
    def sheets(self) -> list[Sheet]:
        """Return the tables that they have brought."""
        return [sheet for step in self.typed_queries if step.is_ok for sheet in step.head.get("sheets", ())]

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
    def labels(self) -> dict[int, str]:
        """Return what each step computes, by its number."""
        return {number: str(label[self.is_zh]) for number, label in enumerate(self.program.labels, 1)}

    def fetch(self) -> Call | None:
        """Return the call for the next series."""
        asked = [{key: step.arguments.get(key) for key in ("entities", "indicators")} for step in self.typed_queries]
        return next((Call("data", query) for query in self.program.queries if query not in asked), None)

    def compute(self) -> Call | None:
        """Return the cell of all steps, once all series are here."""
        is_done = any(not is_chart(step) for step in self.conversation.of("python"))
        if is_done or len(self.program.find_columns(self.sheets)) < len(self.program.series):
            return None
        return Call("python", {"code": self.program.write_cell(self.sheets, self.is_zh)})

    def draw(self) -> Call | None:
        """Return the cell of a chart beside values."""
        code = self.program.write_chart(self.sheets, self.is_zh) if self.values else ""
        return Call("python", {"code": code}) if code and not any(map(is_chart, self.conversation.steps)) else None

    def list_open(self) -> list[str]:
        """Return a premise that does not hold, a doubt, and the steps without a value, each with its reason."""
        # What may be meant by words that nobody has read is the first thing to look at when a reading is doubted.
        unused = [str(one.get("words", "")) for one in self.program.unused]
        doubt = [] if self.program.is_certain else [*unused, say("doubtful", self.is_zh)]
        assumed = [
            say(
                "assumed", self.is_zh, one.get("words", ""), ("、" if self.is_zh else ", ").join(one.get("columns", ()))
            )
            for one in self.program.assumptions
        ]
        errors = {number: str(one.get("error", "")) for number, (one, _) in self.outcomes.items()}
        left = {number: label for number, label in self.labels.items() if number not in self.values}
        failed = [label + (f" ({errors[number]})" if errors.get(number) else "") for number, label in left.items()]
        return [*self._check_premise(), *assumed, *doubt, *failed]

    def _check_premise(self) -> Iterator[str]:
        """Yield that a value rose where the question takes for granted that it fell, or the other way round."""
        moved = [
            self.values.get(at, ({}, ""))[0] for at, one in enumerate(self.program.functions, 1) if {*one[:1]} & MOVES
        ]
        moves = [value for one in moved if isinstance(value := one.get("value"), int | float)]
        went = "rise" if moves and min(moves) > 0 else "fall" if moves and max(moves) < 0 else ""
        # A rate counts the units of a currency for one euro, which are the more, the less it is worth.
        is_inverse = any(one.indicator == load_table("phrases")["inverse"] for one in self.program.series)
        if went and self.reading.premises - {went} and not is_inverse:
            words, other = load_table("texts")["premise"], "rise" if went == "fall" else "fall"
            yield say("premise", self.is_zh, words[other][self.is_zh], words[went][self.is_zh]).rstrip(".。")

    @property
    def used_sheets(self) -> list[Sheet]:
        """Return the tables that the steps were computed from; none where no step has a value."""
        used = {variable for variable, _ in self.program.find_columns(self.sheets).values()}
        return [sheet for sheet in self.sheets if self.values and sheet["variable"] in used]

    def write_paragraphs(self) -> list[str]:
        """Return a line per step, and the conventions of the calculations; a refusal where no step has a value."""
        if not self.values:
            left = join(filter(None, self.list_open()), self.is_zh) or self.conversation.question
            return [say("refused", self.is_zh, left + next((cited for _, cited in self.outcomes.values()), ""))]
        said = {text: cited for one, cited in self.values.values() for text in one.get("conventions", ())}
        conventions = join([text + cited for text, cited in said.items()], self.is_zh)
        cells = list(dict.fromkeys(one.cells for one in self.program.series if one.cells))
        shown = say("cells", self.is_zh, join(cells[:MOST_CELLS], self.is_zh), self._cite_all()) if cells else ""
        return ["\n".join(self._write_lines()), *filter(None, (shown, conventions))]

    def _cite_all(self) -> str:
        """Return the citations of all values."""
        return "".join(dict.fromkeys(cited.strip() for _, cited in self.values.values()))

    def _write_lines(self) -> Iterator[str]:
        colon, blank = ("：", "") if self.is_zh else (":", " ")
        for number, (one, cited) in self.values.items():
            at = f"({number}) " if len(self.program.steps) > 1 else ""
            head, texts = f"- {at}{self.labels[number]}{colon}", one.get("said", ())
            if len(texts) == 1:
                yield f"{head}{blank}{texts[0]}{cited}"
            else:
                yield "\n".join([f"{head}{cited}", *(f"  - {text}{cited}" for text in texts)])
