"""Partition of a view into blocks: the opening, notes on removed steps, and one block per step.

Views are cut between blocks only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.protocol.messages import Message, Role
from services.planner.model import Episode, ToolResult, ToolState
from services.planner.todo import TODO
from services.planner.tools.tool import shortened
from services.planner.window.record import Shown, result_id

TITLE_CHARS = 80
NOT_IN_A_LINE = frozenset({"summary", "text", "detail", "description"})
"""Fields of a result's header omitted from its one-line form; ``recall`` returns them."""


@dataclass(frozen=True)
class Given:
    """A message after the model's own: a tool result with its id, or a message of the planner or the user."""

    shown: Shown
    id: str = ""
    result: ToolResult | None = None


@dataclass(frozen=True)
class Block:
    """One step as shown: the model's message and the messages that follow until its next one."""

    step: int
    said: Shown
    given: tuple[Given, ...] = ()

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(item.result for item in self.given if item.result is not None)

    @property
    def shown(self) -> tuple[Shown, ...]:
        return (self.said, *(item.shown for item in self.given))


@dataclass(frozen=True)
class Layout:
    """A view in parts. ``notes`` are a call and its result that stand for removed steps."""

    opening: tuple[Shown, ...]
    notes: tuple[Shown, ...]
    blocks: tuple[Block, ...]

    @property
    def shown(self) -> tuple[Shown, ...]:
        return (*self.opening, *self.notes, *(item for block in self.blocks for item in block.shown))


def layout(episode: Episode, new: Sequence[Message]) -> Layout:
    """Return the next view in parts."""
    known = len(episode.messages)
    messages = (*episode.messages, *new)
    speaks, position = {}, 0
    for step in episode.steps:
        position += len(step.new_messages)
        speaks[position] = step
        position += 1
    opening, notes, blocks = [], [], []
    for item in (*episode.shown, *(Shown(known + offset) for offset in range(len(new)))):
        if item.source < 0:
            notes.append(item)
        elif item.source < len(episode.opening):
            opening.append(item)
        elif item.source in speaks:
            blocks.append(Block(speaks[item.source].index, item))
        else:
            last = blocks[-1]
            blocks[-1] = replace(last, given=(*last.given, Given(item)))
    named = tuple(with_results(block, episode, messages) for block in blocks)
    return Layout(tuple(opening), tuple(notes), named)


def with_results(block: Block, episode: Episode, messages: Sequence[Message]) -> Block:
    """Return the block with its tool messages matched to their results; both are in the order of the calls."""
    results = iter(enumerate(episode.steps[block.step].results))
    given = []
    for item in block.given:
        found = next(results, None) if messages[item.shown.source].role is Role.TOOL else None
        given.append(item if found is None else Given(item.shown, result_id(block.step, found[0]), found[1]))
    return replace(block, given=tuple(given))


def split_pairs(messages: Sequence[Message], before: Sequence[Message]) -> list[str]:
    """Return the defects of a view: results without a call, and calls that lost a result they had in ``before``.

    A view is valid when the list is empty. Malformed calls, which never had a result, may stay alone.
    """
    problems = [f"the result of {call!r} has no call" for call in orphans(messages)]
    had = unanswered(before)
    return problems + [f"the call {call!r} lost its result" for call in unanswered(messages) if call not in had]


def orphans(messages: Sequence[Message]) -> list[str]:
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


def unanswered(messages: Sequence[Message]) -> list[tuple[str, str]]:
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


def lined(blocks: Sequence[Block], keep: int) -> tuple[Block, ...]:
    """Return the blocks with results as one line each, except the newest ``keep`` ones and the current todo list."""
    plans = [item.id for block in blocks for item in block.given if is_plan(item)]
    left, found = keep, []
    for block in reversed(blocks):
        given = []
        for item in reversed(block.given):
            if item.result is not None and left > 0:
                left -= 1
            elif item.result is not None and item.id not in plans[-1:]:
                item = replace(item, shown=Shown(item.shown.source, one_line(item.id, item.result)))
            given.append(item)
        found.append(replace(block, given=tuple(reversed(given))))
    return tuple(reversed(found))


def is_plan(item: Given) -> bool:
    """Return whether the item is a result that shows the todo list."""
    return item.result is not None and item.result.call.name == TODO and item.result.status is ToolState.OK


def one_line(id: str, result: ToolResult) -> Message:
    """Return a result as one line of JSON: its status, its numbers for citations, its sheets' columns."""
    head: Any
    try:
        head = json.loads(result.content.partition("\n")[0])
    except ValueError:
        head = None
    if not isinstance(head, dict):
        head = {"tool": result.call.name, "status": result.status.value}
    line = {**brief(head), "left_out": len(result.content), "recall": {"round": round_of(id)}}
    content = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    # A result may be shorter than a line about it; then nothing is gained.
    text = content if len(content) < len(result.content) else result.content
    return Message(Role.TOOL, text, tool_call_id=result.call.id)


def round_of(id: str) -> int:
    """Return the round of a result as ``recall`` counts it, from 1."""
    return int(id.partition("-")[0]) + 1


def brief(value: Any) -> Any:
    """Return a JSON value without long texts and empty fields."""
    if isinstance(value, dict):
        kept = {name: brief(part) for name, part in value.items() if name not in NOT_IN_A_LINE}
        return {name: part for name, part in kept.items() if part not in ("", None)}
    if isinstance(value, list):
        return [brief(part) for part in value]
    if isinstance(value, str) and len(value) > TITLE_CHARS:
        return f"{value[:TITLE_CHARS]}…"
    return value


def cut_long(blocks: Sequence[Block], messages: Sequence[Message], chars: int) -> tuple[Block, ...]:
    """Return the blocks with results cut to ``chars`` characters, keeping head and tail; a last resort."""

    def cut(item: Given) -> Given:
        message = item.shown.text(messages)
        if item.result is None or len(message.content) <= chars:
            return item
        text = f"{shortened(message.content, chars)}\n(the whole: recall round {round_of(item.id)})"
        return replace(item, shown=Shown(item.shown.source, replace(message, content=text)))

    return tuple(replace(block, given=tuple(cut(item) for item in block.given)) for block in blocks)
