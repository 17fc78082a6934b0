"""Retries of HTTP requests within a deadline, and parsing of ``Retry-After``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from fathom.core.deadline import remaining_s, time_limit
from fathom.core.retry import RetryPolicy, retry

T = TypeVar("T")
# Fewer and slower than between our own services: each attempt counts against a vendor's quota.
POLICY = RetryPolicy(attempts=3, first_delay_s=0.5, max_delay_s=8.0)


async def with_retries(
    work: Callable[[], Awaitable[T]], policy: RetryPolicy, deadline: float | None, culprit: str
) -> T:
    """Return the result of ``work``, retrying transient errors while attempts and time last.

    Raises ``DeadlineExceeded`` naming ``culprit`` when an attempt does not end in time.
    """

    async def attempt() -> T:
        async with time_limit(remaining_s(deadline, culprit), culprit):
            return await work()

    return await retry(attempt, policy, deadline)


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
        # The second form of RFC 9110: a date in place of seconds.
        when = parsedate_to_datetime(header)
    except ValueError:
        return default
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
