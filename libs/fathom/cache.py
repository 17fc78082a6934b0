"""A cache with three bounds: how many entries, how many bytes, how old."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
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
    """Holds the entries used last; an entry that is older than ``ttl_s`` seconds is gone. For one thread.

    Every call drops what has expired, so that a cache in use holds nothing stale. Not a single flight: whoever
    finds nothing loads by itself.
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
        self._by_use.move_to_end(key)
        return entry.value

    def put(self, key: K, value: V, size_bytes: int) -> bool:
        """Hold a value in the place of an earlier one, at the cost of those used longest ago.

        False, and nothing else changes but that the key is free, when it alone is over the bound.
        """
        self.pop(key)
        if size_bytes > self._max_bytes or self._max_entries < 1:
            return False
        self._by_use[key] = Entry(value, size_bytes, self._clock() + self._ttl_s)
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
