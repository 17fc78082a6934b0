"""The conversation as the policy reads it: one question, the tool calls since then with their results, and the next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.domain.chat.guidance import has_own_documents, question_of
from fathom.domain.chat.hermes import OPEN, parse_tool_calls
from fathom.domain.chat.messages import Message, Role, ToolCall
from fathom.domain.chat.notices import is_note
from fathom.domain.chat.quoting import unquote
from fathom.domain.profile.guidance import Line, find_value, read_memory
from fathom.domain.profile.kinds import Kind
from fathom.domain.text.terms import is_chinese

UNREADABLE = "the result is not in the agreed form"


@dataclass(frozen=True)
class Call:
    """A call of a tool, as the reference policy makes it; ``beside`` are further calls of the same round."""

    tool: str
    arguments: Mapping[str, Any]
    beside: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Step:
    """A call and its result: ``head`` is the result's JSON line, ``body`` the text below it."""

    tool: str
    arguments: Mapping[str, Any]
    head: Mapping[str, Any]
    body: str

    @property
    def is_ok(self) -> bool:
        return self.head.get("status") == "ok"

    @property
    def material(self) -> int:
        """Return the number to cite; 0 for none."""
        number = self.head.get("material", 0)
        return number if isinstance(number, int) else 0

    @property
    def is_chart(self) -> bool:
        """Return whether a cell was to draw a chart."""
        return str(self.arguments.get("code", "")).startswith("finance.chart")

    @property
    def has_failed(self) -> bool:
        """Return whether it failed; a draft that came back is no failure, and without a chart nothing is wrong."""
        is_part = self.tool != "finish" and not self.is_chart
        return is_part and self.head.get("status") in ("failed", "invalid", "refused")


@dataclass(frozen=True)
class Conversation:
    """The question and its steps; ``is_last_round`` when a message follows the last result: time to finish."""

    question: str
    steps: tuple[Step, ...]
    is_last_round: bool
    is_follow_up: bool = False
    memory: tuple[Line, ...] = ()
    """Lines of the user's memory in the prompt."""
    has_own_documents: bool = False
    """True where the run searches corpora of the user's choice."""

    @property
    def is_zh(self) -> bool:
        """Return whether the answer is to be in Chinese."""
        language = find_value(self.memory, Kind.LANGUAGE)
        return language == "zh" if language else is_chinese(self.question)

    def of(self, tool: str) -> list[Step]:
        """Return the calls of one tool in order."""
        return [step for step in self.steps if step.tool == tool]


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Read the last question of a conversation and the steps since then, ignoring the planner's notes."""
    messages = [message for message in messages if not is_note(message)]
    start = find_question(messages)
    calls: dict[str, ToolCall] = {}
    unanswered: list[ToolCall] = []
    steps: list[Step] = []
    for message in messages[start + 1 :]:
        if message.role is Role.ASSISTANT:
            unanswered = list(message.tool_calls or parse_tool_calls(message.content)[1])
            calls.update((call.id, call) for call in unanswered)
        elif message.role is Role.TOOL:
            # Endpoints without call ids give the results in the order of the calls.
            call = calls.get(message.tool_call_id) or (unanswered[0] if unanswered else None)
            if call in unanswered:
                unanswered.remove(call)
            steps.append(make_step(call, message.content))
    is_last_round = len(messages) - 1 > start and messages[-1].role is Role.USER
    question = question_of(messages[start].content).strip() if start >= 0 else ""
    is_follow_up = any(message.role is Role.USER for message in messages[: max(start, 0)])
    held = read_memory(messages[start].content.removeprefix(question)) if start >= 0 else ()
    has_own = start >= 0 and has_own_documents(messages[start].content)
    return Conversation(question, tuple(steps), is_last_round, is_follow_up, held, has_own)


def find_question(messages: Sequence[Message]) -> int:
    """Return the index of the last user message that is a question; -1 without one."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role is not Role.USER:
            continue
        before = messages[index - 1] if index else None
        # A user message behind a result or a malformed call is a remark of the planner.
        called = before is not None and (bool(before.tool_calls) or OPEN in before.content)
        if before is None or not (before.role is Role.TOOL or (before.role is Role.ASSISTANT and called)):
            return index
    return -1


def make_step(call: ToolCall | None, content: str) -> Step:
    """Return a step; a result in an unexpected form counts as failed."""
    first, _, body = content.partition("\n")
    head = parse_object(first)
    if head is None:
        head, body = {"status": "failed", "error": UNREADABLE}, content
    tool = call.name if call else str(head.get("tool", ""))
    arguments = parse_object(call.arguments_json) if call else None
    return Step(tool, arguments or {}, head, unquote(body).strip())


def parse_object(text: str) -> dict[str, Any] | None:
    """Return a JSON object; None for anything else."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
