"""Admission control per vendor: concurrency limit, rate limit and circuit breaker."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from fathom.core.admission import Admission, Claimant, Limits, Quota
from fathom.core.deadline import remaining_s
from fathom.core.errors import DependencyFailed, FathomError, Overloaded
from fathom.domain.contact import Contact
from fathom.transport.bus.quotas import Quotas

T = TypeVar("T")
# Calls that wait per place: more would wait longer than any caller does.
WAITING_PER_PLACE = 64
# Timers fire a little early; a cancellation within this of the deadline counts as caused by it.
SLACK_S = 0.02
# Reasons that speak against the vendor; refusals of a bad request do not open its circuit.
TROUBLE = frozenset({"DEPENDENCY_FAILED", "DEADLINE", "OVERLOADED", "NOT_READY", "CORRUPT_DATA"})


class CircuitOpen(DependencyFailed):
    """The vendor failed repeatedly; its circuit breaker is open for a while."""

    def __init__(self, vendor: str, seconds: float) -> None:
        super().__init__(vendor, f"failed too often, is left alone for {seconds:.0f} s more")
        self.retry_after_s = seconds


@dataclass(frozen=True)
class LanePolicy:
    """Limits of a vendor: concurrent calls and calls per second.

    ``failures`` in a row open the circuit for ``open_s`` seconds.
    """

    concurrency: int = 2
    per_second: float = 2.0
    failures: int = 4
    open_s: float = 30.0


@dataclass
class Counts:
    """Counters of a lane since its creation."""

    started: int = 0
    failed: int = 0
    refused: int = 0
    waiting: int = 0


@dataclass
class Lane:
    """The admission control of one vendor, for one event loop; ``clock`` is monotonic, in seconds."""

    vendor: str
    policy: LanePolicy = field(default_factory=LanePolicy)
    clock: Callable[[], float] = time.monotonic
    counts: Counts = field(default_factory=Counts)
    quotas: Quotas | None = None
    """With them the limits hold over all replicas, and operators change them."""
    contact: Contact = field(default_factory=Contact)

    def __post_init__(self) -> None:
        policy = self.policy
        limits = Limits(policy.concurrency, policy.concurrency * WAITING_PER_PLACE, per_second=policy.per_second)
        self._admission = Admission(self.vendor, limits, noun="calls")
        if self.quotas is not None:
            shared = Quota(policy.concurrency, policy.per_second)
            self.quotas.govern(f"source.{self.vendor}", self._admission, shared)
        self._row = 0
        self._open_until: float | None = None

    @property
    def is_paused(self) -> bool:
        """Return whether calls are refused because the vendor failed too often in a row."""
        return self._open_until is not None and self._open_until > self.clock()

    async def run(self, work: Callable[[], Awaitable[T]], deadline: float | None = None) -> T:
        """Run ``work`` within the vendor's limits and return its result; ``deadline`` is in monotonic seconds.

        People come before trainings, and tenants take turns. Raises ``CircuitOpen`` at once while the circuit is open,
        ``Overloaded`` when no place and slot of the rate is free before the deadline, ``DeadlineExceeded`` when the
        deadline has passed already, and what ``work`` raises.
        """
        self._admit()
        self.counts.waiting += 1
        try:
            left = remaining_s(deadline, self.vendor)
            place = await self._admission.acquire(Claimant.current(), within_s=math.inf if left is None else left)
        except Overloaded:
            self.counts.refused += 1
            raise
        finally:
            self.counts.waiting -= 1
        try:
            # Again: the circuit may have opened while this call waited.
            self._admit()
            return await self._run_counted(work, deadline)
        finally:
            place.release()

    def _admit(self) -> None:
        """Raise ``CircuitOpen`` while the circuit is open; after the pause one call at a time may try."""
        if self._open_until is None:
            return
        left = self._open_until - self.clock()
        if left > 0:
            self.counts.refused += 1
            raise CircuitOpen(self.vendor, left)

    async def _run_counted(self, work: Callable[[], Awaitable[T]], deadline: float | None) -> T:
        self.counts.started += 1
        self.contact.note_try()
        if self._open_until is not None:
            # Half open: this call is the trial; others are refused until it ends, or for another pause.
            self._open_until = self.clock() + self.policy.open_s
        try:
            result = await work()
        except FathomError as error:
            self._note((error.message or error.reason) if error.reason in TROUBLE else "")
            raise
        except asyncio.CancelledError:
            # Cancelled because the deadline passed, which counts as the vendor's failure, or for reasons of the caller.
            if deadline is not None and time.monotonic() >= deadline - SLACK_S:
                self._note("did not answer before the deadline of the question")
            raise
        except Exception as error:  # an unexpected error says as little for the vendor as a typed one
            # The kind alone: its text may quote an address with a key.
            self._note(f"its answer could not be read: {type(error).__name__}")
            raise
        self._note("")
        return result

    def _note(self, failure: str) -> None:
        """Record why a call failed, "" if it did not, and open the circuit after too many failures in a row."""
        # A refusal or an unknown symbol is no failure: the vendor works.
        if not failure:
            self._row, self._open_until = 0, None
            self.contact.note_answer()
            return
        self.contact.note_failure(failure)
        self.counts.failed += 1
        self._row += 1
        if self._row >= self.policy.failures:
            self._open_until = self.clock() + self.policy.open_s
