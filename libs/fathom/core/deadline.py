"""Deadlines on the monotonic clock: the time left, and a time limit that blames nobody else's timeouts on itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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


@asynccontextmanager
async def time_limit(timeout_s: float | None, culprit: str = "", message: str = "") -> AsyncIterator[None]:
    """Cancel the block after ``timeout_s`` seconds and raise ``DeadlineExceeded`` naming ``culprit``, if one is given.

    Without ``timeout_s`` there is no limit. A ``TimeoutError`` of the block's own, e.g. of a socket, passes unchanged.
    """
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        # Both look the same from outside: only the limit itself knows whether it was the one that fired.
        if not limit.expired():
            raise
        metadata = {"culprit": culprit} if culprit else {}
        said = message or (f"{culprit} did not answer in time" if culprit else "the time limit was reached")
        raise DeadlineExceeded(said, metadata=metadata) from error
