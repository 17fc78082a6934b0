"""Partition of a view into blocks: the opening, notes on removed steps, and one block per step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.quoting import shorten
from fathom.services.planner.model.compaction import ViewMessage, result_id
from fathom.services.planner.model.episode import Episode, ToolResult, ToolStatus
from fathom.services.planner.model.todo import TODO

# A title stays recognisable; texts go.
TITLE_CHARS = 80
NOT_IN_A_LINE = frozenset({"summary", "text", "detail", "description"})
"""Fields of a result's header omitted from its one-line form; ``recall`` returns them."""


@dataclass(frozen=True)
class BlockMessage:
    """A message after the model's own: a tool result with its id, or a message of the planner or the user."""

    shown: ViewMessage
    id: str = ""
    result: ToolResult | None = None


@dataclass(frozen=True)
class Block:
    """One step as shown: the model's message and the messages that follow until its next one."""

    step: int
    said: ViewMessage
    given: tuple[BlockMessage, ...] = ()

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(item.result for item in self.given if item.result is not None)

    @property
    def messages(self) -> tuple[ViewMessage, ...]:
        return (self.said, *(item.shown for item in self.given))


@dataclass(frozen=True)
class Layout:
    """A view in parts. ``notes`` are a call and its result that stand for removed steps."""

    opening: tuple[ViewMessage, ...]
    notes: tuple[ViewMessage, ...]
    blocks: tuple[Block, ...]

    @property
    def messages(self) -> tuple[ViewMessage, ...]:
        return (*self.opening, *self.notes, *(item for block in self.blocks for item in block.messages))


def make_layout(episode: Episode, new: Sequence[Message]) -> Layout:
    """Return the next view in parts."""
    known = len(episode.messages)
    messages = (*episode.messages, *new)
    # Positions of the model's own messages, each behind the new messages of its step: a block begins there.
    speaks, position = {}, 0
    for step in episode.steps:
        position += len(step.new_messages)
        speaks[position] = step
        position += 1
    opening, notes, blocks = [], [], []
    for item in (*episode.shown, *(ViewMessage(known + offset) for offset in range(len(new)))):
        if item.source < 0:
            notes.append(item)
        elif item.source < len(episode.opening):
            opening.append(item)
        elif item.source in speaks:
            blocks.append(Block(speaks[item.source].index, item))
        else:
            # Everything behind the model's message belongs to its block, so that a call never loses its result:
            # endpoints refuse one without the other.
            last = blocks[-1]
            blocks[-1] = replace(last, given=(*last.given, BlockMessage(item)))
    named = tuple(match_results(block, episode, messages) for block in blocks)
    return Layout(tuple(opening), tuple(notes), named)


def match_results(block: Block, episode: Episode, messages: Sequence[Message]) -> Block:
    """Return the block with its tool messages matched to their results; both are in the order of the calls."""
    results = iter(enumerate(episode.steps[block.step].results))
    given = []
    for item in block.given:
        found = next(results, None) if messages[item.shown.source].role is Role.TOOL else None
        given.append(item if found is None else BlockMessage(item.shown, result_id(block.step, found[0]), found[1]))
    return replace(block, given=tuple(given))


def reduce_to_lines(blocks: Sequence[Block], keep: int) -> tuple[Block, ...]:
    """Return the blocks with results as one line each, except the newest ``keep`` ones and the current todo list."""
    plans = [item.id for block in blocks for item in block.given if is_plan(item)]
    left, found = keep, []
    for block in reversed(blocks):
        given = []
        for item in reversed(block.given):
            if item.result is not None and left > 0:
                left -= 1
            # The newest todo list stays whole, since the model works by it.
            elif item.result is not None and item.id not in plans[-1:]:
                item = replace(item, shown=ViewMessage(item.shown.source, format_line(item.id, item.result)))
            given.append(item)
        found.append(replace(block, given=tuple(reversed(given))))
    return tuple(reversed(found))


def is_plan(item: BlockMessage) -> bool:
    """Return whether the item is a result that shows the todo list."""
    return item.result is not None and item.result.call.name == TODO and item.result.status is ToolStatus.OK


def format_line(id: str, result: ToolResult) -> Message:
    """Return a result as one line of JSON: its status, its numbers for citations, its sheets' columns."""
    head: Any
    try:
        head = json.loads(result.content.partition("\n")[0])
    except ValueError:
        head = None
    if not isinstance(head, dict):
        head = {"tool": result.call.name, "status": result.status.value}
    # Numbers of material and columns of sheets stay in the line: the model can still cite and compute.
    line = {**abridge(head), "left_out": len(result.content), "recall": {"round": parse_round(id)}}
    content = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    # A result may be shorter than a line about it; then nothing is gained.
    text = content if len(content) < len(result.content) else result.content
    return Message(Role.TOOL, text, tool_call_id=result.call.id)


def parse_round(id: str) -> int:
    """Return the round of a result as ``recall`` counts it, from 1."""
    return int(id.partition("-")[0]) + 1


def abridge(value: Any) -> Any:
    """Return a JSON value without long texts and empty fields."""
    if isinstance(value, dict):
        kept = {name: abridge(part) for name, part in value.items() if name not in NOT_IN_A_LINE}
        return {name: part for name, part in kept.items() if part not in ("", None)}
    if isinstance(value, list):
        return [abridge(part) for part in value]
    if isinstance(value, str) and len(value) > TITLE_CHARS:
        return f"{value[:TITLE_CHARS]}…"
    return value


def cut_long(blocks: Sequence[Block], messages: Sequence[Message], chars: int) -> tuple[Block, ...]:
    """Return the blocks with results cut to ``chars`` characters, keeping head and tail; a last resort."""

    def cut(item: BlockMessage) -> BlockMessage:
        message = item.shown.text(messages)
        if item.result is None or len(message.content) <= chars:
            return item
        text = f"{shorten(message.content, chars)}\n(the whole: recall round {parse_round(item.id)})"
        return replace(item, shown=ViewMessage(item.shown.source, replace(message, content=text)))

    return tuple(replace(block, given=tuple(cut(item) for item in block.given)) for block in blocks)
