"""Bounded retries: exponential backoff with jitter, within the deadline and within a budget."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from fathom.errors import FathomError


@dataclass(frozen=True)
class RetryPolicy:
    """Retry limits and backoff of a client. Times are in seconds.

    Only transient errors are retried, and streams only before their first response. With the defaults the attempts
    spread over 8 to 11 s, long enough for a service to restart.
    """

    attempts: int = 10
    first_delay_s: float = 0.1
    max_delay_s: float = 2.0

    def delay_s(self, attempt: int, error: FathomError) -> float:
        """Return the pause after failed attempt number ``attempt`` (from 1).

        The pause is never shorter than the server's ``retry_after_s``.
        """
        backoff = min(self.max_delay_s, self.first_delay_s * 2.0 ** (attempt - 1))
        jittered = backoff * (0.75 + 0.25 * random.random())  # noqa: S311 - spreads retries, hides nothing
        return max(jittered, error.retry_after_s or 0.0)


@dataclass
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
