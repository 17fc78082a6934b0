"""Cache of vendors' answers with request coalescing.

A group of eight rollouts that ask the same question makes one upstream call.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fathom.errors import DeadlineExceeded, NotFound
from fathom.http.retry import remaining

T = TypeVar("T")


@dataclass
class CacheCounts:
    """Counters: ``calls`` went upstream, ``hits`` came from the cache, ``shared`` joined a running call."""

    calls: int = 0
    hits: int = 0
    shared: int = 0


@dataclass
class _Flight(Generic[T]):
    task: asyncio.Task[T]
    waiters: int = 0


class SharedCache(Generic[T]):
    """An LRU cache up to ``limit_bytes`` with an expiry per answer; for one event loop."""

    def __init__(
        self,
        size: Callable[[T], int],
        limit_bytes: int,
        missing_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store the limits.

        ``size`` returns an answer's bytes, and ``NotFound`` is cached for ``missing_s`` seconds at most.
        """
        self._size, self._limit, self._missing_s, self._clock = size, limit_bytes, missing_s, clock
        self._kept: OrderedDict[Hashable, tuple[float, int, T | NotFound]] = OrderedDict()
        self._flights: dict[Hashable, _Flight[T]] = {}
        self._bytes = 0
        self.counts = CacheCounts()

    @property
    def size_bytes(self) -> int:
        """Return the bytes in the cache."""
        return self._bytes

    async def get(
        self, key: Hashable, load: Callable[[], Awaitable[T]], keep_s: float, deadline: float | None, culprit: str
    ) -> T:
        """Return the answer for ``key`` from the cache, a running call, or ``load``; it is kept for ``keep_s`` seconds.

        A caller that leaves does not cancel the call for the others; it is cancelled with its last caller. When the
        deadline of the running call was shorter than this caller's, this caller starts the next one. Raises what
        ``load`` raises, and ``DeadlineExceeded`` naming ``culprit`` at ``deadline`` (monotonic seconds).
        """
        while True:
            kept = self._fresh(key)
            if isinstance(kept, NotFound):
                raise kept.with_traceback(None)
            if kept is not None:
                return kept
            flight = self._flights.get(key)
            mine = flight is None
            if flight is None:
                flight = self._flights[key] = _Flight(asyncio.ensure_future(self._call(key, load, keep_s)))
                flight.task.add_done_callback(looked_at)
                self.counts.calls += 1
            else:
                self.counts.shared += 1
            try:
                return await self._joined(key, flight, deadline, culprit)
            except DeadlineExceeded:
                if mine or not flight.task.done():
                    raise
                remaining(deadline, culprit)

    async def _joined(self, key: Hashable, flight: _Flight[T], deadline: float | None, culprit: str) -> T:
        flight.waiters += 1
        try:
            async with asyncio.timeout(remaining(deadline, culprit)):
                return await asyncio.shield(flight.task)
        except TimeoutError as error:
            raise DeadlineExceeded(f"{culprit} did not answer in time", metadata={"culprit": culprit}) from error
        finally:
            flight.waiters -= 1
            if flight.waiters == 0 and not flight.task.done():
                self._flights.pop(key, None)
                flight.task.cancel()

    async def _call(self, key: Hashable, load: Callable[[], Awaitable[T]], keep_s: float) -> T:
        task = asyncio.current_task()
        try:
            answer = await load()
            self._keep(key, answer, keep_s, self._size(answer))
            return answer
        except NotFound as error:
            self._keep(key, error, min(keep_s, self._missing_s), 256)
            raise
        finally:
            flight = self._flights.get(key)
            if flight is not None and flight.task is task:
                del self._flights[key]

    def _fresh(self, key: Hashable) -> T | NotFound | None:
        entry = self._kept.get(key)
        if entry is None:
            return None
        until, _, answer = entry
        if self._clock() >= until:
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        self.counts.hits += 1
        return answer

    def _keep(self, key: Hashable, answer: T | NotFound, keep_s: float, size: int) -> None:
        if keep_s <= 0 or size > self._limit:
            return
        self._drop(key)
        self._kept[key] = (self._clock() + keep_s, size, answer)
        self._bytes += size
        while self._bytes > self._limit:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        if entry := self._kept.pop(key, None):
            self._bytes -= entry[1]


def looked_at(task: asyncio.Task[T]) -> None:
    """Retrieve the exception of a failed call, as asyncio warns about it when all callers have left."""
    if not task.cancelled():
        task.exception()
