"""Memory of a service's acting calls: a request repeated under its ``request_id`` gets the first outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from google.protobuf.message import Message
from prometheus_client import Gauge

from fathom.core import errors
from fathom.core.cache import BoundedCache
from fathom.core.ids import content_hash, sha256
from fathom.transport.rpc.contract import Method
from fathom.transport.rpc.interceptors import Exchange

Handler = Callable[[Exchange], Awaitable[Message]]
# Ten minutes are longer than clients retry; 4,096 requests in that time are about seven a second. Beyond either, a
# repetition is carried out again.
MAX_REQUESTS, TTL_S = 4096, 600.0
# Twice the largest message: by default every reply can be held.
MAX_BYTES = 64 * 1024 * 1024
# Bytes counted for a known request: two SHA-256 in hexadecimal and the objects around them.
REQUEST_BYTES = 256


@dataclass(frozen=True)
class Running:
    """A call under way: the SHA-256 of its request, and the outcome that duplicates wait for."""

    request: str
    outcome: asyncio.Future[Message]


class Idempotency:
    """Memory of a service's unary calls: a known ``request_id`` gets the first outcome again, for ``ttl_s`` seconds.

    A concurrent duplicate waits for the running one. Failures are forgotten, so that a retry runs again. Of a
    request only its SHA-256 is held, of the last 4,096 of them; another request under the same id is a ``Conflict``.

    Replies are held serialized, at most ``max_bytes`` of them together. A call that has acted never acts a second time:
    when the reply of a known request was too large to be held, or has made room for later ones, a repetition
    raises ``FailedPrecondition``, which says that the request was carried out.
    """

    def __init__(
        self,
        held_bytes: Gauge,
        *,
        max_bytes: int = MAX_BYTES,
        ttl_s: float = TTL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create an empty memory; the gauge ``held_bytes`` shows its size in bytes."""
        self._gauge = held_bytes
        self._running: dict[str, Running] = {}
        self._requests = BoundedCache[str, str](
            max_entries=MAX_REQUESTS, max_bytes=MAX_REQUESTS * REQUEST_BYTES, ttl_s=ttl_s, clock=clock
        )
        self._replies = BoundedCache[str, bytes](
            max_entries=MAX_REQUESTS, max_bytes=max_bytes, ttl_s=ttl_s, clock=clock
        )

    @property
    def held_bytes(self) -> int:
        """Bytes of the known requests and replies; calls under way are not counted."""
        return self._requests.size_bytes + self._replies.size_bytes

    async def answer(self, exchange: Exchange, handle: Handler) -> Message:
        """Return the response of a unary call: the first outcome of its request, or what the handler returns now."""
        method, request = exchange.method, exchange.request
        request_id: str = getattr(request, "request_id", "") if method.acts else ""
        if not request_id or not isinstance(request, Message):
            return await handle(exchange)
        # Hashed too: whoever chooses the id chooses its length.
        key = content_hash([method.path, exchange.call.tenant, request_id])
        # Deterministic: maps would otherwise be written in any order, and an equal request would look like another one.
        digest = sha256(request.SerializeToString(deterministic=True))
        known = await self._find_earlier_outcome(key, digest, method)
        return await self._first(key, digest, exchange, handle) if known is None else known

    async def _find_earlier_outcome(self, key: str, digest: str, method: Method) -> Message | None:
        """Return the outcome of an earlier call under this key, None when there is none."""
        running = self._running.get(key)
        self._requests.drop_expired()
        self._replies.drop_expired()
        self._show()
        earlier = running.request if running is not None else self._requests.get(key)
        if earlier is None:
            return None
        if earlier != digest:
            raise errors.Conflict(
                f"request_id: was used for another {method.name} request", metadata={"field": "request_id"}
            )
        if running is not None:
            # The outcome is shared: one duplicate that is cancelled must not cancel it for the others.
            return await asyncio.shield(running.outcome)
        reply = self._replies.get(key)
        if reply is None:
            raise errors.FailedPrecondition(
                f"this {method.name} request was carried out before, and its reply is not held any more",
                metadata={"field": "request_id"},
            )
        return method.response_type.FromString(reply)

    async def _first(self, key: str, digest: str, exchange: Exchange, handle: Handler) -> Message:
        outcome: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        outcome.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be waiting
        self._running[key] = Running(digest, outcome)
        try:
            response = await handle(exchange)
        # A cancellation too must settle the future: duplicates of the request wait for it.
        except BaseException as error:
            if isinstance(error, errors.FathomError):
                outcome.set_exception(error)
            else:
                # Cancelled or out of order: the duplicates get a transient error, so that their callers try again.
                outcome.set_exception(errors.NotReady("the first attempt of this request was cut short"))
            raise
        finally:
            del self._running[key]
        outcome.set_result(response)
        self._hold(key, digest, response)
        return response

    def _hold(self, key: str, digest: str, response: Message) -> None:
        reply = response.SerializeToString()
        self._requests.put(key, digest, REQUEST_BYTES)
        self._replies.put(key, reply, len(reply))
        self._show()

    def _show(self) -> None:
        self._gauge.set(self.held_bytes)
