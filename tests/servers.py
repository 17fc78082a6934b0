"""HTTP servers that play other people's, and the clients that a test makes for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Self

from aiohttp import web
from aiohttp.test_utils import TestServer

Handlers = dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]


class Servers:
    """Start a server with the given handlers by path, on a port of the system's choice; a call returns its URL."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._stack.aclose()

    async def __call__(self, handlers: Handlers, host: str = "127.0.0.1") -> str:
        app = web.Application(client_max_size=64 << 20)
        for path, handler in handlers.items():
            app.router.add_route("*", path, handler)
        server = TestServer(app, host=host)
        await server.start_server()
        self._stack.push_async_callback(server.close)
        return str(server.make_url("")).rstrip("/")

    def close_after(self, client: Any) -> Any:
        """Return the client, whose ``aclose`` or ``close`` is called when the test ends."""
        if hasattr(client, "aclose"):
            self._stack.push_async_callback(client.aclose)
        else:
            self._stack.callback(client.close)
        return client
