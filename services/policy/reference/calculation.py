"""A calculation: its series, one cell with all steps, a chart, and what the steps gave, a line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from fathom.services.policy.reference.answer import cite
from fathom.services.policy.reference.conversation import Call, Conversation, Step
from fathom.services.policy.reference.phrasing import describe_step, show_result
from fathom.services.policy.reference.programs import Outcome, Program, list_functions, read_outcomes
from fathom.services.policy.reference.reading import Reading, load_table, say
from fathom.services.policy.reference.tables import Sheet, list_columns

# Functions whose value is a move from one date to another one.
MOVES = frozenset({"ret", "pct", "change", "cagr"})
# Members of a group whose conventions differ, such as in their first day: more would hide the figures.
MOST_CONVENTIONS = 5


class Calculation:
    """The steps of a program as calls of tools and as lines, as far as the conversation has come."""

    def __init__(self, conversation: Conversation, program: Program, reading: Reading) -> None:
        self._conversation, self._program, self._reading = conversation, program, reading
        self._is_zh = conversation.is_zh

    @cached_property
    def _fetches(self) -> list[Step]:
        return [step for step in self._conversation.of("data") if "question" not in step.arguments]

    @cached_property
    def _sheets(self) -> list[Sheet]:
        return [sheet for step in self._fetches if step.is_ok for sheet in step.head.get("sheets", ())]

    @cached_property
    def _outcomes(self) -> list[Outcome]:
        return list(read_outcomes(self._conversation.of("python")))

    @property
    def _values(self) -> list[Outcome]:
        return [one for one in self._outcomes if not one.error]

    @cached_property
    def _labels(self) -> list[str]:
        names = {one.name: one.label for one in self._program.series}
        return [describe_step(code, names, self._is_zh) for code in self._program.steps]

    def fetch(self) -> Call | None:
        """Return the call for the next series."""
        asked = [
            {name: list(step.arguments.get(name, ())) for name in ("entities", "indicators")} for step in self._fetches
        ]
        return next((Call("data", query) for query in self._program.queries if query not in asked), None)

    def compute(self) -> Call | None:
        """Return the cell of all steps, once all series are here."""
        is_done = bool(self._outcomes) or any("run(" in str(step.arguments) for step in self._conversation.of("python"))
        if is_done or len(self._program.find_columns(self._sheets)) < len(self._program.series):
            return None
        return Call("python", {"code": self._program.write_cell(self._sheets, self._labels)})

    def draw(self) -> Call | None:
        """Return the cell of a chart beside values."""
        code = self._program.write_chart(self._sheets, self._is_zh) if self._values else ""
        has_drawn = any(step.is_chart for step in self._conversation.of("python"))
        return Call("python", {"code": code}) if code and not has_drawn else None

    def list_open(self) -> list[str]:
        """Return a premise that does not hold, a doubt, and the steps without a value, each with its reason."""
        failed = {one.number: one.error for one in self._outcomes if one.error}
        done = {one.number for one in self._values}
        left = [(label, failed.get(number, "")) for number, label in enumerate(self._labels, 1) if number not in done]
        # What may be meant by words that nobody has read is the first thing to look at when a reading is doubted.
        doubt = [] if self._program.is_certain else [*self._list_unread(), say("doubtful", self._is_zh)]
        assumed = [self._describe_assumption(one) for one in self._program.assumptions]
        return [self._premise, *assumed, *doubt, *(label + (f" ({why})" if why else "") for label, why in left)]

    def _list_unread(self) -> list[str]:
        """Return the question's words that the program does not use: names of indicators, and what nobody has read."""
        used = [words.casefold() for words in self._program.words]
        computed = {one.indicator for one in self._program.series}
        lacking = [
            # Periods and entities that it left out have kept it from being computed at all.
            text
            for kind, text, value in self._reading.mentions
            if kind == "unknown" or (kind == "indicator" and value not in computed)
        ]
        return [text for text in dict.fromkeys(lacking) if not any(text.casefold() in one for one in used)]

    def _describe_assumption(self, assumption: Mapping[str, Any]) -> str:
        """Return which columns of the user's own table words were taken for."""
        columns = ("、" if self._is_zh else ", ").join(map(str, assumption.get("columns", ())))
        return say("assumed", self._is_zh, assumption.get("words", ""), columns)

    @property
    def _premise(self) -> str:
        """Return that a value rose where the question takes for granted that it fell, or the other way round."""
        # A rate counts the units of a currency for one euro, which are the more, the less it is worth.
        if load_table("phrases")["inverse"] in {
            one.get("indicator") for sheet in self._sheets for one in list_columns(sheet)
        }:
            return ""
        moved = [number for number, code in enumerate(self._program.steps, 1) if {*list_functions(code)[:1]} & MOVES]
        values = [one.printed.get("value") for one in self._values if one.number in moved]
        moves = [value for value in values if isinstance(value, int | float)]
        went = "rise" if moves and min(moves) > 0 else "fall" if moves and max(moves) < 0 else ""
        if not went or not self._reading.premises - {went}:
            return ""
        words, other = load_table("texts")["premise"], "rise" if went == "fall" else "fall"
        return say("premise", self._is_zh, words[other][self._is_zh], words[went][self._is_zh]).rstrip(".。")

    @property
    def used_sheets(self) -> list[Sheet]:
        """Return the tables that the steps were computed from; none where no step has a value."""
        used = {variable for variable, _ in self._program.find_columns(self._sheets).values()}
        return [sheet for sheet in self._sheets if self._values and sheet["variable"] in used]

    def write_paragraphs(self) -> list[str]:
        """Return a line per step, and the conventions of the calculations; a refusal where no step has a value."""
        if not self._values:
            left = ("；" if self._is_zh else "; ").join(filter(None, self.list_open())) or self._conversation.question
            return [say("refused", self._is_zh, left + next((cite(one.material) for one in self._outcomes), ""))]
        said = {text: cite(one.material) for one in self._values for text in self._list_conventions(one.printed)}
        conventions = ("；" if self._is_zh else "; ").join(text + source for text, source in said.items())
        return ["\n".join(self._write_lines()), *filter(None, [conventions])]

    def _list_conventions(self, printed: Mapping[str, Any]) -> list[str]:
        """Return how a result was computed; of a group once where all members say the same, else by member."""
        name = "convention_zh" if self._is_zh else "convention"
        members = [one for one in printed.get("members", ()) if one.get(name)]
        texts = list(dict.fromkeys(str(one[name]) for one in members))
        if len(texts) > 1:
            colon = "：" if self._is_zh else ": "
            texts = [f"{one['key']}{colon}{one[name]}" for one in members[:MOST_CONVENTIONS]]
        return [str(printed[name])] if printed.get(name) else texts

    def _write_lines(self) -> Iterator[str]:
        colon = "：" if self._is_zh else ":"
        for one in self._values:
            number = f"({one.number}) " if len(self._program.steps) > 1 else ""
            head, cited = f"- {number}{self._labels[one.number - 1]}{colon}", cite(one.material)
            texts = list(show_result(one.printed, self._is_zh))
            if len(texts) == 1:
                yield f"{head}{'' if self._is_zh else ' '}{texts[0]}{cited}"
            else:
                yield "\n".join([f"{head}{cited}", *(f"  - {text}{cited}" for text in texts)])
