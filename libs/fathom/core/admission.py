"""Admission control of one upstream: places and rate, lanes, fair turns, bounded waiting, and shedding with a delay.

Interactive requests come before evaluation, evaluation before training; every ``OLDEST_EVERY``-th turn goes to the
request that has waited longest. Within a lane, tenants take turns, and so do the runs of a tenant: the one that holds
the fewest places comes first. What runs is never preempted.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from fathom.core.call import Lane, current_call
from fathom.core.errors import Overloaded

ORDER = (Lane.INTERACTIVE, Lane.EVALUATION, Lane.TRAINING)
# A tenth of the turns: training progresses under constant interactive load, which loses little by it. Strict priority
# would starve it.
OLDEST_EVERY = 10
# Shorter delays only cause another refusal; longer ones would outlast most bursts.
MIN_RETRY_S, MAX_RETRY_S = 0.5, 30.0
# Weight of the latest request in the moving average of durations: about the last five count.
SMOOTHING = 0.2


@dataclass(frozen=True)
class Limits:
    """Limits of one upstream.

    ``running`` and ``waiting`` are numbers of requests, ``units`` bounds the sum of what the running ones reserve (such
    as tokens), ``per_second`` the rate at which they begin, ``wait_s`` the longest wait in seconds; 0 units and rate
    set no limit. ``reserved`` places are for interactive requests alone, for ``reserve_s`` seconds after each: where
    places are held for long, the others would leave none free.
    """

    running: int
    waiting: int
    units: int = 0
    per_second: float = 0.0
    wait_s: float = math.inf
    reserved: int = 0
    reserve_s: float = math.inf


@dataclass(frozen=True)
class Claimant:
    """Whose request it is. Requests without a tenant or a run share one turn."""

    lane: Lane = Lane.INTERACTIVE
    tenant: str = ""
    run: str = ""

    @classmethod
    def current(cls, run: str = "") -> Claimant:
        """Return the claimant of the call being handled."""
        call = current_call()
        return cls(run=run) if call is None else cls(call.lane, call.tenant, run)


class AdmissionObserver(Protocol):
    """Receiver of what happens at an admission, such as metrics."""

    def record_admission(self, lane: Lane, waited_s: float) -> None: ...

    def record_refusal(self, lane: Lane) -> None: ...

    def record_change(self, admission: Admission) -> None: ...


@dataclass(eq=False)
class Turn:
    """A queued request; shedding it sets an exception on ``granted``."""

    claimant: Claimant
    units: int
    since: float
    granted: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass
class Flow:
    """Queued requests of one run of a tenant; ``turn`` is the number of the turn that it had last, or joined at."""

    turn: int
    queue: deque[Turn] = field(default_factory=deque)


class FairQueue:
    """Queue of one lane. It knows only tenants and runs that wait, so that its size is that of the waiting requests."""

    def __init__(self, held: Counter[tuple[str, ...]]) -> None:
        """Create the queue; ``held`` counts the places held by tenant and by run of a tenant."""
        self._held = held
        self._tenants: dict[str, dict[str, Flow]] = {}
        self._turn_of: dict[str, int] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def push(self, turn: Turn, number: int) -> None:
        """Add a request at the end of its run's queue; a newcomer stands behind whoever waits already."""
        claimant = turn.claimant
        self._turn_of.setdefault(claimant.tenant, number)
        flows = self._tenants.setdefault(claimant.tenant, {})
        flows.setdefault(claimant.run, Flow(number)).queue.append(turn)
        self._size += 1

    def peek(self) -> Turn:
        """Return the request whose turn it is; the queue must not be empty."""
        tenant = min(self._tenants, key=lambda name: (self._held[(name,)], self._turn_of[name]))
        flows = self._tenants[tenant]
        run = min(flows, key=lambda name: (self._held[(tenant, name)], flows[name].turn))
        return flows[run].queue[0]

    def pop(self, turn: Turn, number: int) -> None:
        """Remove a request at its turn ``number``."""
        tenant, run = turn.claimant.tenant, turn.claimant.run
        self._turn_of[tenant] = self._tenants[tenant][run].turn = number
        self.remove(turn)

    def remove(self, turn: Turn) -> bool:
        """Remove a request; return False when it is not queued."""
        tenant, run = turn.claimant.tenant, turn.claimant.run
        flow = self._tenants.get(tenant, {}).get(run)
        if flow is None or turn not in flow.queue:
            return False
        flow.queue.remove(turn)
        self._size -= 1
        if not flow.queue:
            del self._tenants[tenant][run]
        if not self._tenants[tenant]:
            del self._tenants[tenant], self._turn_of[tenant]
        return True

    def oldest(self) -> Turn:
        """Return the request that has waited longest; the queue must not be empty."""
        heads = (flow.queue[0] for flows in self._tenants.values() for flow in flows.values())
        return min(heads, key=lambda turn: turn.since)

    def size_of(self, tenant: str) -> int:
        return sum(len(flow.queue) for flow in self._tenants.get(tenant, {}).values())

    def find_longest(self) -> str:
        """Return the tenant with the most queued requests; the queue must not be empty."""
        return max(self._tenants, key=self.size_of)

    def newest_of(self, tenant: str) -> Turn:
        """Return the request of a tenant that has waited least."""
        return max((flow.queue[-1] for flow in self._tenants[tenant].values()), key=lambda turn: turn.since)


