"""The walk of a calculation: its series, one cell with all steps, a chart, documents where reasons are asked for, and
the answer, a line per step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

from fathom.domain.text.terms import is_chinese
from fathom.services.policy.reference.answer import Findings, mend, say, write_ending, write_figures, write_quotes
from fathom.services.policy.reference.calls import Call
from fathom.services.policy.reference.cells import is_chart, list_columns
from fathom.services.policy.reference.conversation import Conversation, Step
from fathom.services.policy.reference.documents import list_quotes
from fathom.services.policy.reference.phrasing import describe_step, show_result
from fathom.services.policy.reference.programs import (
    Outcome,
    Program,
    list_functions,
    read_outcomes,
    write_program_chart,
)
from fathom.services.policy.reference.reading import Reading, is_reason, load_table, read_step

# Tables that an answer places: more are in the cell's list of inputs.
MOST_TABLES = 3
# Functions whose value is a move from one date to another one.
MOVES = frozenset({"ret", "pct", "change", "cagr"})


class DocumentWalk(Protocol):
    """Finds and reads documents."""

    def search(self) -> Call | None: ...

    def read(self) -> Call | None: ...


class Calculation:
    """The steps of a program as calls of tools, as far as the conversation has come."""

    def __init__(self, conversation: Conversation, program: Program, documents: DocumentWalk) -> None:
        self._conversation, self._program, self._documents = conversation, program, documents
        self._is_zh = is_chinese(conversation.question)

    def next(self) -> Call:
        """Return the next call, ``finish`` when all steps are computed or nothing more can be tried."""
        intents = load_table("texts")["intent"]
        draft = mend(self._conversation)
        if draft is None and not self._conversation.is_last_round:
            for step in (self._fetch, self._compute, self._draw, self._look_for_reasons):
                call = step()
                if call is not None:
                    return Call(call.tool, {"intent": intents[call.tool][self._is_zh], **call.arguments}, call.beside)
        text, is_shortened = draft or (self._compose(), False)
        left = [*self._list_open(), *([say("removed", self._is_zh)] if is_shortened else [])]
        stated = {"reading": {"open": left}} if left else {}
        return Call("finish", {"intent": intents["finish"][self._is_zh], "answer": text, **stated})

    @cached_property
    def _fetches(self) -> list[Step]:
        return [step for step in self._conversation.of("data") if "question" not in step.arguments]

    @cached_property
    def _sheets(self) -> list[Mapping[str, Any]]:
        return [sheet for step in self._fetches if step.is_ok for sheet in step.head.get("sheets", ())]

    @cached_property
    def _outcomes(self) -> list[Outcome]:
        return read_outcomes(self._conversation.of("python"))

    @cached_property
    def _reading(self) -> Reading:
        return read_step(self._conversation.of("data")[0])

    def _fetch(self) -> Call | None:
        asked = [
            {name: list(step.arguments.get(name, ())) for name in ("entities", "indicators")} for step in self._fetches
        ]
        left = [query for query in self._program.queries if query not in asked]
        return Call("data", left[0]) if left else None

    def _compute(self) -> Call | None:
        is_done = bool(self._outcomes) or any("run(" in str(step.arguments) for step in self._conversation.of("python"))
        has_all = len(self._program.find_columns(self._sheets)) == len(self._program.series)
        return (
            Call("python", {"code": self._program.write_cell(self._sheets, self._labels)})
            if has_all and not is_done
            else None
        )

    def _draw(self) -> Call | None:
        code = write_program_chart(self._program, self._sheets, self._is_zh) if self._values else ""
        has_drawn = any(is_chart(step) for step in self._conversation.of("python"))
        return Call("python", {"code": code}) if code and not has_drawn else None

    def _look_for_reasons(self) -> Call | None:
        if not is_reason(self._conversation.question):
            return None
        return self._documents.search() or self._documents.read()

    @property
    def _values(self) -> list[Outcome]:
        return [one for one in self._outcomes if not one.error]

    @cached_property
    def _names(self) -> dict[str, str]:
        return {one.name: " ".join(one.words.split()) or one.name for one in self._program.series}

    @cached_property
    def _labels(self) -> list[str]:
        return [describe_step(code, self._names, self._is_zh) for code in self._program.steps]

    def _list_open(self) -> list[str]:
        """Return the steps that could not be computed, each with its reason, and a premise that does not hold."""
        failed = {one.number: one.error for one in self._outcomes if one.error}
        done = {one.number for one in self._values}
        left = [(label, failed.get(number, "")) for number, label in enumerate(self._labels, 1) if number not in done]
        texts = [label + (f" ({why})" if why else "") for label, why in left]
        doubt = "" if self._program.is_certain else say("doubtful", self._is_zh)
        assumed = [self._describe_assumption(one) for one in self._program.assumptions]
        return [text for text in (self._premise, *assumed, doubt, *texts) if text]

    def _describe_assumption(self, assumption: Mapping[str, Any]) -> str:
        """Return which columns of the user's own table words were taken for."""
        columns = ("、" if self._is_zh else ", ").join(map(str, assumption.get("columns", ())))
        return say("assumed", self._is_zh, assumption.get("words", ""), columns)

    @property
    def _premise(self) -> str:
        """Return that a value rose where the question takes for granted that it fell, or the other way round."""
        rates = {column.get("indicator") for sheet in self._sheets for column in list_columns(sheet)}
        if load_table("measures")["inverse"] in rates:
            return ""
        moved = [number for number, code in enumerate(self._program.steps, 1) if {*list_functions(code)[:1]} & MOVES]
        values = [one.printed.get("value") for one in self._values if one.number in moved]
        moves = [value for value in values if isinstance(value, int | float)]
        went = "rise" if moves and min(moves) > 0 else "fall" if moves and max(moves) < 0 else ""
        if not went or not any(premise not in ("", went) for _, _, premise in self._reading.asked):
            return ""
        words = load_table("texts")["premise"]
        other = "rise" if went == "fall" else "fall"
        return say("premise", self._is_zh, words[other][self._is_zh], words[went][self._is_zh]).rstrip(".。")

    def _compose(self) -> str:
        """Return the answer: a line per step, the conventions, tables, charts, reasons, and how old the data are."""
        found = Findings(
            replace(self._conversation, steps=tuple(self._shown_steps)),
            replace(self._reading, missing=()),
            (),
            (),
            self._sheets,
            list_quotes(self._conversation, self._reading),
        )
        lines = list(self._write_lines())
        if not self._values:
            left = "; ".join(self._list_open()) or self._conversation.question
            source = next((f" [{one.material}]" for one in self._outcomes if one.material), "")
            lines = [say("refused", self._is_zh, left + source)]
        tables = [f"{{{{table:{sheet['variable']}}}}}" for sheet in self._used_sheets]
        shown = tables if self._values else []
        parts = ["\n".join(lines), *self._write_conventions(), *shown, *write_figures(found), *write_quotes(found)]
        return "\n\n".join([*filter(None, parts), *write_ending(found)])

    @property
    def _shown_steps(self) -> list[Step]:
        # What the data tool made of the question's words is not what is computed here.
        return [step for step in self._conversation.steps if not (step.tool == "data" and "question" in step.arguments)]

    @property
    def _used_sheets(self) -> list[Mapping[str, Any]]:
        used = {variable for variable, _ in self._program.find_columns(self._sheets).values()}
        return [sheet for sheet in self._sheets if sheet["variable"] in used][:MOST_TABLES]

    def _write_lines(self) -> Iterator[str]:
        for one in self._values:
            label = self._labels[one.number - 1]
            texts = list(show_result(one.printed, self._is_zh))
            colon, cited = "：" if self._is_zh else ": ", f" [{one.material}]" if one.material else ""
            number = f"({one.number}) " if len(self._program.steps) > 1 else ""
            if len(texts) == 1:
                yield f"- {number}{label}{colon}{texts[0]}{cited}"
            else:
                yield f"- {number}{label}{colon.rstrip()}{cited}"
                yield from (f"  - {text}{cited}" for text in texts)

    def _write_conventions(self) -> Iterator[str]:
        """Yield each convention of the calculations once."""
        name = "convention_zh" if self._is_zh else "convention"
        said = {str(one.printed[name]): one.material for one in self._values if one.printed.get(name)}
        texts = [f"{text} [{material}]" if material else text for text, material in said.items()]
        if texts:
            yield ("；" if self._is_zh else "; ").join(texts)


