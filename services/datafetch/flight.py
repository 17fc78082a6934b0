"""Single-flight LRU cache: equal concurrent requests share one computation."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Flight(Generic[T]):
    """A cache of answers by key, bounded by ``entries`` and by total ``weight`` (bytes, by ``weigh``).

    Failures are not cached. A cancelled caller leaves the computation to the others; it is cancelled with the last of
    them.
    """

    def __init__(self, entries: int, weight: int, weigh: Callable[[T], int]) -> None:
        self._entries, self._limit, self._weigh = entries, weight, weigh
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._weight = 0
        self._running: dict[Hashable, asyncio.Task[T]] = {}
        self._waiting: dict[Hashable, int] = {}
        self.asked = self.computed = 0

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """Return the answer of a key, computed once for all concurrent callers; raises what ``compute`` raises."""
        self.asked += 1
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        task = self._running.get(key)
        if task is None:
            task = asyncio.ensure_future(self._run(key, compute))
            self._running[key] = task
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            return await asyncio.shield(task)
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
                task.cancel()

    async def _run(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        self.computed += 1
        try:
            answer = await compute()
        finally:
            self._running.pop(key, None)
        self._keep(key, answer)
        return answer

    def _keep(self, key: Hashable, answer: T) -> None:
        weight = self._weigh(answer)
        if not self._entries or weight > self._limit // 4:
            return
        self._kept[key] = answer
        self._weight += weight
        while len(self._kept) > self._entries or self._weight > self._limit:
            _, dropped = self._kept.popitem(last=False)
            self._weight -= self._weigh(dropped)
