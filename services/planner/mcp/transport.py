"""Size-limited transports to external MCP servers, using the official SDK. Needs the extra ``mcp``."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from fathom import __version__
from fathom.services.planner.config import McpServer
from fathom.services.planner.mcp import relay

if TYPE_CHECKING:
    from mcp.client.session import MessageHandlerFnT

# Far above what a model can read, far below what would hurt the planner.
MAX_BYTES = 4 << 20
# Seconds to connect; also added to the read timeout, so that the call's own deadline fires first.
CONNECT_S = 10.0


class ResponseTooLarge(httpx2.ReadError):
    """Error for a response that exceeds the size limit."""


class LimitedStream(httpx2.AsyncByteStream):
    """Response stream limited to ``MAX_BYTES``."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_BYTES:
                raise ResponseTooLarge(f"the response has more than {MAX_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class LimitedTransport(httpx2.AsyncHTTPTransport):
    """HTTP transport with limited responses; the SDK limits each event of an event stream."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        # The SDK bounds each event of a stream, and a stream as a whole may be long.
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = LimitedStream(response.stream)
        return response


@asynccontextmanager
async def open_streams(server: McpServer) -> AsyncIterator[Any]:
    """Yield the read and write streams of a server."""
    if server.url:
        timeout = httpx2.Timeout(CONNECT_S, read=server.timeout_s + CONNECT_S)
        http = httpx2.AsyncClient(transport=LimitedTransport(), headers=server.headers(), timeout=timeout)
        async with (
            http,
            streamable_http_client(server.url, http_client=http, max_sse_event_size=MAX_BYTES) as opened,
        ):
            yield opened
        return
    # Isolated mode: the environment and the current folder must not add modules to the relay.
    bounded = ["-I", str(Path(relay.__file__)), str(MAX_BYTES), *server.command]
    parameters = StdioServerParameters(command=sys.executable, args=bounded)
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
