"""One computation for callers who ask the same at the same time, and a memory of the last answers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Flight(Generic[T]):
    """Answers by key. ``entries`` and ``weight`` (with ``weigh``, bytes) bound what is remembered; failures are not.

    A caller who is cancelled leaves the computation to the others; it ends when the last of them has gone.
    """

    def __init__(self, entries: int, weight: int, weigh: Callable[[T], int]) -> None:
        self._entries, self._limit, self._weigh = entries, weight, weigh
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._weight = 0
        self._running: dict[Hashable, asyncio.Task[T]] = {}
        self._waiting: dict[Hashable, int] = {}
        self.asked = self.computed = 0

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """The answer for a key, computed once for all who ask meanwhile; raises what ``compute`` raises."""
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
