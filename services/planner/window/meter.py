"""Token counts of requests, by the tokenizer and chat template of the model that reads them."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.core.cache import BoundedCache
from fathom.core.errors import InvalidField
from fathom.domain.chat.hermes import OPEN
from fathom.domain.chat.messages import Message, Role, ToolSpec, Usage
from fathom.services.planner.model.episode import Episode

# Many templates refuse a conversation that begins with an answer or a tool's result, or put in a default system
# message: what is counted stands behind this one, whose own tokens are subtracted.
PROBE = Message(Role.SYSTEM, "s")
TURN_TOKENS = 8
"""Estimated tokens of a turn beside its text, where only the text can be counted."""
BYTES_PER_TOKEN, FEWEST, MOST = 3.0, 1.5, 5.0
"""Default UTF-8 bytes per token until an endpoint reports usage, and the bounds of the measured ratio."""

# Bytes of a digest and a count in a cache, with its two orders.
ENTRY_BYTES = 1_000


class Tokens(Protocol):
    """Token counter of the policy service; raises ``FathomError``."""

    async def count(self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], prompt: bool) -> int:
        """Return the tokens of messages by the chat template.

        Raises ``InvalidField("model")`` when the model exposes no token ids.
        """
        ...

    async def count_text(self, model: str, text: str) -> int:
        """Return the tokens of plain text."""
        ...

    async def window(self, model: str) -> int:
        """Return the model's window in tokens."""
        ...


@dataclass(frozen=True)
class RequestOverhead:
    """Tokens of a request besides its messages."""

    tools: int
    prompt: int

    @property
    def total(self) -> int:
        return self.tools + self.prompt


class TokenCache:
    """Cache of token counts by model, shared by all episodes of a planner, whose prompts have the same prefix.

    It holds digests of what was counted and no text: a message may be as long as a model's window.
    """

    def __init__(self, most: int = 2_048) -> None:
        size = most * ENTRY_BYTES
        self._messages = BoundedCache[bytes, int](max_entries=most, max_bytes=size, ttl_s=math.inf)
        self._overheads = BoundedCache[bytes, RequestOverhead](max_entries=most, max_bytes=size, ttl_s=math.inf)

    def get(self, model: str, message: Message) -> int | None:
        """Return the tokens of a message, None when they are not known."""
        return self._messages.get(digest(model, message))

    def put(self, model: str, message: Message, tokens: int) -> None:
        """Hold the tokens of a message."""
        self._messages.put(digest(model, message), tokens, ENTRY_BYTES)

    def get_overhead(self, model: str, tools: Sequence[ToolSpec]) -> RequestOverhead | None:
        """Return what a request takes beside its messages, None when it is not known."""
        return self._overheads.get(digest(model, tuple(tools)))

    def put_overhead(self, model: str, tools: Sequence[ToolSpec], overhead: RequestOverhead) -> None:
        """Hold what a request takes beside its messages."""
        self._overheads.put(digest(model, tuple(tools)), overhead, ENTRY_BYTES)


def digest(model: str, counted: object) -> bytes:
    """Return the key of a message or of tools, whose fields are plain data."""
    return hashlib.sha256(repr((model, counted)).encode()).digest()


