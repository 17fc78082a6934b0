"""Sessions of the MCP server over HTTP: idle ones end, and a client that opens many takes no place from others."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SESSION_HEADER, VERSION_HEADER = "mcp-session-id", "mcp-protocol-version"
EndSession = Callable[[str], Awaitable[None]]


@dataclass
class OpenSession:
    """A session of a client's address; ``calls`` are its requests in flight, ``used`` is when the last one ended."""

    client: str
    used: float
    calls: int = 0


class SessionLimits:
    """Middleware that makes room for a new session by ending an idle one.

    A session without a request for ``idle_s`` seconds ends; an open event stream is none, for clients that do nothing
    hold one. At ``most`` sessions, the one ends that was idle for longest, of the client that has most of them. Those
    with a request in flight stay: when all are at work, the SDK refuses the new one.
    """

    def __init__(
        self,
        app: ASGIApp,
        most: int,
        idle_s: float,
        on_end: EndSession,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store the limits; ``on_end`` is called with the id of each session that ends."""
        self._app, self._most, self._idle_s, self._on_end, self._clock = app, most, idle_s, on_end, clock
        self._open: dict[str, OpenSession] = {}
        self._opening = 0
        self._turn = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        ident = headers.get(SESSION_HEADER, "")
        if ident in self._open:
            await self._use(ident, scope, receive, send)
        # Only the handshake of earlier versions opens a session; later ones have none.
        elif not ident and scope["method"] == "POST" and is_handshake(headers):
            await self._begin(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _use(self, ident: str, scope: Scope, receive: Receive, send: Send) -> None:
        session, is_call = self._open[ident], scope["method"] == "POST"
        session.calls += is_call
        session.used = self._clock()
        try:
            await self._app(scope, receive, send)
        finally:
            session.calls -= is_call
            session.used = self._clock()
            if scope["method"] == "DELETE" and self._open.pop(ident, None) is not None:
                await self._on_end(ident)

    async def _begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._turn:
            await self._make_room(scope)
            self._opening += 1
        client = (scope.get("client") or ("",))[0]

        async def send_and_note(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                ident = Headers(raw=message["headers"]).get(SESSION_HEADER, "")
                if ident:
                    self._open[ident] = OpenSession(client, self._clock())
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            self._opening -= 1

    async def _make_room(self, scope: Scope) -> None:
        now = self._clock()
        for ident in [ident for ident, session in self._open.items() if is_idle(session, now - self._idle_s)]:
            await self._end(ident, scope)
        if len(self._open) + self._opening < self._most:
            return
        held = Counter(session.client for session in self._open.values())
        idle = [ident for ident, session in self._open.items() if not session.calls]
        if idle:
            await self._end(
                min(idle, key=lambda ident: (-held[self._open[ident].client], self._open[ident].used)), scope
            )

    async def _end(self, ident: str, scope: Scope) -> None:
        """End a session as its own client would."""
        self._open.pop(ident, None)
        headers = [(name, value) for name, value in scope["headers"] if name not in (b"content-length",)]
        headers.append((SESSION_HEADER.encode(), ident.encode()))

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None: ...

        await self._app({**scope, "method": "DELETE", "headers": headers}, receive, send)
        await self._on_end(ident)


def is_handshake(headers: Headers) -> bool:
    """Return whether a request speaks a version of the protocol that has sessions."""
    version = headers.get(VERSION_HEADER)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


def is_idle(session: OpenSession, since: float) -> bool:
    return not session.calls and session.used <= since
