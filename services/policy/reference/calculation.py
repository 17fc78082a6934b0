"""A calculation: its series, one cell with all steps, a chart, and what the steps gave, a line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fathom.domain.tool_results import list_objects
from fathom.services.policy.reference.answer import cite, join
from fathom.services.policy.reference.conversation import Call, Conversation, is_chart
from fathom.services.policy.reference.programs import Program
from fathom.services.policy.reference.reading import Reading, load_table, say
from fathom.services.policy.reference.tables import Sheet

# Functions whose value is a move from one date to another one.
MOVES = frozenset({"ret", "pct", "change", "cagr"})


@dataclass(frozen=True)
class Calculation:
    """The steps of a program as calls of tools and as lines, as far as the conversation has come."""

    conversation: Conversation
    program: Program
    reading: Reading

    @cached_property
    def sheets(self) -> list[Sheet]:
        """Return the tables that typed queries have brought."""
        queries = [step for step in self.conversation.of("data") if "question" not in step.arguments]
        return [sheet for step in queries if step.is_ok for sheet in step.head.get("sheets", ())]

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
        return {number: str(label[self.conversation.is_zh]) for number, label in enumerate(self.program.labels, 1)}

    def fetch(self) -> Call | None:
        """Return the call for the next series."""
        asked = [{key: step.arguments.get(key) for key in ("entities", "indicators")}
                 for step in self.conversation.of("data")]  # fmt: skip
        return next((Call("data", query) for query in self.program.queries if query not in asked), None)

    def compute(self) -> Call | None:
        """Return the cell of all steps, once all series are here."""
        is_done = any(not is_chart(step) for step in self.conversation.of("python"))
        if is_done or len(self.program.find_columns(self.sheets)) < len(self.program.series):
            return None
        return Call("python", {"code": self.program.write_cell(self.sheets, self.conversation.is_zh)})

    def draw(self) -> Call | None:
        """Return the cell of a chart beside values."""
        code = self.program.write_chart(self.sheets, self.conversation.is_zh) if self.values else ""
        return Call("python", {"code": code}) if code and not any(map(is_chart, self.conversation.steps)) else None

    def list_open(self) -> list[str]:
        """Return a premise that does not hold, a doubt, and the steps without a value, each with its reason."""
        is_zh = self.conversation.is_zh
        # What may be meant by words that nobody has read is the first thing to look at when a reading is doubted.
        unused = [str(one.get("words", "")) for one in self.program.unused]
        doubt = [] if self.program.is_certain else [*unused, say("doubtful", is_zh)]
        comma = "、" if is_zh else ", "
        assumed = [say("assumed", is_zh, one["words"], comma.join(one["columns"])) for one in self.program.assumptions]
        errors = {number: f" ({one['error']})" for number, (one, _) in self.outcomes.items() if one.get("error")}
        left = [label + errors.get(number, "") for number, label in self.labels.items() if number not in self.values]
        return [*self._check_premise(), *assumed, *doubt, *left]

    def _check_premise(self) -> Iterator[str]:
        """Yield that a value rose where the question takes for granted that it fell, or the other way round."""
        at = [number for number, one in enumerate(self.program.functions, 1) if {*one[:1]} & MOVES]
        moved = [self.values[number][0].get("value") for number in at if number in self.values]
        moves = [value for value in moved if isinstance(value, int | float)]
        went = "rise" if moves and min(moves) > 0 else "fall" if moves and max(moves) < 0 else ""
        # A rate counts the units of a currency for one euro, which are the more, the less it is worth.
        is_inverse = any(one.indicator == load_table("phrases")["inverse"] for one in self.program.series)
        if went and self.reading.premises - {went} and not is_inverse:
            yield say("presumes_fall" if went == "rise" else "presumes_rise", self.conversation.is_zh)

    @property
    def used_sheets(self) -> list[Sheet]:
        """Return the tables that the steps were computed from; none where no step has a value."""
        used = {variable for variable, _ in self.program.find_columns(self.sheets).values()}
        return [sheet for sheet in self.sheets if self.values and sheet["variable"] in used]

    def write_paragraphs(self) -> list[str]:
        """Return a line per step, and the conventions of the calculations; a refusal where no step has a value."""
        is_zh = self.conversation.is_zh
        if not self.values:
            left = join(filter(None, self.list_open()), is_zh) or self.conversation.question
            return [say("refused", is_zh, left + next((cited for _, cited in self.outcomes.values()), ""))]
        said = {text: cited for one, cited in self.values.values() for text in one.get("conventions", ())}
        conventions = join([text + cited for text, cited in said.items()], is_zh)
        return ["\n".join(self._write_lines()), *([conventions] if conventions else [])]

    def _write_lines(self) -> Iterator[str]:
        for number, (one, cited) in self.values.items():
            at = f"({number}) " if len(self.program.steps) > 1 else ""
            head, texts = f"- {at}{self.labels[number]}{'：' if self.conversation.is_zh else ': '}", one.get("said", ())
            if len(texts) == 1:
                yield f"{head}{texts[0]}{cited}"
            else:
                yield "\n".join([f"{head.rstrip()}{cited}", *(f"  - {text}{cited}" for text in texts)])
