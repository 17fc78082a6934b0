"""The ``openai`` backend against a small endpoint on loopback: streams, calls, stops, errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from fathom.core.config import ConfigError
from fathom.core.errors import DependencyFailed, FathomError, InvalidField, Overloaded, UpstreamRefused
from fathom.domain.chat.messages import (
    Completion,
    FinishReason,
    Message,
    Role,
    Sampling,
    ToolCall,
    ToolFormat,
    ToolSpec,
)
from fathom.services.policy.backends.openai.backend import OpenAIBackend
from fathom.services.policy.config import OpenAIModel
from fathom.services.policy.model import Request

Answer = Callable[[dict[str, Any], asyncio.StreamWriter], Awaitable[None]]
TOOL = ToolSpec("search", "finds", '{"type": "object"}')
ASK = Request("r", "m", (Message(Role.SYSTEM, "s"), Message(Role.USER, "hello")), tools=(TOOL,))


@asynccontextmanager
async def endpoint(answer: Answer) -> AsyncIterator[tuple[OpenAIBackend, list[dict[str, Any]]]]:
    """An HTTP server that answers every request with ``answer``; the bodies that it was sent are kept."""
    bodies: list[dict[str, Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The smallest HTTP server that shows which bytes a client sends and what it makes of odd answers.
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        bodies.append(json.loads(await reader.readexactly(length)))
        await answer(bodies[-1], writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    config = OpenAIModel(
        engine="openai", model="far", base_url=f"http://127.0.0.1:{port}/v1", api_key_env="", timeout_s=5.0
    )
    backend = OpenAIBackend("m", config)
    await backend.load()
    try:
        yield backend, bodies
    finally:
        await backend.close()
        server.close()
        await server.wait_closed()


def streaming(*deltas: dict[str, Any], finish: str | None = "stop", done: bool = True) -> Answer:
    """A server-sent stream of deltas, then finish reason and usage."""

    async def answer(body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        # Three sampled of ten in all, two of the prompt's seven from the endpoint's cache.
        usage = {
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "total_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 2},
        }
        base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "far"}
        chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        # Usage comes in a chunk of its own without choices, after the reason to finish.
        if finish:
            chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
            chunks.append({**base, "choices": [], "usage": usage})
        for chunk in chunks:
            writer.write(f"data: {json.dumps(chunk)}\n\n".encode())
            await writer.drain()
        if done:
            writer.write(b"data: [DONE]\n\n")
            await writer.drain()

    return answer


def failing(status: int, headers: str = "") -> Answer:
    """An error of the endpoint."""

    async def answer(body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        text = json.dumps({"error": {"message": "no", "type": "t"}})
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(text)}\r\n\r\n{text}".encode()
        )
        await writer.drain()

    return answer


async def ask(answer: Answer, request: Request = ASK) -> tuple[list[str], Completion, dict[str, Any]]:
    async with endpoint(answer) as (backend, bodies):
        items = [item async for item in backend.generate(request)]
    assert isinstance(items[-1], Completion)
    return [item for item in items if isinstance(item, str)], items[-1], bodies[0]


async def test_text_streams_and_is_marked_as_not_exact() -> None:
    pieces, completion, body = await ask(streaming({"content": "Hel"}, {"content": "lo"}))
    assert pieces == ["Hel", "lo"]
    assert completion.text == "Hello"
    assert not completion.exact
    # Without ids nothing can be trained on: such a completion must say so itself.
    assert completion.sampled_token_ids == completion.log_probs == ()
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens, completion.usage.cached_tokens) == (
        7,
        3,
        2,
    )
    assert body["model"] == "far"
    assert body["tools"][0]["function"]["name"] == "search"


# Arguments arrive in pieces that are no JSON by themselves; only the first piece has id and name.
async def test_native_calls_are_put_together() -> None:
    first = {
        "tool_calls": [
            {"index": 0, "id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"qu'}}
        ]
    }
    second = {"tool_calls": [{"index": 0, "function": {"arguments": 'ery": "q"}'}}]}
    _, completion, _ = await ask(streaming(first, second, finish="tool_calls"))
    assert completion.tool_calls == (ToolCall("c1", "search", '{"query": "q"}'),)
    assert completion.finish_reason is FinishReason.TOOL_CALLS


async def test_calls_written_in_the_text_are_read() -> None:
    # Models behind endpoints without native calls write them as text.
    text = '<tool_call>{"name": "search", "arguments": {"query": "q"}}</tool_call>'
    _, completion, _ = await ask(streaming({"content": text}))
    assert completion.tool_calls[0].name == "search"


async def test_a_stop_string_is_kept_and_ends_the_stream() -> None:
    request = replace(ASK, sampling=Sampling(stop=("</search>",)), tool_format=ToolFormat.TAGS)
    # The stop string lies across two pieces, and endpoints leave it out or cut behind it.
    _, completion, body = await ask(streaming({"content": "<search>q</sea"}, {"content": "rch> and more"}), request)
    assert completion.text == "<search>q</search>"
    assert completion.finish_reason is FinishReason.STOP
    # Tags and native tools would be two protocols at once.
    assert "tools" not in body


async def test_what_is_sent() -> None:
    call = ToolCall("c1", "search", '{"query": "q"}')
    # The text of the call was written into the content by ourselves, and must not be sent twice.
    written = 'I look. <tool_call>{"name": "search", "arguments": {"query": "q"}}</tool_call>'
    messages = (*ASK.messages, Message(Role.ASSISTANT, written, (call,)), Message(Role.TOOL, "{}", tool_call_id="c1"))
    sampling = Sampling(temperature=0.5, top_p=0.9, top_k=5, max_tokens=9, seed=3)
    request = replace(ASK, messages=messages, sampling=sampling, response_schema_json='{"type": "object"}')
    _, _, body = await ask(streaming({"content": "x"}, finish="length"), request)
    assert body["messages"][2]["content"] == "I look."
    assert body["messages"][2]["tool_calls"][0]["id"] == body["messages"][3]["tool_call_id"] == "c1"
    assert (body["temperature"], body["top_p"], body["top_k"], body["max_tokens"], body["seed"]) == (0.5, 0.9, 5, 9, 3)
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        # 429 with a wish, 5xx, a request of ours that is wrong, a key or model that is, and replies without an end.
        (failing(429, "Retry-After: 3\r\n"), Overloaded),
        (failing(500), DependencyFailed),
        (failing(503), DependencyFailed),
        (failing(400), InvalidField),
        (failing(401), UpstreamRefused),
        (failing(404), UpstreamRefused),
        # A reply without a reason to finish is half a reply, even if the stream ended in order.
        (streaming({"content": "half"}, finish=None), DependencyFailed),
        (streaming({"content": "half"}, finish=None, done=False), DependencyFailed),
    ],
)
async def test_errors_are_typed(answer: Answer, error: type[FathomError]) -> None:
    with pytest.raises(error) as raised:
        await ask(answer)
    if error is Overloaded:
        assert raised.value.retry_after_s == 3.0


async def test_garbage_is_the_endpoints_fault() -> None:
    async def garbage(body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {nonsense\n\n")
        await writer.drain()

    with pytest.raises(DependencyFailed):
        await ask(garbage)


async def test_a_broken_connection_is_the_endpoints_fault() -> None:
    async def break_off(body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        # 999 bytes are announced, six come.
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 999\r\n\r\ndata: ")
        await writer.drain()

    with pytest.raises(DependencyFailed):
        await ask(break_off)


async def test_nobody_there() -> None:
    # The port of an endpoint that is closed again: nobody listens there.
    async with endpoint(failing(500)) as (backend, _):
        pass
    backend = OpenAIBackend(
        "m", OpenAIModel(engine="openai", model="x", base_url="http://127.0.0.1:9/v1", api_key_env="")
    )
    await backend.load()
    with pytest.raises(DependencyFailed, match="reached"):
        [item async for item in backend.generate(ASK)]
    await backend.close()


async def test_closing_the_generator_closes_the_connection() -> None:
    gone = asyncio.Event()

    async def endless(body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        chunk = {
            "id": "c",
            "object": "x",
            "created": 1,
            "model": "far",
            "choices": [{"index": 0, "delta": {"content": "a"}}],
        }
        try:
            while True:
                writer.write(f"data: {json.dumps(chunk)}\n\n".encode())
                await writer.drain()
                # Gives the reader a turn; without it the writer would fill its buffer first.
                await asyncio.sleep(0)
        except ConnectionError:
            gone.set()

    async with endpoint(endless) as (backend, _):
        items = backend.generate(ASK)
        assert await anext(items) == "a"
        await items.aclose()
        # The endpoint notices the closed connection, which is what ends its costs.
        await asyncio.wait_for(gone.wait(), 5)


async def test_a_key_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAR_KEY", raising=False)
    config = OpenAIModel(engine="openai", model="x", base_url="http://127.0.0.1:9/v1", api_key_env="FAR_KEY")
    with pytest.raises(ConfigError, match="FAR_KEY"):
        await OpenAIBackend("m", config).load()


async def test_a_schema_that_is_none() -> None:
    # A schema must be an object.
    with pytest.raises(InvalidField, match="response_schema_json"):
        await ask(streaming({"content": "x"}), replace(ASK, response_schema_json="[]"))
