"""A model at the network edge that follows a script, one per question: an OpenAI-compatible endpoint on loopback.

It counts tokens itself, of what really arrives, and tells them as its usage.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from fathom.services.policy.backends.rules.tokenizer import RulesTokenizer, load_vocabulary

Line = tuple[str, dict[str, Any]]
Said = Sequence[Mapping[str, Any]]
Scripts = Mapping[str, Sequence[Line | Callable[[Said], Line]]]
TOKENIZER = RulesTokenizer(load_vocabulary())


@dataclass
class Seen:
    """Record what arrived for one question."""

    tokens: list[int] = field(default_factory=list)
    messages: list[Said] = field(default_factory=list)
    tools: list[Any] = field(default_factory=list)
    writings: int = 0
    """Requests without tools: summaries."""


@dataclass
class ScriptedModel:
    """Says the next line of the script whose key is in the question; a line may depend on what the model is shown."""

    scripts: Scripts = field(default_factory=dict)
    pause_s: float = 0.0
    """Between two pieces of a call's arguments; 0 sends them at once."""
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    """The last piece of a reply that is sent in pieces waits for it."""
    seen: dict[str, Seen] = field(default_factory=dict)
    held: str = ""
    """Requests with these words wait until ``may_begin``; "" holds none."""
    may_begin: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    """Requests that have waited or wait."""

    @contextmanager
    def telling(self, scripts: Scripts, pause_s: float = 0.0) -> Iterator[ScriptedModel]:
        """For a while these scripts and no others, begun anew."""
        before = self.scripts, self.pause_s, self.seen
        self.scripts, self.pause_s, self.seen = scripts, pause_s, {}
        self.may_end.set()
        try:
            yield self
        finally:
            self.scripts, self.pause_s, self.seen = before

    def answer(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], str, int]:
        """The message's delta, why it ended, and how many tokens were asked."""
        messages = body["messages"]
        whole = "\n".join(str(message["content"]) for message in messages)
        key = next(key for key in self.scripts if key in whole)
        seen = self.seen.setdefault(key, Seen())
        tokens = len(TOKENIZER.encode(json.dumps([messages, body.get("tools", ())], ensure_ascii=False)))
        if not body.get("tools"):
            seen.writings += 1
            lines = [line for line in str(messages[-1]["content"]).splitlines() if re.search(r"\d\.\d", line)]
            return {"content": "\n".join(lines[:6])}, "stop", tokens
        line = self.scripts[key][len(seen.tokens)]
        seen.tokens.append(tokens)
        seen.messages.append(messages)
        seen.tools.append(body["tools"])
        name, arguments = line if isinstance(line, tuple) else line(messages)
        call = {"name": name, "arguments": json.dumps({"intent": f"{name} it", **arguments})}
        delta = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": call}]}
        return delta, "tool_calls", tokens

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection, and close it whatever comes of it.

        A connection that a broken handler leaves open warns when it is collected: in the middle of another test.
        """
        try:
            await self.reply(reader, writer)
        finally:
            writer.close()

    async def reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a request and write the reply; raise where the script has no line for it."""
        head = await reader.readuntil(b"\r\n\r\n")
        size = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        body = json.loads(await reader.readexactly(int(size.group(1)))) if size else {}
        if self.held and self.held in json.dumps(body["messages"], ensure_ascii=False):
            self.waiting += 1
            await self.may_begin.wait()
        delta, reason, tokens = self.answer(body)
        base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
        usage = {"prompt_tokens": tokens, "completion_tokens": 30, "total_tokens": tokens + 30}
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        sent = list(pieces(delta)) if self.pause_s else [delta]
        for piece in sent:
            if self.pause_s and piece is sent[-1]:
                await self.may_end.wait()
            chunk = {**base, "choices": [{"index": 0, "delta": piece, "finish_reason": None}]}
            writer.write(f"data: {json.dumps(chunk)}\n\n".encode())
            await writer.drain()
            await asyncio.sleep(self.pause_s)
        for chunk in (
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            {**base, "choices": [], "usage": usage},
        ):
            writer.write(f"data: {json.dumps(chunk)}\n\n".encode())
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Its address while it serves."""
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        finally:
            server.close()


def entry(address: str) -> dict[str, object]:
    """The model at this address as policy's settings name it."""
    return {
        "engine": "openai", "model": "scripted", "base_url": address, "api_key_env": "", "window_tokens": 64_000,
    }  # fmt: skip


def pieces(delta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A delta of one call in several: its name, then its arguments 15 characters at a time."""
    [call] = delta["tool_calls"]
    function = call["function"]
    texts = [function["arguments"][start : start + 15] for start in range(0, len(function["arguments"]), 15)]
    first = {"tool_calls": [{**call, "function": {"name": function["name"], "arguments": ""}}]}
    return [first, *({"tool_calls": [{"index": 0, "function": {"arguments": text}}]} for text in texts)]
