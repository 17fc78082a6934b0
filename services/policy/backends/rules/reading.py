"""Conversation as read by the reference policy: one question, and the tool results so far."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.domain.chat.guidance import question_of
from fathom.domain.chat.hermes import OPEN, parse_tool_calls
from fathom.domain.chat.messages import Message, Role, ToolCall
from fathom.domain.chat.notices import is_note
from fathom.domain.chat.quoting import unquote

UNREADABLE = "the result is not in the agreed form"


@dataclass(frozen=True)
class Step:
    """A call and its result: ``head`` is the result's JSON line, ``body`` the text below it."""

    tool: str
    arguments: Mapping[str, Any]
    head: Mapping[str, Any]
    body: str

    @property
    def ok(self) -> bool:
        return self.head.get("status") == "ok"

    @property
    def material(self) -> int:
        """Return the number to cite; 0 for none."""
        number = self.head.get("material", 0)
        return number if isinstance(number, int) else 0


@dataclass(frozen=True)
class Reading:
    """The question and its steps. ``last_round`` is True when a message follows the last result: time to finish."""

    question: str
    steps: tuple[Step, ...]
    last_round: bool

    def of(self, tool: str) -> list[Step]:
        """Return the calls of one tool in order."""
        return [step for step in self.steps if step.tool == tool]


def read(messages: Sequence[Message]) -> Reading:
    """Read the last question of the conversation and the steps since then, ignoring notes."""
    # Notes on budget and todo list are the planner's; taken for the user's they would become the question.
    messages = [message for message in messages if not is_note(message)]
    start = question_index(messages)
    calls: dict[str, ToolCall] = {}
    unanswered: list[ToolCall] = []
    steps: list[Step] = []
    for message in messages[start + 1 :]:
        if message.role is Role.ASSISTANT:
            made = message.tool_calls or parse_tool_calls(message.content)[1]
            calls.update((call.id, call) for call in made)
            unanswered = list(made)
        elif message.role is Role.TOOL:
            # Endpoints without call ids: results come in the order of the calls.
            call = calls.get(message.tool_call_id) or (unanswered[0] if unanswered else None)
            if call in unanswered:
                unanswered.remove(call)
            steps.append(step_of(call, message.content))
    said_last = len(messages) - 1 > start and messages[-1].role is Role.USER
    text = messages[start].content if start >= 0 else ""
    return Reading(question_of(text).strip(), tuple(steps), said_last)


def question_index(messages: Sequence[Message]) -> int:
    """Return the index of the last user message that is a question; -1 without one."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role is not Role.USER:
            continue
        before = messages[index - 1] if index else None
        # A user message after a tool result or a malformed call is a remark, not a question.
        interjected = before is not None and (
            before.role is Role.TOOL
            or (before.role is Role.ASSISTANT and (bool(before.tool_calls) or OPEN in before.content))
        )
        if not interjected:
            return index
    return -1


def step_of(call: ToolCall | None, content: str) -> Step:
    """Build a step; a result in an unexpected format counts as failed."""
    first, _, body = content.partition("\n")
    head = json_object(first)
    if head is None:
        head, body = {"status": "failed", "error": UNREADABLE}, content
    tool = call.name if call else str(head.get("tool", ""))
    arguments = json_object(call.arguments_json) if call else None
    return Step(tool, arguments or {}, head, unquote(body).strip())


def json_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object; None for anything else."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
