"""Cache of vendors' answers with request coalescing.

A group of eight rollouts that ask the same question makes one upstream call.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fathom.core.cache import LoadingCache
from fathom.core.deadline import remaining_s, time_limit
from fathom.core.errors import DeadlineExceeded, NotFound

T = TypeVar("T")
# Far more than fit into the bytes: they are the bound that counts.
MAX_ENTRIES = 100_000
# Bytes counted for the knowledge that something does not exist.
MISSING_BYTES = 256


@dataclass(frozen=True)
class CacheCounts:
    """Counters: ``calls`` went upstream, ``hits`` came from the cache, ``shared`` joined a running call."""

    calls: int = 0
    hits: int = 0
    shared: int = 0


class SharedCache(Generic[T]):
    """A ``LoadingCache`` with an expiry per answer and a deadline per caller, which also holds that nothing exists."""

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
        self._missing_s = missing_s
        self._answers = LoadingCache[Hashable, T | NotFound](
            max_entries=MAX_ENTRIES,
            max_bytes=limit_bytes,
            size_of=lambda answer: MISSING_BYTES if isinstance(answer, NotFound) else size(answer),
            clock=clock,
        )

    @property
    def size_bytes(self) -> int:
        """Return the bytes in the cache."""
        return self._answers.size_bytes

    @property
    def counts(self) -> CacheCounts:
        """Return how the answers came about."""
        return CacheCounts(self._answers.loads, self._answers.hits, self._answers.joined)

    async def get(
        self, key: Hashable, load: Callable[[], Awaitable[T]], keep_s: float, deadline: float | None, culprit: str
    ) -> T:
        """Return the answer for ``key`` from the cache, a running call, or ``load``; it is kept for ``keep_s`` seconds.

        A caller that leaves does not cancel the call for the others; it is cancelled with its last caller. When the
        deadline of the running call was shorter than this caller's, this caller starts the next one. Raises what
        ``load`` raises, and ``DeadlineExceeded`` naming ``culprit`` at ``deadline`` (monotonic seconds).
        """

        async def answer() -> T | NotFound:
            try:
                return await load()
            except NotFound as error:
                # Cached with the traceback it would hold the frames of the call alive.
                return error.with_traceback(None)

        def lifetime_s(found: T | NotFound) -> float:
            # Not for long: a vendor may list a new security within the day.
            return min(keep_s, self._missing_s) if isinstance(found, NotFound) else keep_s

        async with time_limit(remaining_s(deadline, culprit), culprit):
            while True:
                # A deadline that this caller did not set ends the shared call only; it then starts one with its own
                # time.
                is_own = not self._answers.is_loading(key)
                try:
                    found = await self._answers.get(key, answer, lifetime_s)
                except DeadlineExceeded:
                    if is_own:
                        raise
                    continue
                if isinstance(found, NotFound):
                    raise found
                return found
