"""Bounded retries within a deadline, and parsing of ``Retry-After``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from fathom.clients.retry import RetryPolicy
from fathom.errors import DeadlineExceeded, FathomError

T = TypeVar("T")
POLICY = RetryPolicy(attempts=3, first_delay_s=0.5, max_delay_s=8.0)


def remaining(deadline: float | None, culprit: str) -> float | None:
    """Return the seconds left until ``deadline`` (monotonic clock), None without one.

    Raises ``DeadlineExceeded`` when no time is left.
    """
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise DeadlineExceeded(f"{culprit} was given no time", metadata={"culprit": culprit})
    return left


async def with_retries(
    work: Callable[[], Awaitable[T]], policy: RetryPolicy, deadline: float | None, culprit: str
) -> T:
    """Return the result of ``work``, retrying transient errors while attempts and time last.

    Raises ``DeadlineExceeded`` naming ``culprit`` when an attempt does not end in time.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            async with asyncio.timeout(remaining(deadline, culprit)):
                return await work()
        except TimeoutError as error:
            raise DeadlineExceeded(f"{culprit} did not answer in time", metadata={"culprit": culprit}) from error
        except FathomError as error:
            delay = policy.delay_s(attempt, error)
            # A pause that would outlast the deadline raises the last error at once: it says more than a timeout.
            spent = deadline is not None and time.monotonic() + delay >= deadline
            if not error.transient or attempt >= policy.attempts or spent:
                raise
        await asyncio.sleep(delay)


def retry_after_s(header: str | None, default: float = 1.0) -> float:
    """Return the seconds to wait from a ``Retry-After`` header, given in seconds or as a date; never below 0.

    Returns ``default`` for a missing or malformed header.
    """
    if not header:
        return default
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(header)
    except ValueError:
        return default
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
