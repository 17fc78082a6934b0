"""Retries: exponential backoff with jitter, bounded by attempts, by a deadline and by a budget.

``retry`` and ``retry_blocking`` run a function. Code that cannot be a function, such as a generator or a reader that
resumes where it stopped, keeps a ``Retries`` and asks it for each pause.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from fathom.core.errors import FathomError, Internal

T = TypeVar("T")
# Enough to reach any maximum pause; a power without a bound overflows after 1,024 attempts.
MAX_DOUBLINGS = 30


@dataclass(frozen=True)
class RetryPolicy:
    """Limits and backoff of retries. Times are in seconds; ``attempts`` None means no limit.

    Only transient errors are retried, and streams only before their first response. With the defaults the attempts
    spread over 8 to 11 s, long enough for a service to restart.
    """

    attempts: int | None = 10
    first_delay_s: float = 0.1
    max_delay_s: float = 2.0

    def delay_s(self, attempt: int, error: FathomError | None = None) -> float:
        """Return the pause after failed attempt number ``attempt`` (from 1).

        The pause is never shorter than the server's ``retry_after_s``.
        """
        backoff = min(self.max_delay_s, self.first_delay_s * 2.0 ** min(attempt - 1, MAX_DOUBLINGS))
        # Jitter, so that callers that failed together do not come back together.
        jittered = backoff * (0.75 + 0.25 * random.random())  # noqa: S311 - spreads retries, hides nothing
        return max(jittered, (error.retry_after_s if error else None) or 0.0)


def is_transient(error: FathomError) -> bool:
    """Return True when the same call may succeed later."""
    return error.transient


def always(error: FathomError) -> bool:
    """Retry every error, for work that has nobody to report to."""
    return True


async def run_round(work: Callable[[], Awaitable[T]], report: Callable[[FathomError], None]) -> T | None:
    """Return the result of one round of background work; None for one that failed, which is reported.

    The caller goes on with the next round after its pause. An error of a class that is not ours is a defect: it is
    reported as ``Internal``, as it must not end the work of a process for good.
    """
    try:
        return await work()
    except FathomError as error:
        report(error)
    except Exception as error:  # a defect of one round must not end the work of a process for good
        report(Internal(f"{type(error).__name__}: {error}"))
    return None


class Retries:
    """Failures in a row of one operation, and whether another attempt is allowed."""

    def __init__(
        self,
        policy: RetryPolicy,
        deadline: float | None = None,
        is_retryable: Callable[[FathomError], bool] = is_transient,
    ) -> None:
        """Begin without failures; no attempt begins after ``deadline`` (monotonic seconds)."""
        self.policy, self._deadline, self._is_retryable = policy, deadline, is_retryable
        self.failures = 0

    def reset(self) -> None:
        """Forget the failures: the operation has made progress."""
        self.failures = 0

    def next_delay_s(self, error: FathomError) -> float:
        """Count a failure and return the pause before the next attempt.

        Raises ``error`` when it is not retryable, when the attempts are spent, or when the pause would outlast the
        deadline.
        """
        self.failures += 1
        delay = self.policy.delay_s(self.failures, error)
        attempts_spent = self.policy.attempts is not None and self.failures >= self.policy.attempts
        time_spent = self._deadline is not None and time.monotonic() + delay >= self._deadline
        # The last error says more than a timeout after it would.
        if attempts_spent or time_spent or not self._is_retryable(error):
            raise error
        return delay


async def retry(
    work: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    deadline: float | None = None,
    is_retryable: Callable[[FathomError], bool] = is_transient,
) -> T:
    """Return the result of ``work``, repeated as ``Retries`` allows; raise its last error.

    An attempt under way is not cut off at the deadline: ``work`` bounds itself where it must (``deadline.time_limit``).
    """
    retries = Retries(policy, deadline, is_retryable)
    while True:
        try:
            return await work()
        except FathomError as error:
            delay = retries.next_delay_s(error)
        await asyncio.sleep(delay)


def retry_blocking(
    work: Callable[[], T],
    policy: RetryPolicy,
    deadline: float | None = None,
    is_retryable: Callable[[FathomError], bool] = is_transient,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Return the result of ``work`` as ``retry`` does, in a thread without an event loop."""
    retries = Retries(policy, deadline, is_retryable)
    while True:
        try:
            return work()
        except FathomError as error:
            delay = retries.next_delay_s(error)
        sleep(delay)


@dataclass
# With these numbers a client whose calls all fail sends 40 retries and then none, and later one for every five
# successes: a service that is down does not get a multiple of its load from its callers' attempts.
class RetryBudget:
    """Token bucket that prevents retry storms: each retry takes one token, each success returns a part of one."""

    capacity: float = 40.0
    refund: float = 0.2
    tokens: float = field(default=40.0)

    def take(self) -> bool:
        """Take a token and return True, or return False if no retry is allowed."""
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True

    def give_back(self) -> None:
        """Refund a part of a token; called once per success."""
        self.tokens = min(self.capacity, self.tokens + self.refund)