class LaneQueue:
    """Queued requests of all lanes, in the order in which they are served."""

    def __init__(self, held: Counter[tuple[str, ...]] | None = None) -> None:
        """Create the queue; ``held`` counts the places held by tenant and by run of a tenant."""
        self._queues = {lane: FairQueue(Counter() if held is None else held) for lane in ORDER}
        self._turns = 0

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    @property
    def sizes(self) -> Mapping[Lane, int]:
        """Return the number of queued requests by lane."""
        return {lane: len(queue) for lane, queue in self._queues.items()}

    def push(self, turn: Turn) -> None:
        self._queues[turn.claimant.lane].push(turn, self._turns)

    def remove(self, turn: Turn) -> bool:
        """Remove a request that is given up; return False when it is not queued."""
        return self._queues[turn.claimant.lane].remove(turn)

    def next(self, is_open: Callable[[Lane], bool] = lambda lane: True) -> Turn | None:
        """Return the request whose turn it is, or None.

        The turn of the one that has waited longest is passed over while its lane is not open.
        """
        filled = [lane for lane in ORDER if self._queues[lane]]
        if not filled:
            return None
        if (self._turns + 1) % OLDEST_EVERY == 0:
            oldest = min((self._queues[lane].oldest() for lane in filled), key=lambda turn: turn.since)
            # Places that are kept for people are no reason for them to wait.
            if is_open(oldest.claimant.lane):
                return oldest
        return self._queues[filled[0]].peek()

    def pop(self, turn: Turn) -> None:
        """Remove the request whose turn it is."""
        self._turns += 1
        self._queues[turn.claimant.lane].pop(turn, self._turns)

    def make_room(self, claimant: Claimant) -> Turn | None:
        """Remove and return a request that must go for a new one; None when the new one must go itself."""
        lane = claimant.lane
        # The least important lane loses first, and within it the newest request, which has waited least.
        for later in reversed(ORDER[ORDER.index(lane) + 1 :]):
            if self._queues[later]:
                return self._drop(later, self._queues[later].find_longest())
        # Then whoever fills the queue: others would not get in at all.
        queue = self._queues[lane]
        if queue and queue.size_of(longest := queue.find_longest()) > queue.size_of(claimant.tenant) + 1:
            return self._drop(lane, longest)
        return None

    def _drop(self, lane: Lane, tenant: str) -> Turn:
        turn = self._queues[lane].newest_of(tenant)
        self._queues[lane].remove(turn)
        return turn


class Place:
    """A place taken; ``release`` gives it back, once."""

    def __init__(self, admission: Admission, claimant: Claimant, units: int, started: float) -> None:
        self._admission, self._claimant, self._units, self._started = admission, claimant, units, started
        self._is_held = True

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._admission.leave(self._claimant, self._units, self._started)


