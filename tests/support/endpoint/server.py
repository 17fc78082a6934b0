"""Server of the fake endpoint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.endpoint.families import FAMILIES, Family, Refusal, Sent
from tests.support.endpoint.replies import Reply, write_deltas, write_usage

Line = Reply | Callable[[dict[str, Any]], Reply]


@dataclass(frozen=True)
class Received:
    """One request."""

    body: dict[str, Any]
    headers: Mapping[str, str]


@dataclass
class FakeEndpoint:
    """Answers the requests that its family allows by the script, one line each; the last line is repeated."""

    family: Family
    script: list[Line]
    url: str = ""
    """Address up to and including ``/v1``."""
    requests: list[Received] = field(default_factory=list)
    """Requests, those that were refused among them."""
    refusals: list[Refusal] = field(default_factory=list)
    """Refusals by the family's rules, which take no line of the script."""
    open: int = 0
    """Requests that are being answered."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has left a reply that goes on or is silent."""
    _sent: Sent = field(default_factory=Sent)
    _calls: int = 0

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return the model's entry in the settings of policy."""
        return {"engine": "openai", "model": self.family.model, "base_url": self.url, "api_key_env": "", **more}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        body = await request.json()
        self.requests.append(Received(body, request.headers))
        for rule in self.family.rules:
            if refusal := rule(body, self._sent):
                self.refusals.append(refusal)
                return web.Response(status=refusal.status, text=refusal.text, content_type="application/json")
        line = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        reply = line if isinstance(line, Reply) else line(body)
        self.open += 1
        try:
            return await self._write(request, body, reply)
        except (ConnectionError, asyncio.CancelledError):
            self.left.set()
            raise
        finally:
            self.open -= 1

    async def _write(self, request: web.Request, body: dict[str, Any], reply: Reply) -> web.StreamResponse:
        if reply.status != 200 or reply.body:
            text = reply.body or json.dumps(self.family.error(reply.message, reply.status))
            return web.Response(
                status=reply.status, text=text, content_type=reply.content_type, headers=dict(reply.headers)
            )
        if not body.get("stream"):
            return web.json_response(self._whole(body, reply))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **reply.headers})
        await response.prepare(request)
        for place, chunk in enumerate(self._chunks(body, reply)):
            if place == reply.break_after:
                await self._reset(request)
                return response
            if place == reply.end_after:
                return response
            if place == reply.silent_after:
                await asyncio.Event().wait()
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _reset(self, request: web.Request) -> None:
        if request.transport is not None:
            request.transport.abort()

    def _chunks(self, body: dict[str, Any], reply: Reply) -> Iterable[dict[str, Any]]:
        base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        wire = self.family.wire
        ids = self._name_calls(reply)
        for delta in write_deltas(reply, wire, ids):
            yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        while reply.endless:
            yield {**base, "choices": [{"index": 0, "delta": {"content": reply.text}, "finish_reason": None}]}
        yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": self._finish(reply)}]}
        usage = write_usage(body, reply, wire)
        if usage and (body.get("stream_options") or {}).get("include_usage"):
            yield {**base, "choices": [], "usage": usage}

    def _finish(self, reply: Reply) -> str:
        return reply.finish or (self.family.wire.finish_of_calls if reply.calls else "stop")

    def _whole(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        calls = [{"id": call_id, "type": "function", "function": {"name": call.name, "arguments": call.text}}
                 for call, call_id in zip(reply.calls, self._name_calls(reply), strict=True)]  # fmt: skip
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish(reply)}
        whole = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
        return {**whole, "choices": [choice], "usage": write_usage(body, reply, self.family.wire)}

    def _name_calls(self, reply: Reply) -> list[str]:
        """Return the ids of a reply's calls, and note the thought that belongs to the first."""
        ids = []
        for call in reply.calls:
            self._calls += 1
            # Nine letters and digits: a form that every family takes.
            ids.append(call.id or f"call{self._calls:05d}")
        if reply.reasoning and ids and self.family.wire.thoughts != "hidden":
            self._sent.thoughts[ids[0]] = reply.reasoning
        return ids


@asynccontextmanager
async def fake_endpoint(family: str | Family, script: Iterable[Line]) -> AsyncIterator[FakeEndpoint]:
    """Serve a family, by name or made for the test, on a free port until the end of the block."""
    made = FakeEndpoint(FAMILIES[family] if isinstance(family, str) else family, list(script))
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", made.answer)
    # Its handlers are cancelled when their client leaves, so that silent and endless replies end.
    server = TestServer(app, host="127.0.0.1")
    await server.start_server()
    made.url = str(server.make_url("/v1"))
    try:
        yield made
    finally:
        await server.close()
