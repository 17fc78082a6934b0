"""Size-limited transports to external MCP servers, using the official SDK. Needs the extra ``mcp``."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR, Implementation

from fathom import __version__
from fathom.services.planner.config import McpServer
from fathom.services.planner.mcp import relay
from fathom.services.planner.mcp.relay import MAX_VALUES, count_values

if TYPE_CHECKING:
    from mcp.client.session import MessageHandlerFnT

# Far above what a model can read, far below what would hurt the planner.
MAX_BYTES = 4 << 20
# Seconds to connect; also added to the read timeout, so that the call's own deadline fires first.
CONNECT_S = 10.0


# The end of an event; its bytes at most.
EVENT_END, BOUNDARY_BYTES = re.compile(rb"\n\n|\r\r|\r\n\r\n"), 4


class ResponseTooLarge(httpx2.ReadError):
    """Error for a response that exceeds the size limit."""


class LimitedStream(httpx2.AsyncByteStream):
    """Response stream whose parts, each ended by ``boundary``, are limited in bytes and values.

    In the place of a part that has more comes ``refusal``, which ends the stream. Without one ``ResponseTooLarge`` is
    raised.
    """

    def __init__(self, stream: Any, boundary: re.Pattern[bytes] | None, refusal: bytes) -> None:
        self._stream, self._boundary, self._refusal = stream, boundary, refusal

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = bytearray()
        async for chunk in self._stream:
            # A boundary may begin in the chunk before.
            searched = max(0, len(held) - BOUNDARY_BYTES)
            held += chunk
            while self._boundary and (match := self._boundary.search(held, searched)) and match.end() <= MAX_BYTES:
                part = bytes(held[: match.end()])
                if count_values(part) > MAX_VALUES:
                    yield self._refuse()
                    return
                yield part
                del held[: match.end()]
                searched = 0
            if len(held) > MAX_BYTES:
                yield self._refuse()
                return
        yield self._refuse() if count_values(held) > MAX_VALUES else bytes(held)

    def _refuse(self) -> bytes:
        if not self._refusal:
            raise ResponseTooLarge(f"the response has more than {MAX_BYTES:,} bytes or {MAX_VALUES:,} values")
        return self._refusal

    async def aclose(self) -> None:
        await self._stream.aclose()


class LimitedTransport(httpx2.AsyncHTTPTransport):
    """HTTP transport with limited responses: one over the limit becomes an error of its request alone."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        refusal = make_refusal(request.content if request.method == "POST" else b"")
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            event = b"event: message\ndata: " + refusal + b"\n\n" if refusal else b""
            response.stream = LimitedStream(response.stream, EVENT_END, event)
        else:
            # What the server says of the size would not be true of the error.
            response.headers.pop("content-length", None)
            response.stream = LimitedStream(response.stream, None, refusal)
        return response


def make_refusal(request: bytes) -> bytes:
    """Return the error that answers a request in the place of a result over the limit; nothing for a notification."""
    try:
        ident = json.loads(request).get("id")
    except (ValueError, AttributeError):
        return b""
    said = f"the result has more than {MAX_BYTES:,} bytes or {MAX_VALUES:,} values: ask for less"
    error = {"jsonrpc": "2.0", "id": ident, "error": {"code": INTERNAL_ERROR, "message": said}}
    return b"" if ident is None else json.dumps(error).encode()


@asynccontextmanager
async def open_streams(server: McpServer) -> AsyncIterator[Any]:
    """Yield the read and write streams of a server."""
    if server.url:
        timeout = httpx2.Timeout(CONNECT_S, read=server.timeout_s + CONNECT_S)
        http = httpx2.AsyncClient(transport=LimitedTransport(), headers=server.headers(), timeout=timeout)
        async with (
            http,
            # The limit of the SDK would end the request as if the connection were closed: ours comes first.
            streamable_http_client(server.url, http_client=http, max_sse_event_size=2 * MAX_BYTES) as opened,
        ):
            yield opened
        return
    # Isolated mode: the environment and the current folder must not add modules to the relay.
    bounded = ["-I", str(Path(relay.__file__)), str(MAX_BYTES), *server.command]
    parameters = StdioServerParameters(command=sys.executable, args=bounded, env=server.environment())
    with Path(os.devnull).open("w") as nowhere:  # noqa: ASYNC230 - it is no file
        async with stdio_client(parameters, errlog=nowhere) as opened:
            yield opened


def create_client(server: McpServer, on_message: MessageHandlerFnT) -> Client:
    """Create a client without server-initiated requests: the server can neither sample nor ask the user."""
    return Client(
        open_streams(server),
        read_timeout_seconds=server.timeout_s,
        client_info=Implementation(name="fathom", version=__version__),
        message_handler=on_message,
        cache=None,
    )
