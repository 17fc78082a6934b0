"""Caches with three bounds (entries, bytes, age), with and without loading.

``BoundedCache`` holds values; ``LoadingCache`` also computes what it lacks, once for all concurrent callers.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class Entry(Generic[V]):
    """A value with what it counts for. ``expires`` is on the cache's clock."""

    value: V
    size_bytes: int
    expires: float


class BoundedCache(Generic[K, V]):
    """Hold the entries used last; an entry older than ``ttl_s`` seconds is never returned. For one thread.

    Every call drops what has expired, so that a cache in use holds nothing stale.
    """

    def __init__(
        self, *, max_entries: int, max_bytes: int, ttl_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_entries, self._max_bytes, self._ttl_s, self._clock = max_entries, max_bytes, ttl_s, clock
        # Two orders, for an entry that is used does not become younger: by use for the bounds, by age for the end.
        self._by_use: OrderedDict[K, Entry[V]] = OrderedDict()
        self._by_age: OrderedDict[K, None] = OrderedDict()
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._by_use)

    @property
    def size_bytes(self) -> int:
        """The sum of the sizes that ``put`` was given for what is held."""
        return self._size_bytes

    def get(self, key: K) -> V | None:
        """Return the value, which then counts as used last; None when it is not held."""
        self.drop_expired()
        entry = self._by_use.get(key)
        if entry is None:
            return None
        # An entry with a shorter life than an older one is behind it in the order of age.
        if entry.expires <= self._clock():
            self._remove(key)
            return None
        self._by_use.move_to_end(key)
        return entry.value

    def put(self, key: K, value: V, size_bytes: int, ttl_s: float | None = None) -> bool:
        """Hold a value in the place of an earlier one, at the cost of those used longest ago.

        ``ttl_s`` shortens the lifetime of this entry. Returns False, having only freed the key, for an entry that alone
        is over the bound or has no lifetime.
        """
        self.pop(key)
        lifetime = self._ttl_s if ttl_s is None else min(ttl_s, self._ttl_s)
        # A value over the bound would drive out everything else and then itself.
        if size_bytes > self._max_bytes or self._max_entries < 1 or lifetime <= 0:
            return False
        self._by_use[key] = Entry(value, size_bytes, self._clock() + lifetime)
        self._by_age[key] = None
        self._size_bytes += size_bytes
        while len(self._by_use) > self._max_entries or self._size_bytes > self._max_bytes:
            self._remove(next(iter(self._by_use)))
        return True

    def pop(self, key: K) -> V | None:
        """Take a value out; None when it is not held."""
        self.drop_expired()
        return self._remove(key) if key in self._by_use else None

    def drop_expired(self) -> None:
        """Drop every entry whose time is over; cheap when there is none."""
        now = self._clock()
        while self._by_age:
            oldest = next(iter(self._by_age))
            if self._by_use[oldest].expires > now:
                return
            self._remove(oldest)

    def _remove(self, key: K) -> V:
        entry = self._by_use.pop(key)
        del self._by_age[key]
        self._size_bytes -= entry.size_bytes
        return entry.value


@dataclass
class CacheUse:
    """Counts of the values that a piece of work took from loading caches: ``held`` before it asked, or ``computed``."""

    held: int = 0
    computed: int = 0

    @property
    def is_cached(self) -> bool:
        """Return whether all that was asked for was held."""
        return self.held > 0 and not self.computed


CURRENT_USE: ContextVar[CacheUse | None] = ContextVar("cache_use", default=None)


@contextmanager
def observe_cache() -> Iterator[CacheUse]:
    """Count what the code of this block, and the tasks that it starts, take from every ``LoadingCache``."""
    use = CacheUse()
    token = CURRENT_USE.set(use)
    try:
        yield use
    finally:
        CURRENT_USE.reset(token)


@dataclass
class Load(Generic[V]):
    """A computation under way and the number of callers that wait for it."""

    task: asyncio.Task[V]
    waiters: int = 0


class LoadingCache(Generic[K, V]):
    """A ``BoundedCache`` whose missing values are computed once for all concurrent callers. For one event loop.

    Failures are not held. A caller that goes away leaves the computation to the others; it is cancelled with the last
    of them. ``hits``, ``joined`` and ``loads`` count the calls that found a value, waited for another caller's
    computation, and started one.
    """

    def __init__(
        self,
        *,
        max_entries: int,
        max_bytes: int,
        size_of: Callable[[V], int],
        max_entry_bytes: int | None = None,
        ttl_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create an empty cache; ``size_of`` returns the bytes of a value.

        A value larger than ``max_entry_bytes`` is returned and not held. Without entries or bytes nothing is held, and
        concurrent callers still share a computation.
        """
        self._held = BoundedCache[K, V](max_entries=max_entries, max_bytes=max_bytes, ttl_s=ttl_s, clock=clock)
        self._size_of = size_of
        self._max_entry_bytes = max_bytes if max_entry_bytes is None else max_entry_bytes
        self._loads: dict[K, Load[V]] = {}
        self.hits = self.joined = self.loads = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def size_bytes(self) -> int:
        """The sum of the sizes of what is held."""
        return self._held.size_bytes

    def is_loading(self, key: K) -> bool:
        """Return True while a computation for this key is under way."""
        return key in self._loads

    def find(self, key: K) -> V | None:
        """Return the value of a key if it is held; None otherwise."""
        held = self._held.get(key)
        if held is not None:
            self.hits += 1
            if (use := CURRENT_USE.get()) is not None:
                use.held += 1
        return held

    async def get(self, key: K, load: Callable[[], Awaitable[V]], lifetime_s: Callable[[V], float] | None = None) -> V:
        """Return the value of a key: held, of a computation under way, or of ``load``; raise what ``load`` raises.

        ``lifetime_s`` may shorten the time for which the value is held.
        """
        if (held := self.find(key)) is not None:
            return held
        # Also what is being computed for another caller: it is as new as the call.
        if (use := CURRENT_USE.get()) is not None:
            use.computed += 1
        running = self._loads.get(key)
        if running is None:
            self.loads += 1
            running = self._loads[key] = Load(asyncio.ensure_future(self._load(key, load, lifetime_s)))
            # Asyncio warns of an exception that nobody has looked at, as when all callers have left.
            running.task.add_done_callback(lambda done: done.cancelled() or done.exception())
        else:
            self.joined += 1
        running.waiters += 1
        try:
            # Shielded: a caller that is cancelled leaves, and the computation goes on for the others.
            return await asyncio.shield(running.task)
        finally:
            running.waiters -= 1
            # The last one to leave ends it; nobody would read the result.
            if not running.waiters and not running.task.done():
                # Forgotten at once: a caller that comes before the task has ended must not join it.
                self._forget(key, running.task)
                running.task.cancel()

    async def _load(self, key: K, load: Callable[[], Awaitable[V]], lifetime_s: Callable[[V], float] | None) -> V:
        task = asyncio.current_task()
        try:
            value = await load()
        finally:
            self._forget(key, task)
        size = self._size_of(value)
        if size <= self._max_entry_bytes:
            self._held.put(key, value, size, lifetime_s(value) if lifetime_s else None)
        return value

    def _forget(self, key: K, task: asyncio.Task[V] | None) -> None:
        running = self._loads.get(key)
        if running is not None and running.task is task:
            del self._loads[key]

    async def close(self) -> None:
        """Cancel the computations under way."""
        tasks = [running.task for running in self._loads.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