class Meter:
    """Token counter of one episode.

    For an endpoint without a tokenizer, the size is estimated from reported usage: the last request as counted by the
    endpoint, plus the new messages by the measured ratio of bytes to tokens.
    """

    def __init__(self, tokens: Tokens, model: str, counted: TokenCache | None = None) -> None:
        """Create a counter; ``counted`` holds the counts of other episodes."""
        self._tokens, self._model = tokens, model
        self._counted = counted or TokenCache()
        self._own: dict[Message, int] = {}
        self._blind = False
        self._ratio = BYTES_PER_TOKEN

    async def count_request(self, episode: Episode, new: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """Return the tokens of the next request of an episode, including new messages and the generation prompt."""
        frame = await self._frame(tools)
        visible = episode.visible
        if self._blind:
            return self._from_usage(episode, visible, new, tools)
        if episode.covered:
            fresh = sum(await self.count_each((*visible[episode.covered :], *new)))
            # One more token: the template's end of the model's turn, unless the model has sampled it.
            return len(episode.token_ids) + 1 + fresh + frame.prompt
        # Chat templates render messages one after the other, so a request is the sum of its messages, tools and
        # generation prompt; each message has to be counted only once.
        return frame.total + sum(await self.count_each((*visible, *new)))

    async def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """Return the tokens of a request rendered from its beginning."""
        frame = await self._frame(tools)
        return frame.total + sum(await self.count_each(messages))

    async def count_each(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens of each message, including its turn's delimiters."""
        if self._blind:
            return [self._guess(message) for message in messages]
        unknown = []
        for message in dict.fromkeys(messages):
            known = self._own.get(message)
            if known is None:
                known = self._counted.get(self._model, message)
            if known is None:
                unknown.append(message)
            else:
                self._own[message] = known
        if unknown:
            counts = await asyncio.gather(*map(self._count, unknown))
            for message, tokens in zip(unknown, counts, strict=True):
                self._own[message] = tokens
                self._counted.put(self._model, message, tokens)
        return list(map(self._own.__getitem__, messages))

    async def _count(self, message: Message) -> int:
        try:
            if message.role is Role.SYSTEM:
                return await self._tokens.count(self._model, (message,), (), False)
            return await self._tokens.count(self._model, (PROBE, message), (), False) - await self._probe()
        except InvalidField:
            # Some templates reject this message alone behind a system message; its text can be counted.
            return await self._tokens.count_text(self._model, render_text(message)) + TURN_TOKENS

    async def _frame(self, tools: Sequence[ToolSpec]) -> RequestOverhead:
        if self._blind:
            return self._guess_overhead(tools)
        known = self._counted.get_overhead(self._model, tools)
        if known is None:
            try:
                probe, bare, whole = await asyncio.gather(
                    self._probe(),
                    self._tokens.count(self._model, (PROBE,), (), True),
                    self._tokens.count(self._model, (PROBE,), tuple(tools), True),
                )
            except InvalidField as error:
                # Only this field says that the model has no tokenizer; another one is a fault of the request.
                if error.field != "model":
                    raise
                self._blind = True
                return self._guess_overhead(tools)
            known = RequestOverhead(whole - bare, bare - probe)
            self._counted.put_overhead(self._model, tools, known)
        return known

    def _guess_overhead(self, tools: Sequence[ToolSpec]) -> RequestOverhead:
        return RequestOverhead(self._bytes(tools), TURN_TOKENS)

    async def _probe(self) -> int:
        """Return the tokens of the probe alone."""
        known = self._counted.get(self._model, PROBE)
        if known is None:
            known = await self._tokens.count(self._model, (PROBE,), (), False)
            self._counted.put(self._model, PROBE, known)
        return known

    def _from_usage(
        self, episode: Episode, visible: Sequence[Message], new: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> int:
        """Estimate the tokens of a request from the last request's usage and the new messages.

        At least the text's estimate.
        """
        usage = episode.steps[-1].completion.usage if episode.steps else Usage()
        # The last visible message is the answer to the request whose usage was reported.
        asked = visible[:-1]
        size = sum(len(render_text(message).encode()) for message in asked) + measure_tools(tools)
        if usage.prompt_tokens:
            self._ratio = min(MOST, max(FEWEST, size / usage.prompt_tokens))
        else:
            asked = visible
            size += sum(len(render_text(message).encode()) for message in visible[-1:])
        least = math.ceil(size / self._ratio)
        before = max(least, usage.prompt_tokens)
        return before + sum(self._guess(message) for message in (*visible[len(asked) :], *new)) + TURN_TOKENS

    def _guess(self, message: Message) -> int:
        return math.ceil(len(render_text(message).encode()) / self._ratio) + TURN_TOKENS

    def _bytes(self, tools: Sequence[ToolSpec]) -> int:
        return math.ceil(measure_tools(tools) / self._ratio)


def measure_tools(tools: Sequence[ToolSpec]) -> int:
    """Return the UTF-8 bytes of the tools' specifications."""
    return sum(len(f"{tool.name}{tool.description}{tool.parameters_json}".encode()) for tool in tools)


def render_text(message: Message) -> str:
    """Return all text of a message; structured calls and opaque parts count as if they were written out."""
    # What an endpoint wants back with a message takes as much of its window as other text.
    content = message.content + message.opaque_json
    if not message.tool_calls or OPEN in message.content:
        return content
    return "\n".join([content, *(f"{call.name} {call.arguments_json}" for call in message.tool_calls)])
