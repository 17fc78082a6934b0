"""Deadlines on the monotonic clock: the time left, and a time limit that blames nobody else's timeouts on itself."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType

from fathom.core.errors import DeadlineExceeded


def remaining_s(deadline: float | None, culprit: str) -> float | None:
    """Return the seconds left until ``deadline`` (monotonic clock), None without one.

    Raises ``DeadlineExceeded`` naming ``culprit`` when no time is left.
    """
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise DeadlineExceeded(f"{culprit} was given no time", metadata={"culprit": culprit})
    return left


def time_limit(timeout_s: float | None, culprit: str = "", message: str = "") -> TimeLimit:
    """Cancel the block after ``timeout_s`` seconds and raise ``DeadlineExceeded`` naming ``culprit``, if one is given.

    Without ``timeout_s`` there is no limit. A ``TimeoutError`` of the block's own, e.g. of a socket, passes unchanged.
    """
    return TimeLimit(asyncio.timeout(timeout_s), culprit, message)


# A class and not a generator: every call that a service answers passes through one.
class TimeLimit:
    """Asynchronous context of ``time_limit``."""

    __slots__ = ("_culprit", "_limit", "_message")

    def __init__(self, limit: asyncio.Timeout, culprit: str, message: str) -> None:
        self._limit, self._culprit, self._message = limit, culprit, message

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError as expired:
            error = expired
        # Both look the same from outside: only the limit itself knows whether it was the one that fired.
        if isinstance(error, TimeoutError) and self._limit.expired():
            culprit = self._culprit
            metadata = {"culprit": culprit} if culprit else {}
            said = self._message or (f"{culprit} did not answer in time" if culprit else "the time limit was reached")
            raise DeadlineExceeded(said, metadata=metadata) from error
