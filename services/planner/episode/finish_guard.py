"""Guard against premature ends of an episode; it refuses one ``finish`` at most."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from fathom.domain.chat.messages import Message, Role, ToolCall
from fathom.domain.chat.quoting import neutral
from fathom.services.planner.coverage.stated import read_statement
from fathom.services.planner.model.episode import Episode, ToolStatus
from fathom.services.planner.model.slots import SlotState
from fathom.services.planner.model.todo import Todo

REFUSED = "Not finished yet: "
MARK = '{"tool": "finish", "status": "refused"'
NO_EVIDENCE = frozenset({"think", "todo", "finish"})
NeedsEvidence = Callable[[str], Awaitable[bool]]
"""Tells whether an answer to a question must rest on a source."""


def has_evidence(episode: Episode) -> bool:
    """Return whether any source was queried; an empty result is evidence too."""
    return any(
        result.call.name not in NO_EVIDENCE and result.status is not ToolStatus.INVALID
        for step in episode.steps
        for result in step.results
    )


def leaves_open(episode: Episode) -> bool:
    """Return whether the model states in ``finish`` what stays open, so that the answer claims no more than that."""
    stated = read_statement(episode.steps[-1].completion.tool_calls) if episode.steps else ()
    return any(slot.state is SlotState.OPEN for slot in stated)


async def find_refusal_reason(episode: Episode, todo: Todo, needs_evidence: NeedsEvidence | None) -> str:
    """Return why the episode must not end yet: "todo", "evidence" or ""; also "" after an earlier refusal.

    Without ``needs_evidence``, as in a replay, an answer without a source is not refused; nor is one that names in
    ``reading.open`` what stays open, as of a question that no tool can help with.
    """
    # Read from the messages, so that a resumed run does not refuse again.
    if any(message.content.startswith((MARK, REFUSED)) for message in episode.messages):
        return ""
    if todo.open_items:
        return "todo"
    if needs_evidence is None or has_evidence(episode) or leaves_open(episode):
        return ""
    if await needs_evidence(episode.task.question):
        return "evidence"
    return ""


def format_refusal(why: str, todo: Todo, call: ToolCall | None) -> Message:
    """Return the refusal as the result of the ``finish`` call, or as a message to a model that ended in prose."""
    if why == "todo":
        left = "; ".join(item.text for item in todo.open_items)
        said = (
            f"{REFUSED}the todo list has open entries ({left}). Do them, or mark them done or drop them, then finish."
        )
    else:
        said = (
            f"{REFUSED}no source was asked. Ask one, or finish again if the answer needs none; name in `reading.open`"
            " what stays open."
        )
    # Endpoints refuse a tool message without a call before it.
    if call is None:
        return Message(Role.USER, neutral(said))
    content = json.dumps({"tool": "finish", "status": "refused", "error": said}, ensure_ascii=False)
    return Message(Role.TOOL, neutral(content), tool_call_id=call.id)
