"""An endpoint that speaks OpenAI's chat completions over a real backend, and fails on demand."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fathom.core.errors import InvalidField
from fathom.core.ids import new_id
from fathom.domain.chat.messages import Completion, Message, Role, Sampling, ToolCall, ToolSpec
from fathom.services.policy.model import Backend, Request

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
LENGTH = b"content-length"


@dataclass
class Endpoint:
    """Serves ``backend``. Each request takes the next of ``faults``, if there is one: a status, or
    "garbage" (no JSON), "silence" (never answers), "cut" (closes in the middle of a stream)."""

    backend: Backend
    faults: list[str] = field(default_factory=list)
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    streaming: int = 0
    """Requests that are being answered."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        sizes = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(LENGTH)]
        body = json.loads(await reader.readexactly(int(sizes[0])))
        self.asked.append(body)
        self.streaming += 1
        answering = asyncio.create_task(self._answer(body, writer))
        leaving = asyncio.create_task(reader.read(1))  # returns when the client hangs up
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            answering.cancel()
            leaving.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)
            self.streaming -= 1
            writer.close()

    async def _answer(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        if fault.isdigit():
            return await send_error(writer, int(fault), "on demand")
        if fault == "silence":
            await asyncio.Event().wait()
        if fault == "garbage":
            writer.write(STREAM + b"data: {nonsense\n\n")
            return await writer.drain()
        async with aclosing(self.backend.generate(request_of(body))) as items:
            try:
                first = await anext(items)
            except InvalidField as error:
                return await send_error(writer, 400, error.message)
            writer.write(STREAM)
            await self._stream(first, items, writer, cut=fault == "cut")

    async def _stream(self, first: Any, items: Any, writer: asyncio.StreamWriter, *, cut: bool) -> None:
        item = first
        while True:
            if isinstance(item, Completion):
                break
            await send(writer, {"choices": [choice({"content": item})]})
            if cut:
                return
            item = await anext(items)
        finish = "length" if item.finish_reason == "length" else "stop"
        await send(writer, {"choices": [choice({}, finish)]})
        usage = item.usage
        counts = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
        await send(writer, {"choices": [], "usage": {**counts, "total_tokens": sum(counts.values())}})
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()


@asynccontextmanager
async def endpoint(backend: Backend) -> AsyncIterator[Endpoint]:
    """Listens on a free port until the end."""
    made = Endpoint(backend)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield made
    finally:
        server.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(server.wait_closed(), 5)


def request_of(body: dict[str, Any]) -> Request:
    """OpenAI's body as policy's request; what the client left out has OpenAI's default."""
    tools = [tool["function"] for tool in body.get("tools", ())]
    return Request(
        request_id=new_id("end"),
        model="",
        messages=tuple(message_of(message) for message in body["messages"]),
        tools=tuple(ToolSpec(f["name"], f["description"], json.dumps(f["parameters"])) for f in tools),
        sampling=Sampling(
            temperature=body.get("temperature", 1.0),
            top_p=body.get("top_p", 1.0),
            top_k=body.get("top_k", 0),
            max_tokens=body["max_tokens"],
            seed=body.get("seed", 0),
        ),
        response_schema_json=json.dumps(body["response_format"]["json_schema"]["schema"])
        if "response_format" in body
        else "",
    )


def message_of(message: dict[str, Any]) -> Message:
    calls = tuple(
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls", ())
    )
    return Message(Role(message["role"]), message["content"] or "", calls, message.get("tool_call_id", ""))


def choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish}


async def send(writer: asyncio.StreamWriter, chunk: dict[str, Any]) -> None:
    whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "far", **chunk}
    writer.write(f"data: {json.dumps(whole)}\n\n".encode())
    await writer.drain()


async def send_error(writer: asyncio.StreamWriter, status: int, message: str) -> None:
    text = json.dumps({"error": {"message": message, "type": "t"}}).encode()
    writer.write(
        f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nRetry-After: 0.05\r\n"
        f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode()
        + text
    )
    await writer.drain()
