"""Results of tools as they stand in a conversation: a line of JSON for programs, and the quoted text below it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.domain.chat.hermes import parse_tool_calls
from fathom.domain.chat.messages import Message, Role, ToolCall
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
    def is_ok(self) -> bool:
        return self.head.get("status") == "ok"

    @property
    def material(self) -> int:
        """Return the number to cite; 0 for none."""
        number = self.head.get("material", 0)
        return number if isinstance(number, int) else 0


def read_steps(messages: Sequence[Message]) -> Iterator[Step]:
    """Yield the calls of a conversation with their results, in the order of the results."""
    calls: dict[str, ToolCall] = {}
    unanswered: list[ToolCall] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            unanswered = list(message.tool_calls or parse_tool_calls(message.content)[1])
            calls.update((call.id, call) for call in unanswered)
        elif message.role is Role.TOOL:
            # Endpoints without call ids give the results in the order of the calls.
            call = calls.get(message.tool_call_id) or (unanswered[0] if unanswered else None)
            if call in unanswered:
                unanswered.remove(call)
            yield make_step(call, message.content)


def make_step(call: ToolCall | None, content: str) -> Step:
    """Return a call with its result; a result in an unexpected form counts as failed."""
    first, _, body = content.partition("\n")
    head = parse_object(first)
    if head is None:
        head, body = {"status": "failed", "error": UNREADABLE}, content
    tool = call.name if call else str(head.get("tool", ""))
    arguments = parse_object(call.arguments_json) if call else None
    return Step(tool, arguments or {}, head, unquote(body).strip())


def list_objects(body: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a text that are JSON objects."""
    found = (parse_object(line.strip()) for line in body.splitlines() if line.lstrip().startswith("{"))
    yield from (one for one in found if one is not None)


def parse_object(text: str) -> dict[str, Any] | None:
    """Return a JSON object; None for anything else."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
