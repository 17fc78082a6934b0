"""Queued requests of one upstream: by lane, in fair turns between tenants and between the runs of a tenant."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fathom.core.call import Lane, current_call

ORDER = (Lane.INTERACTIVE, Lane.EVALUATION, Lane.TRAINING)
# A tenth of the turns: training progresses under constant interactive load, which loses little by it. Strict priority
# would starve it.
OLDEST_EVERY = 10


@dataclass(frozen=True)
class Claimant:
    """Claimant of a request. Requests without a tenant or a run share one turn."""

    lane: Lane = Lane.INTERACTIVE
    tenant: str = ""
    run: str = ""

    @classmethod
    def current(cls, run: str = "") -> Claimant:
        """Return the claimant of the call being handled."""
        call = current_call()
        return cls(run=run) if call is None else cls(call.lane, call.tenant, run)


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

    def refuse_all(self, refuse: Callable[[Lane], Exception]) -> None:
        """Remove all queued requests, each with the error of its lane."""
        for lane, queue in self._queues.items():
            while len(queue):
                turn = queue.peek()
                queue.remove(turn)
                if not turn.granted.done():
                    turn.granted.set_exception(refuse(lane))

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


def keys_of(claimant: Claimant) -> tuple[tuple[str, ...], ...]:
    """Return the keys under which the places of a claimant's tenant and run are counted."""
    return (claimant.tenant,), (claimant.tenant, claimant.run)
