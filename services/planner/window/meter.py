"""Tokens of a request, counted by policy with the tokenizer and template of the model that will read it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.errors import InvalidField
from fathom.protocol.hermes import OPEN
from fathom.protocol.messages import Message, Role, ToolSpec, Usage
from services.planner.model import Episode

PROBE = Message(Role.SYSTEM, "s")
TURN_TOKENS = 8
"""What a turn costs beside its text where only the text could be counted."""
BYTES_PER_TOKEN, FEWEST, MOST = 3.0, 1.5, 5.0
"""UTF-8 bytes per token before an endpoint has told its own usage, and what is believed of it at all."""


class Tokens(Protocol):
    """Policy's own counts; raises ``FathomError``."""

    async def count(self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], prompt: bool) -> int:
        """Tokens of messages by the chat template; ``InvalidField("model")`` when the model tells no ids."""
        ...

    async def count_text(self, model: str, text: str) -> int:
        """Tokens of plain text."""
        ...

    async def window(self, model: str) -> int:
        """The model's own window in tokens."""
        ...


@dataclass(frozen=True)
class Frame:
    """Tokens of a request beside its messages."""

    tools: int
    prompt: int

    @property
    def whole(self) -> int:
        return self.tools + self.prompt


class Counted:
    """Counts of a planner's newest messages and of its tools, by model: the prefix is the same in all episodes."""

    def __init__(self, most: int = 2_048) -> None:
        self._most = most
        self._messages: dict[tuple[str, Message], int] = {}
        self.frames: dict[tuple[str, tuple[ToolSpec, ...]], Frame] = {}
        self.probes: dict[str, int] = {}

    def get(self, model: str, message: Message) -> int | None:
        return self._messages.get((model, message))

    def put(self, model: str, message: Message, tokens: int) -> None:
        self._messages[model, message] = tokens
        if len(self._messages) > self._most:
            del self._messages[next(iter(self._messages))]
        if len(self.frames) > self._most:
            self.frames.clear()


class Meter:
    """Counts for one episode. Each message is counted once; a round asks for its new messages only.

    Chat templates render message after message, so a request is the sum of its messages, its tools and the
    generation prompt. An endpoint without a tokenizer is measured by the usage that it reports: the last request as
    it counted it, and the new messages by the bytes that its tokens have had so far.
    """

    def __init__(self, tokens: Tokens, model: str, counted: Counted | None = None) -> None:
        """``counted`` is what other episodes have counted already."""
        self._tokens, self._model = tokens, model
        self._counted = counted or Counted()
        self._own: dict[Message, int] = {}
        self._blind = False
        self._ratio = BYTES_PER_TOKEN

    async def request(self, episode: Episode, new: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """Tokens of the request that goes on from an episode with new messages, generation prompt included."""
        frame = await self._frame(tools)
        visible = episode.visible
        if self._blind:
            return self._from_usage(episode, visible, new, tools)
        if episode.covered:
            fresh = sum(await self.costs((*visible[episode.covered :], *new)))
            # One more: the template's end of the model's turn, as far as the model did not write it itself.
            return len(episode.token_ids) + 1 + fresh + frame.prompt
        return frame.whole + sum(await self.costs((*visible, *new)))

    async def whole(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """Tokens of a request that is rendered from its beginning."""
        frame = await self._frame(tools)
        return frame.whole + sum(await self.costs(messages))

    async def costs(self, messages: Sequence[Message]) -> list[int]:
        """Tokens of each message, its turn's marks included."""
        if self._blind:
            return [self._guess(message) for message in messages]
        unknown = [message for message in dict.fromkeys(messages) if message not in self._own]
        counts = await asyncio.gather(*(self._cost(message) for message in unknown))
        self._own.update(zip(unknown, counts, strict=True))
        return [self._own[message] for message in messages]

    async def _cost(self, message: Message) -> int:
        known = self._counted.get(self._model, message)
        if known is None:
            known = await self._count(message)
            self._counted.put(self._model, message, known)
        return known

    async def _count(self, message: Message) -> int:
        try:
            if message.role is Role.SYSTEM:
                return await self._tokens.count(self._model, (message,), (), False)
            return await self._tokens.count(self._model, (PROBE, message), (), False) - await self._probe()
        except InvalidField:
            # The template wants other neighbours for it; its text can be counted alone.
            return await self._tokens.count_text(self._model, written(message)) + TURN_TOKENS

    async def _frame(self, tools: Sequence[ToolSpec]) -> Frame:
        key, frames = (self._model, tuple(tools)), self._counted.frames
        if key not in frames and not self._blind:
            try:
                probe, bare, whole = await asyncio.gather(
                    self._probe(),
                    self._tokens.count(self._model, (PROBE,), (), True),
                    self._tokens.count(self._model, (PROBE,), key[1], True),
                )
                frames[key] = Frame(whole - bare, bare - probe)
            except InvalidField as error:
                if error.field != "model":
                    raise
                self._blind = True
        return Frame(self._bytes(tools), TURN_TOKENS) if self._blind else frames[key]

    async def _probe(self) -> int:
        probes = self._counted.probes
        if self._model not in probes:
            probes[self._model] = await self._tokens.count(self._model, (PROBE,), (), False)
        return probes[self._model]

    def _from_usage(
        self, episode: Episode, visible: Sequence[Message], new: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> int:
        """The last request as its endpoint counted it, and what was added; never less than the text can have."""
        usage = episode.steps[-1].completion.usage if episode.steps else Usage()
        asked = visible[:-1]
        size = sum(len(written(message).encode()) for message in asked) + specified(tools)
        if usage.prompt_tokens:
            self._ratio = min(MOST, max(FEWEST, size / usage.prompt_tokens))
        else:
            asked = visible
            size += sum(len(written(message).encode()) for message in visible[-1:])
        least = math.ceil(size / self._ratio)
        before = max(least, usage.prompt_tokens)
        return before + sum(self._guess(message) for message in (*visible[len(asked) :], *new)) + TURN_TOKENS

    def _guess(self, message: Message) -> int:
        return math.ceil(len(written(message).encode()) / self._ratio) + TURN_TOKENS

    def _bytes(self, tools: Sequence[ToolSpec]) -> int:
        return math.ceil(specified(tools) / self._ratio)


def specified(tools: Sequence[ToolSpec]) -> int:
    """Bytes of the tools as a request has them."""
    return sum(len(f"{tool.name}{tool.description}{tool.parameters_json}".encode()) for tool in tools)


def written(message: Message) -> str:
    """All text of a message; calls that are only structured count as they would be written."""
    if not message.tool_calls or OPEN in message.content:
        return message.content
    return "\n".join([message.content, *(f"{call.name} {call.arguments_json}" for call in message.tool_calls)])
