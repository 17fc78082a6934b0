"""Admission of tool calls, across all episodes of a planner: one queue per tool."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prometheus_client import Gauge, Histogram

from fathom.core.admission import Admission, Claimant, Limits, Place, Quota
from fathom.core.call import Lane
from fathom.core.errors import FathomError, is_retryable
from fathom.services.planner.model.waits import Waits
from fathom.services.planner.tools.tool import SourceFailed
from fathom.transport.bus.quotas import Quotas

# Calls that wait per place. More would wait longer than an episode lasts, and are refused with a delay instead.
WAITING_PER_PLACE = 64
# An eighth of the places is kept for people, for a minute after each of their calls: training has the rest, and all of
# it while nobody is there.
RESERVED_SHARE, RESERVE_S = 8, 60.0
# Whatever its latency: with one place alone nothing would show that an upstream has become faster.
LEAST_PLACES = 2


class GateMetrics:
    """Observer of one tool's queue."""

    def __init__(self, tool: str, waiting: Gauge, waits: Histogram) -> None:
        self._waiting, self._waits = waiting.labels(tool), waits.labels(tool)

    def record_admission(self, lane: Lane, waited_s: float) -> None:
        self._waits.observe(waited_s)

    def record_refusal(self, lane: Lane) -> None:
        """Do nothing: the call that is refused is counted where it ends."""

    def record_change(self, admission: Admission) -> None:
        self._waiting.set(admission.backlog)


@dataclass(eq=False)
class SharedPlace:
    """A place of equal calls, taken by the first of them and given back by the last."""

    taking: asyncio.Task[Place]
    users: int = 0
    is_dropped: bool = False

    def give_back(self) -> None:
        """Release the place, also when it is being taken just now."""
        self.taking.cancel()
        self.taking.add_done_callback(self._release)

    def _release(self, taking: asyncio.Task[Place]) -> None:
        if not taking.cancelled() and taking.exception() is None:
            taking.result().release(is_dropped=self.is_dropped)


class Gates:
    """One admission queue per tool; the wait counts neither towards the call's deadline nor the episode's."""

    def __init__(
        self,
        most: int,
        by_tool: Mapping[str, int],
        waiting: Gauge,
        waits: Histogram,
        rates: Mapping[str, float] | None = None,
        wait_s: float = math.inf,
        is_unknown: Callable[[str], bool] = lambda tool: False,
        quotas: Quotas | None = None,
    ) -> None:
        """Allow ``most`` concurrent calls per tool, or the number in ``by_tool``; 0 sets no limit.

        ``rates`` has calls per second by tool, for upstreams that count them; ``wait_s`` is the longest wait in
        seconds. ``is_unknown`` says of which tools nobody knows the capacity: unless they are in ``by_tool``, their
        latency sets the number up to ``most``. With ``quotas``, what ``by_tool`` and ``rates`` say holds over all
        replicas, and operators change it.
        """
        self._is_unknown, self._quotas = is_unknown, quotas
        self._most, self._by_tool, self._rates, self._wait_s = most, by_tool, rates or {}, wait_s
        self._waiting, self._waits = waiting, waits
        self._gates: dict[str, Admission] = {}
        self._shared: dict[tuple[str, str, Lane], SharedPlace] = {}

    @asynccontextmanager
    async def hold(self, tool: str, run: str, waits: Waits, key: str = "") -> AsyncIterator[None]:
        """Hold a place for one call of a run inside the block; raise ``Overloaded`` when too many wait.

        Calls with the same ``key``, of which one goes upstream for all, share a place; "" shares with none.
        """
        most = self._by_tool.get(tool, self._most)
        if not most:
            yield
            return
        quota = await self._take_quota(run, waits)
        try:
            # Made on first use: names of external tools are known only when their servers have been listed.
            gate = self._gates.get(tool) or self._gates.setdefault(tool, self._open(tool, most))
            if key:
                async with self._share(gate, (tool, key), run, waits):
                    yield
                return
            with waits.waiting():
                place = await gate.acquire(Claimant.current(run))
            is_dropped = False
            try:
                yield
            except FathomError as error:
                is_dropped = is_retryable(error) and not isinstance(error, SourceFailed)
                raise
            finally:
                place.release(is_dropped=is_dropped)
        finally:
            if quota is not None:
                quota.release()

    async def _take_quota(self, run: str, waits: Waits) -> Place | None:
        """Take a place of the current tenant's quota, if it has one; before the tool's, which others could use."""
        if self._quotas is None:
            return None
        claimant = Claimant.current(run)
        gate = self._quotas.find_tenant(claimant.tenant)
        if gate is None:
            return None
        with waits.waiting():
            return await gate.acquire(claimant)

    @asynccontextmanager
    async def _share(self, gate: Admission, key: tuple[str, str], run: str, waits: Waits) -> AsyncIterator[None]:
        """Hold the place of all calls with this key inside the block."""
        claimant = Claimant.current(run)
        # Not over lanes: a person would stand in the queue behind a training that asks the same.
        name = (*key, claimant.lane)
        shared = self._shared.get(name)
        if shared is None:
            shared = self._shared[name] = SharedPlace(asyncio.ensure_future(gate.acquire(claimant)))
        shared.users += 1
        try:
            with waits.waiting():
                # Shielded: a caller that is cancelled leaves its turn to the others.
                await asyncio.shield(shared.taking)
            yield
        except FathomError as error:
            shared.is_dropped = is_retryable(error) and not isinstance(error, SourceFailed)
            raise
        finally:
            shared.users -= 1
            if not shared.users:
                del self._shared[name]
                shared.give_back()

    def _open(self, tool: str, most: int) -> Admission:
        limits = Limits(
            most,
            most * WAITING_PER_PLACE,
            per_second=self._rates.get(tool, 0.0),
            wait_s=self._wait_s,
            reserved=-(-most // RESERVED_SHARE) if most > 1 else 0,
            reserve_s=RESERVE_S,
            least=LEAST_PLACES if tool not in self._by_tool and self._is_unknown(tool) else 0,
        )
        gate = Admission(f"tool {tool!r}", limits, GateMetrics(tool, self._waiting, self._waits), "calls")
        if self._quotas is None:
            return gate
        shared = Quota(most if tool in self._by_tool else None, self._rates.get(tool))
        return self._quotas.govern(f"tool.{tool}", gate, shared)
