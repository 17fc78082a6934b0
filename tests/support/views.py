"""Check of views: calls and their results stay together."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.domain.chat.messages import Message, Role


def find_split_pairs(messages: Sequence[Message], before: Sequence[Message]) -> list[str]:
    """Return the defects of a view: results without a call, and calls that lost a result they had in ``before``.

    A view is valid when the list is empty. Malformed calls, which never had a result, may stay alone.
    """
    problems = [f"the result of {call!r} has no call" for call in find_orphans(messages)]
    had = find_unanswered(before)
    return problems + [f"the call {call!r} lost its result" for call in find_unanswered(messages) if call not in had]


def find_orphans(messages: Sequence[Message]) -> list[str]:
    """Return the ids of results without a call in the preceding assistant message."""
    found, open_calls = [], [""]
    for message in messages:
        if message.role is Role.ASSISTANT:
            open_calls = [call.id for call in message.tool_calls]
        elif message.role is Role.TOOL:
            if message.tool_call_id in open_calls:
                open_calls.remove(message.tool_call_id)
            else:
                found.append(message.tool_call_id)
    return found


def find_unanswered(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Return calls without a result, as (id, arguments)."""
    found: list[tuple[str, str]] = []
    waiting: list[tuple[str, str]] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            found += waiting
            waiting = [(call.id, call.arguments_json) for call in message.tool_calls]
        elif message.role is Role.TOOL:
            match = next((call for call in waiting if call[0] == message.tool_call_id), None)
            if match is not None:
                waiting.remove(match)
    return found + waiting
