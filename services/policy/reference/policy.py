"""The next call of the reference policy: data, a computation, a chart, documents, then the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from fathom.domain.chat.tolerant import items
from fathom.domain.text.terms import is_chinese, is_small_talk
from fathom.services.policy.reference.answer import Findings, compose, mend, say
from fathom.services.policy.reference.cells import (
    Result,
    is_chart,
    list_columns,
    read_results,
    write_cell,
    write_chart,
)
from fathom.services.policy.reference.conversation import Conversation, Step
from fathom.services.policy.reference.documents import Quote, choose_hit, list_quotes
from fathom.services.policy.reference.reading import (
    Plan,
    Reading,
    Refusal,
    add_series,
    inherit,
    is_incomplete,
    is_reason,
    load_table,
    make_plan,
    needs_history,
    read_step,
)

# Rows of a table that a reader takes in as they stand; longer ones are summed up.
FEW_ROWS = 12
# As many as one run may delegate by default.
MOST_PARTS = 4
CITATION = re.compile(r"\s*\[[\d, ]+\]")


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    tool: str
    arguments: Mapping[str, Any]
    beside: tuple[Call, ...] = ()
    """Further calls of the same round."""


class Walk:
    """The walk through the tools for one conversation, as far as its results say that it has come."""

    def __init__(self, conversation: Conversation, tools: Sequence[str]) -> None:
        self._conversation, self._tools = conversation, frozenset(tools)
        questions = [step for step in conversation.of("data") if "question" in step.arguments]
        self._asked, self._recalled = questions[:1], questions[1:]
        self._fetched = [step for step in conversation.of("data") if "question" not in step.arguments]

    def next(self) -> Call:
        """Return the next call, ``finish`` when nothing is left to try or only that is allowed."""
        intents = load_table("texts")["intent"]
        draft, is_zh = mend(self._conversation), is_chinese(self._conversation.question)
        for step in () if self._conversation.is_last_round or draft is not None else self._list_steps():
            call = step()
            if call is not None and call.tool in self._tools:
                return Call(call.tool, {"intent": intents[call.tool][is_zh], **call.arguments})
        text = compose(self._findings) if draft is None else draft
        unknown = [word[:120] for word in [*self._reading.texts("unknown"), *self._findings.open_clauses]][:20]
        removed = say("removed", is_chinese(draft or ""))
        # What the planner's checks took away is open, and a reader must not take the rest for the whole answer.
        unknown += [removed] if draft is not None and draft.endswith(removed) else []
        stated = {"reading": {"open": unknown}} if unknown else {}
        return Call("finish", {"intent": intents["finish"][is_zh], "answer": text, **stated})

    def _list_steps(self) -> tuple[Callable[[], Call | None], ...]:
        if is_small_talk(self._conversation.question):
            return (self._ask,)
        return (
            self._ask,
            self._recall,
            self._look_up,
            self._fetch,
            self._compute,
            self._draw,
            self._search,
            self._read,
        )

    @cached_property
    def _reading(self) -> Reading:
        reading = read_step(self._asked[-1]) if self._asked else Reading()
        for step in self._recalled:
            reading = inherit(reading, read_step(step))
        for step in self._conversation.of("catalogue"):
            reading = add_series(reading, step)
        return reading

    @cached_property
    def _sheets(self) -> list[Mapping[str, Any]]:
        # Those of a follow-up were made without what it leaves out.
        asked = [] if self._recalled or self._refers_back else self._asked
        return [sheet for step in asked if step.is_ok for sheet in step.head.get("sheets", ())]

    @property
    def _refers_back(self) -> bool:
        return "same" in self._reading.values("output") and not self._reading.windows

    @cached_property
    def _results(self) -> list[Result]:
        return read_results(self._conversation.of("python"))

    @cached_property
    def _quotes(self) -> list[Quote]:
        return list_quotes(self._conversation, self._reading)

    @cached_property
    def _plan(self) -> Plan | Refusal | None:
        plan = make_plan(self._reading)
        if isinstance(plan, Plan) or not self._sheets:
            return plan
        # What cannot be computed here the data tool may have: its tables are the answer, long ones summed up.
        if any(sheet.get("rows", 0) > FEW_ROWS for sheet in self._sheets):
            return Plan({}, ("summary",), tuple(self._reading.windows[:1]) or (("", ""),))
        return None

    @cached_property
    def _own_series(self) -> Mapping[str, Any] | None:
        """The table of the question itself, where it has the series from which the plan is computed."""
        plan, (sheet, *others) = self._plan, (*self._sheets, None)
        if not isinstance(plan, Plan) or sheet is None or others[:-1] or sheet.get("rows", 0) <= FEW_ROWS:
            return None
        held = [column.get("entity") for column in list_columns(sheet)]
        has_other = "frequency" in plan.query or len(plan.query.get("indicators", ())) > 1 or needs_history(plan)
        return sheet if not plan.query or (held == plan.query.get("entities") and not has_other) else None

    @cached_property
    def _series(self) -> Mapping[str, Any] | None:
        """The table from which the plan is computed."""
        sheets = [sheet for step in self._fetched if step.is_ok for sheet in step.head.get("sheets", ())]
        return self._own_series or max(sheets, key=lambda sheet: len(list_columns(sheet)), default=None)

    @property
    def _findings(self) -> Findings:
        refused = self._plan.words if isinstance(self._plan, Refusal) else ()
        sheets = [self._series] if self._results and self._series is not None else self._sheets
        return Findings(self._conversation, self._reading, refused, self._results, sheets, self._quotes)

    def _ask(self) -> Call | None:
        return None if self._asked else Call("data", {"question": self._conversation.question[:2000]})

    def _recall(self) -> Call | None:
        """Read the question before, from which a follow-up takes what it leaves out."""
        earlier = self._conversation.earlier
        is_needed = earlier and not self._recalled and is_incomplete(self._reading)
        return Call("data", {"question": earlier[:2000]}) if is_needed else None

    def _look_up(self) -> Call | None:
        """Ask the catalogue for words that the data tool does not know, when it knows no other."""
        unknown = " ".join(self._reading.texts("unknown"))
        has_names = self._reading.entities or self._reading.values("indicator")
        if self._sheets or has_names or not unknown or self._conversation.of("catalogue"):
            return None
        return Call("catalogue", {"query": unknown[:500]})

    def _fetch(self) -> Call | None:
        plan = self._plan
        is_needed = isinstance(plan, Plan) and self._own_series is None and not self._fetched
        return Call("data", plan.query) if isinstance(plan, Plan) and is_needed else None

    def _compute(self) -> Call | None:
        if not isinstance(self._plan, Plan) or self._series is None or self._conversation.of("python"):
            return None
        return Call("python", {"code": write_cell(self._plan, self._series)})

    def _draw(self) -> Call | None:
        is_drawn = any(is_chart(step) for step in self._conversation.of("python"))
        if not isinstance(self._plan, Plan) or self._series is None or is_drawn or not self._results:
            return None
        code = write_chart(self._plan, self._series, is_chinese(self._conversation.question))
        return Call("python", {"code": code}) if code else None

    def _search(self) -> Call | None:
        """Search documents for reasons, and for what the tables do not have."""
        question = self._conversation.question
        if self._conversation.of("search") or ((self._sheets or self._results) and not is_reason(question)):
            return None
        return Call("search", {"query": question[:2000]})

    def _read(self) -> Call | None:
        chosen = "" if self._quotes else choose_hit(self._conversation)
        return Call("fetch", {"id": chosen}) if chosen else None


def next_call(conversation: Conversation, tools: Sequence[str]) -> Call:
    """Return the next call of the reference policy; the questions of a list are given to researchers of their own."""
    parts = [text for text in items(conversation.question) if text.endswith(("?", "？"))][:MOST_PARTS]
    if "delegate" not in tools or len(parts) < 2 or mend(conversation) is not None:
        return Walk(conversation, tools).next()
    results = conversation.of("delegate")
    if not results and not conversation.is_last_round:
        intent = load_table("texts")["intent"]["delegate"][is_chinese(conversation.question)]
        first, *others = [Call("delegate", {"intent": intent, "question": part}) for part in parts]
        return replace(first, beside=tuple(others))
    return answer_parts(conversation, tools, results)


def answer_parts(conversation: Conversation, tools: Sequence[str], results: Sequence[Step]) -> Call:
    """Return the answers of the researchers under their questions; the first one that failed is answered here."""
    texts = [f"### {step.arguments.get('question', '')}\n\n{step.body}" for step in results if step.is_ok]
    failed = next((step for step in results if not step.is_ok), None)
    arguments: Mapping[str, Any] = {
        "intent": load_table("texts")["intent"]["finish"][is_chinese(conversation.question)]
    }
    if failed is not None:
        own = tuple(step for step in conversation.steps if step.tool != "delegate")
        part = str(failed.arguments.get("question", ""))
        call = Walk(replace(conversation, question=part, steps=own), tools).next()
        if call.tool != "finish":
            return call
        arguments = call.arguments
        texts += [f"### {part}\n\n{call.arguments['answer']}"]
        texts += [say("failed", is_chinese(part), f"delegate: {failed.head.get('error', '')}")]
    # What every researcher says, such as the date of the data, is said once.
    paragraphs = {CITATION.sub("", text): text for text in reversed("\n\n".join(texts).split("\n\n")) if text.strip()}
    return Call("finish", {**arguments, "answer": "\n\n".join(reversed(paragraphs.values()))})