class Admission:
    """Admission queue of one upstream, for one event loop. ``pause`` stops admissions, not what runs."""

    def __init__(
        self, name: str, limits: Limits, observer: AdmissionObserver | None = None, noun: str = "requests"
    ) -> None:
        """Create the queue; ``name`` and ``noun`` say in refusals what is full, and of what."""
        self._name, self.limits, self._observer, self._noun = name, limits, observer, noun
        self._held: Counter[tuple[str, ...]] = Counter()
        self._queue = LaneQueue(self._held)
        self._running, self._units, self._people = 0, 0, 0
        self._seconds, self._ended = MIN_RETRY_S, 0
        self._next_start, self._people_at = 0.0, -math.inf
        self._paused = False
        self._resume: asyncio.TimerHandle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_paused(self) -> bool:
        return self._paused

    @property
    def running(self) -> int:
        """Return the number of requests admitted and not finished."""
        return self._running

    @property
    def units(self) -> int:
        """Return the sum of what running requests have reserved."""
        return self._units

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
        if claimant.lane is Lane.INTERACTIVE:
            self._people_at = started
        within_s = min(within_s, self.limits.wait_s)
        self._refuse_late(claimant.lane, within_s)
        turn = Turn(claimant, reserved, started)
        await self._take_turn(turn, within_s)
        now = asyncio.get_running_loop().time()
        if self._observer is not None:
            self._observer.record_admission(claimant.lane, now - started)
        return Place(self, claimant, reserved, now)

    def expect_wait_s(self, lane: Lane) -> float:
        """Return the expected wait of a request that comes now, by the rate and by what is known of durations."""
        before, paced = self._waits_before(lane), 0.0
        if self.limits.per_second:
            until_next = max(0.0, self._next_start - asyncio.get_running_loop().time())
            paced = until_next + before / self.limits.per_second
        if not self._ended or (self._fits(lane, 1) and not before):
            return paced
        return max(paced, self._seconds * (before + 1) / self._open_to(lane))

    def _refuse_late(self, lane: Lane, within_s: float) -> None:
        """Raise ``Overloaded`` for a request that would be given up before its turn."""
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
        units = f" with {self._units:,} reserved" if self.limits.units else ""
        places = f"{self._running} of {self.limits.running} places are taken by {self._noun}{units}"
        text = f"{self._name}: {places}, {len(self._queue)} are waiting"
        return Overloaded(text, self._retry_after_s(lane))

    def _retry_after_s(self, lane: Lane) -> float:
        """Estimate the seconds until admission from the queue ahead and the duration of recent requests."""
        ahead = self._seconds * (1 + self._waits_before(lane) / self.limits.running)
        return round(min(MAX_RETRY_S, max(MIN_RETRY_S, ahead, self.expect_wait_s(lane))), 3)

    def _waits_before(self, lane: Lane) -> int:
        """Return the number of queued requests of lanes up to this one, which come before a new request."""
        sizes = self._queue.sizes
        return sum(sizes[earlier] for earlier in ORDER[: ORDER.index(lane) + 1])

    def _open_to(self, lane: Lane) -> int:
        """Return the number of places that may be taken, by whomever, when a request of a lane is admitted."""
        if lane is Lane.INTERACTIVE or not self.limits.reserved:
            return self.limits.running
        is_reserved = asyncio.get_running_loop().time() - self._people_at < self.limits.reserve_s
        reserved = self.limits.reserved if is_reserved or math.isinf(self.limits.reserve_s) else 0
        # What people hold already is of those kept for them.
        return max(1, self.limits.running - max(0, reserved - self._people))

    def _fits(self, lane: Lane, units: int) -> bool:
        if self._paused or not self._is_open_to(lane):
            return False
        return not self.limits.units or self._units + units <= self.limits.units

    def _is_open_to(self, lane: Lane) -> bool:
        return self._running < self._open_to(lane)

    def _grant(self) -> None:
        # Only the request whose turn it is is considered: a large one that does not fit yet must not be overtaken by
        # small ones behind it, or it would wait forever.
        while (turn := self._queue.next(self._is_open_to)) is not None and self._fits(turn.claimant.lane, turn.units):
            now = asyncio.get_running_loop().time()
            if self.limits.per_second and now < self._next_start:
                self._grant_later(self._next_start - now)
                return
            self._queue.pop(turn)
            # Its caller was cancelled in the same step of the event loop and has not removed the turn yet.
            if turn.granted.done():
                continue
            if self.limits.per_second:
                self._next_start = max(now, self._next_start) + 1 / self.limits.per_second
            self._running += 1
            self._people += turn.claimant.lane is Lane.INTERACTIVE
            self._units += turn.units
            self._held.update(keys_of(turn.claimant))
            self._idle.clear()
            turn.granted.set_result(None)

    def _grant_later(self, seconds: float) -> None:
        if self._later is not None:
            self._later.cancel()
        self._later = asyncio.get_running_loop().call_later(seconds, self._grant)

    def leave(self, claimant: Claimant, units: int, started: float) -> None:
        """Give a place back that was taken at ``started`` (the loop's time)."""
        taken = asyncio.get_running_loop().time() - started
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
        if self._observer is not None:
            self._observer.record_change(self)


def keys_of(claimant: Claimant) -> tuple[tuple[str, ...], ...]:
    """Return the keys under which the places of a claimant's tenant and run are counted."""
    return (claimant.tenant,), (claimant.tenant, claimant.run)


def is_broken(future: asyncio.Future[None]) -> bool:
    """Return whether a future that is done has no result."""
    return future.cancelled() or future.exception() is not None