def refuse_program(conversation: Conversation, program: Program) -> Call | None:
    """Return the answer that names what a question asks for and is not here; None where other ways are open."""
    is_zh = is_chinese(conversation.question)
    if program.kind == "outside":
        text = say("outside", is_zh, f"“{conversation.question[:200]}”")
        return finish(text, [conversation.question[:200]], is_zh)
    is_gap = program.kind == "calculation" and bool(program.missing)
    asked = conversation.of("data")[0]
    # What is known of several series can be answered, and words with a meaning of their own are no unknown name.
    if not is_gap or program.series or mend(conversation) is not None or has_known_words(program, read_step(asked)):
        return None
    cited = f" [{asked.material}]" if asked.material else ""
    texts = [write_gap(one, is_zh) for one in program.missing]
    body = ("；" if is_zh else "; ").join(dict.fromkeys(texts)) + cited + ("。" if is_zh else ".")
    return finish(body, [str(one.get("words", "")) for one in program.missing], is_zh)


def has_known_words(program: Program, reading: Reading) -> bool:
    """Return whether words that no series bears hold a name or a measure that the data tool knows."""
    known = [text.casefold() for kind, text, _ in reading.mentions if kind in ("entity", "indicator", "measure")]
    words = [one["words"].casefold() for one in program.missing if one.get("reason") == "UNKNOWN_SERIES"]
    return any(text in word for text in known for word in words)


def write_gap(gap: Mapping[str, str], is_zh: bool) -> str:
    """Return why words of a question cannot be used."""
    if gap.get("reason") == "UNKNOWN_SERIES":
        return say("no_series", is_zh, str(gap.get("words", "")))
    return say("no_period", is_zh, str(gap.get("words", "")), str(gap.get("detail", "")).rstrip("."))


def finish(text: str, left: Sequence[str], is_zh: bool) -> Call:
    """Return the call that ends with an answer which leaves something open."""
    intent = load_table("texts")["intent"]["finish"][is_zh]
    return Call("finish", {"intent": intent, "answer": text, "reading": {"open": list(dict.fromkeys(left))}})
