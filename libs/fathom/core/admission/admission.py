"""Admission control of one upstream: places and rate, lanes, fair turns, bounded waiting, and shedding with a delay.

Interactive requests come before evaluation, evaluation before training; every ``OLDEST_EVERY``-th turn goes to the
request that has waited longest. Within a lane, tenants take turns, and so do the runs of a tenant: the one that holds
the fewest places comes first. What runs is never preempted.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from fathom.core.admission.gradient import GradientLimit
from fathom.core.admission.queue import ORDER, Claimant, LaneQueue, Turn, keys_of
from fathom.core.admission.quota import Quota
from fathom.core.admission.shares import Share
from fathom.core.call import Lane, current_call
from fathom.core.errors import Overloaded

# Shorter delays only cause another refusal; longer ones would outlast most bursts.
MIN_RETRY_S, MAX_RETRY_S = 0.5, 30.0
# Weight of the latest request in the moving average of durations: about the last five count.
SMOOTHING = 0.2
# People come one at a time: the next one finds a place free, and meanwhile another one gets free for whoever follows.
HEADROOM = 1
# Sums of times are rounded: a look at the very end of a span could be a look too early, and so without end.
LEAST_DELAY_S = 0.01


@dataclass(frozen=True)
class Limits:
    """Limits of one upstream.

    ``running`` and ``waiting`` are numbers of requests, ``units`` bounds the sum of what the running ones reserve (such
    as tokens), ``per_second`` the rate at which they begin, ``wait_s`` the longest wait in seconds; 0 units and rate
    set no limit. With ``least`` nobody knows the upstream's capacity: its latency sets the places between ``least`` and
    ``running`` (see ``gradient``). While interactive requests are there, and for ``reserve_s`` seconds after the last
    of them, places are for them alone, since they are held for long and the others would leave none free: ``reserved``
    places, or one more than there are such requests, up to ``most_reserved``.
    """

    running: int
    waiting: int
    units: int = 0
    per_second: float = 0.0
    wait_s: float = math.inf
    reserved: int = 0
    most_reserved: int = 0
    reserve_s: float = math.inf
    least: int = 0


class AdmissionObserver(Protocol):
    """Receiver of what happens at an admission, such as metrics."""

    def record_admission(self, lane: Lane, waited_s: float) -> None: ...

    def record_refusal(self, lane: Lane) -> None: ...

    def record_change(self, admission: Admission) -> None: ...


class Place:
    """A place taken; ``release`` gives it back, once."""

    def __init__(self, admission: Admission, claimant: Claimant, units: int, started: float) -> None:
        self._admission, self._claimant, self._units, self._started = admission, claimant, units, started
        self._is_held = True

    def release(self, *, is_dropped: bool = False) -> None:
        """Give the place back; ``is_dropped`` says that the upstream refused the request or lost it."""
        if self._is_held:
            self._is_held = False
            self._admission.leave(self._claimant, self._units, self._started, is_dropped=is_dropped)


class Admission:
    """Admission queue of one upstream, for one event loop. ``pause`` stops admissions, not what runs."""

    def __init__(
        self, name: str, limits: Limits, observer: AdmissionObserver | None = None, noun: str = "requests"
    ) -> None:
        """Create the queue; ``name`` and ``noun`` say in refusals what is full, and of what."""
        self._name, self.limits, self._observer, self._noun = name, limits, observer, noun
        self._gradient = GradientLimit(limits.least, limits.running) if limits.least else None
        self._quota = Quota()
        self._share: Share | None = None
        self._notice: Callable[[], None] | None = None
        self._held: Counter[tuple[str, ...]] = Counter()
        self._queue = LaneQueue(self._held)
        self._running, self._units, self._people = 0, 0, 0
        self._seconds, self._ended = MIN_RETRY_S, 0
        self._next_start, self._people_at = 0.0, -math.inf
        self.started_at = -math.inf
        """Time at which the latest request was admitted (the loop's time)."""
        self._paused = False
        self._resume: asyncio.TimerHandle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_paused(self) -> bool:
        return self._paused

    @property
    def places(self) -> int:
        """Return how many requests may run at once: by the share, the quota, the upstream's latency or the limits."""
        if self._share is not None and self._share.places is not None:
            return self._share.places if self._has_share() else 0
        if self._quota.running is not None:
            return self._quota.running
        return self.limits.running if self._gradient is None else self._gradient.places

    @property
    def per_second(self) -> float:
        """Return how many requests may begin per second; 0 sets no limit."""
        if self._share is not None and self._share.per_second is not None:
            return self._share.per_second
        return self.limits.per_second if self._quota.per_second is None else self._quota.per_second

    def set_quota(self, quota: Quota) -> None:
        """Replace the limits at once by those of a quota; what runs goes on, and a quota of 0 refuses what waits."""
        self._quota = quota
        if quota.running == 0:
            self._queue.refuse_all(self._shed)
        self._grant()
        self._show()

    def set_share(self, share: Share | None, notice: Callable[[], None] | None = None) -> None:
        """Keep to this replica's share of a limit, from now on; None goes back to limits of its own.

        ``notice`` is called when requests come or end, for whoever keeps the share.
        """
        self._share, self._notice = share, notice
        self._grant()
        self._show()

    def _has_share(self) -> bool:
        """Return whether the share still holds; looked at with each request, since a process may have stood still."""
        return self._share is None or asyncio.get_running_loop().time() < self._share.until

    @property
    def people(self) -> int:
        """Return the number of interactive requests, running or queued."""
        return self._people + self._queue.sizes[Lane.INTERACTIVE]

    @property
    def requests(self) -> int:
        """Return the number of all requests, running or queued."""
        return self._running + len(self._queue)

    @property
    def running(self) -> int:
        """Return the number of requests admitted and not finished."""
        return self._running

    @property
    def units(self) -> int:
        """Return the sum of what running requests have reserved."""
        return self._units

    @property
    def backlog(self) -> int:
        """Return the number of queued requests."""
        return len(self._queue)

    @property
    def waiting(self) -> Mapping[Lane, int]:
        """Return the number of queued requests by lane."""
        return self._queue.sizes

    def pause(self, resume_after_s: float | None = None) -> None:
        """Queue new requests from now on.

        Resume automatically after ``resume_after_s`` seconds unless that is None.
        """
        self._paused = True
        self._forget_resume()
        if resume_after_s is not None:
            self._resume = asyncio.get_running_loop().call_later(resume_after_s, self.resume)

    def resume(self) -> None:
        self._paused = False
        self._forget_resume()
        self._grant()

    def _forget_resume(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None

    async def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait at most ``timeout_s`` seconds until nothing runs; return whether that is so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        return not self._running

    @asynccontextmanager
    async def admit(self, claimant: Claimant, units: int = 1) -> AsyncIterator[None]:
        """Hold a place inside the block; see ``acquire``."""
        place = await self.acquire(claimant, units)
        try:
            yield
        finally:
            place.release()

    async def acquire(self, claimant: Claimant, units: int = 1, within_s: float = math.inf) -> Place:
        """Wait for a turn and reserve ``units``; the caller must release the place.

        Raise ``Overloaded`` with a delay when the queue is full, or when the wait is, or is expected to be, longer than
        the limit, ``within_s`` or the caller's deadline allow. A request larger than all units is admitted when
        nothing else runs.
        """
        # A request larger than the whole limit would never fit; capped, it is admitted when nothing else runs.
        reserved = min(max(units, 1), self.limits.units) if self.limits.units else max(units, 1)
        started = asyncio.get_running_loop().time()
        self._note_person(claimant.lane)
        if self.must_wait(claimant.lane, reserved):
            within_s = min(within_s, self.limits.wait_s)
            self._refuse_late(claimant.lane, within_s)
            await self._take_turn(Turn(claimant, reserved, started), within_s)
        else:
            self._let_in(claimant, reserved)
            self._show()
        now = asyncio.get_running_loop().time()
        if self._observer is not None:
            self._observer.record_admission(claimant.lane, now - started)
        return Place(self, claimant, reserved, now)

    def expect_wait_s(self, lane: Lane) -> float:
        """Return the expected wait of a request that comes now, by the rate and by what is known of durations."""
        before, paced = self._waits_before(lane), 0.0
        if self.per_second:
            until_next = max(0.0, self._next_start - asyncio.get_running_loop().time())
            paced = until_next + before / self.per_second
        # A replica without work holds no share, and gets one as soon as it asks.
        is_new = self._share is not None and not self._running and not before
        if not self._ended or is_new or (self._fits(lane, 1) and not before):
            return paced
        return max(paced, self._seconds * (before + 1) / max(1, self._open_to(lane)))

    def must_wait(self, lane: Lane, units: int = 1) -> bool:
        """Return whether a request that comes now would not be admitted at once."""
        reserved = min(max(units, 1), self.limits.units) if self.limits.units else max(units, 1)
        is_paced = self.per_second > 0 and asyncio.get_running_loop().time() < self._next_start
        return is_paced or bool(len(self._queue)) or not self._fits(lane, reserved)

    def _refuse_late(self, lane: Lane, within_s: float) -> None:
        """Raise ``Overloaded`` for a request that would be given up before its turn, or that a quota refuses."""
        if self._quota.running == 0:
            raise self._shed(lane)
        call = current_call()
        remaining = math.inf if call is None or (left := call.remaining_s()) is None else left
        # Early, so that a caller asks again later or elsewhere and the queue holds only what will be served.
        if self.expect_wait_s(lane) > min(within_s, remaining):
            raise self._shed(lane)

    async def _take_turn(self, turn: Turn, within_s: float) -> None:
        lane = turn.claimant.lane
        if self._is_full_for(turn.claimant):
            raise self._shed(lane)
        self._queue.push(turn)
        self._grant()
        self._show()
        try:
            async with asyncio.timeout(within_s if math.isfinite(within_s) else None) as limit:
                await turn.granted
        except BaseException as error:  # cancellation included: a turn must not be lost with its caller
            self._note_person(lane)
            if not self._queue.remove(turn) and turn.granted.done() and not is_broken(turn.granted):
                self._free(turn.claimant, turn.units)  # it was let in at the moment in which its caller went away
            self._grant()
            self._show()
            if isinstance(error, TimeoutError) and limit.expired():
                raise self._shed(lane) from None
            raise

    def _is_full_for(self, claimant: Claimant) -> bool:
        """Return whether the queue has no room for a request.

        Sheds a queued request of a later lane, or of a tenant that has more in the same lane, if needed.
        """
        # With `waiting: 0` a free place may still be taken at once: the queue is then only passed through.
        if len(self._queue) < self.limits.waiting or (self._fits(claimant.lane, 1) and not len(self._queue)):
            return False
        if (dropped := self._queue.make_room(claimant)) is None:
            return True
        dropped.granted.set_exception(self._shed(dropped.claimant.lane))
        return False

    def _shed(self, lane: Lane) -> Overloaded:
        if self._observer is not None:
            self._observer.record_refusal(lane)
        if self._quota.running == 0:
            return Overloaded(f"{self._name}: its quota is 0, nobody may use it", MAX_RETRY_S)
        units = f" with {self._units:,} reserved" if self.limits.units else ""
        places = f"{self._running} of {self.places} places are taken by {self._noun}{units}"
        text = f"{self._name}: {places}, {len(self._queue)} are waiting"
        return Overloaded(text, self._retry_after_s(lane))

    def _retry_after_s(self, lane: Lane) -> float:
        """Estimate the seconds until admission from the queue ahead and the duration of recent requests."""
        ahead = self._seconds * (1 + self._waits_before(lane) / max(1, self.places))
        return round(min(MAX_RETRY_S, max(MIN_RETRY_S, ahead, self.expect_wait_s(lane))), 3)

    def _waits_before(self, lane: Lane) -> int:
        """Return the number of queued requests of lanes up to this one, which come before a new request."""
        sizes = self._queue.sizes
        return sum(sizes[earlier] for earlier in ORDER[: ORDER.index(lane) + 1])

    def _open_to(self, lane: Lane) -> int:
        """Return the number of places that may be taken, by whomever, when a request of a lane is admitted."""
        if lane is Lane.INTERACTIVE:
            return self.places
        # What people hold already is of those kept for them.
        return min(self.places, max(1, self.places - max(0, self._count_reserved() - self._people)))

    def _count_reserved(self) -> int:
        """Return the number of places kept for interactive requests now, those that they hold among them."""
        limits = self.limits
        if not self._is_reserving():
            return 0
        # Of fewer places than the limits say, as many fewer are kept.
        running = max(1, limits.running)
        reserved = min(limits.reserved, -(-limits.reserved * self.places // running))
        return max(reserved, min(self.people + HEADROOM, limits.most_reserved * self.places // running))

    def _is_reserving(self) -> bool:
        """Return whether interactive requests are there or were there a short time ago."""
        limits = self.limits
        if not (limits.reserved or limits.most_reserved):
            return False
        return math.isinf(limits.reserve_s) or self.people > 0 or self._find_reserve_end_s() > 0

    def _find_reserve_end_s(self) -> float:
        """Return the seconds until the reservation ends if no interactive request comes; at most 0 when it has."""
        return self._people_at + self.limits.reserve_s - asyncio.get_running_loop().time()

    def _note_person(self, lane: Lane) -> None:
        if lane is Lane.INTERACTIVE:
            self._people_at = asyncio.get_running_loop().time()

    def _fits(self, lane: Lane, units: int) -> bool:
        if self._paused or not self._is_open_to(lane) or self._is_without_slots():
            return False
        return not self.limits.units or self._units + units <= self.limits.units

    def _is_without_slots(self) -> bool:
        """Return whether other replicas have the whole rate."""
        share = self._share
        return share is not None and share.per_second is not None and not (share.per_second and self._has_share())

    def _is_open_to(self, lane: Lane) -> bool:
        return self._running < self._open_to(lane)

    def _grant(self) -> None:
        # Only the request whose turn it is is considered: a large one that does not fit yet must not be overtaken by
        # small ones behind it, or it would wait forever.
        while (turn := self._queue.next(self._is_open_to)) is not None and self._fits(turn.claimant.lane, turn.units):
            now = asyncio.get_running_loop().time()
            if self.per_second and now < self._next_start:
                self._grant_later(self._next_start - now)
                return
            self._queue.pop(turn)
            # Its caller was cancelled in the same step of the event loop and has not removed the turn yet.
            if turn.granted.done():
                continue
            self._let_in(turn.claimant, turn.units)
            turn.granted.set_result(None)
        # Nothing else tells those who wait that no places are kept any more.
        if turn is not None and not self.people and self._is_reserving() and math.isfinite(self.limits.reserve_s):
            self._grant_later(max(LEAST_DELAY_S, self._find_reserve_end_s()))

    def _let_in(self, claimant: Claimant, units: int) -> None:
        now = asyncio.get_running_loop().time()
        if self.per_second:
            self._next_start = max(now, self._next_start) + 1 / self.per_second
        self._running, self.started_at = self._running + 1, now
        self._people += claimant.lane is Lane.INTERACTIVE
        self._units += units
        for key in keys_of(claimant):
            self._held[key] += 1
        self._idle.clear()

    def _grant_later(self, seconds: float) -> None:
        if self._later is not None:
            self._later.cancel()
        self._later = asyncio.get_running_loop().call_later(seconds, self._grant)

    def leave(self, claimant: Claimant, units: int, started: float, *, is_dropped: bool = False) -> None:
        """Give a place back that was taken at ``started`` (the loop's time)."""
        taken = asyncio.get_running_loop().time() - started
        self._note_person(claimant.lane)
        if self._gradient is not None:
            self._gradient.note(taken, self._running, is_dropped=is_dropped)
        self._seconds += SMOOTHING * (taken - self._seconds)
        self._ended += 1
        self._free(claimant, units)
        self._grant()
        self._show()

    def _free(self, claimant: Claimant, units: int) -> None:
        self._running -= 1
        self._people -= claimant.lane is Lane.INTERACTIVE
        self._units -= units
        for key in keys_of(claimant):
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
        if not self._running:
            self._idle.set()

    def _show(self) -> None:
        if self._notice is not None:
            self._notice()
        if self._observer is not None:
            self._observer.record_change(self)


def is_broken(future: asyncio.Future[None]) -> bool:
    """Return whether a future that is done has no result."""
    return future.cancelled() or future.exception() is not None
