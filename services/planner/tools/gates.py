"""Admission of tool calls, across all episodes of a planner: one queue per tool."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from prometheus_client import Gauge, Histogram

from fathom.core.admission import Admission, Claimant, Limits
from fathom.core.call import Lane
from fathom.services.planner.model.waits import Waits

# Calls that wait per place. More would wait longer than an episode lasts, and are refused with a delay instead.
WAITING_PER_PLACE = 64
# An eighth of the places is kept for people, for a minute after each of their calls: training has the rest, and all of
# it while nobody is there.
RESERVED_SHARE, RESERVE_S = 8, 60.0


class GateMetrics:
    """Observer of one tool's queue."""

    def __init__(self, tool: str, waiting: Gauge, waits: Histogram) -> None:
        self._waiting, self._waits = waiting.labels(tool), waits.labels(tool)

    def record_admission(self, lane: Lane, waited_s: float) -> None:
        self._waits.observe(waited_s)

    def record_refusal(self, lane: Lane) -> None:
        """Do nothing: the call that is refused is counted where it ends."""

    def record_change(self, admission: Admission) -> None:
        self._waiting.set(sum(admission.waiting.values()))


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
    ) -> None:
        """Allow ``most`` concurrent calls per tool, or the number in ``by_tool``; 0 sets no limit.

        ``rates`` has calls per second by tool, for upstreams that count them; ``wait_s`` is the longest wait in
        seconds.
        """
        self._most, self._by_tool, self._rates, self._wait_s = most, by_tool, rates or {}, wait_s
        self._waiting, self._waits = waiting, waits
        self._gates: dict[str, Admission] = {}

    @asynccontextmanager
    async def hold(self, tool: str, run: str, waits: Waits) -> AsyncIterator[None]:
        """Hold a place for one call of a run inside the block; raise ``Overloaded`` when too many wait."""
        most = self._by_tool.get(tool, self._most)
        if not most:
            yield
            return
        # Made on first use: names of external tools are known only when their servers have been listed.
        gate = self._gates.get(tool) or self._gates.setdefault(tool, self._open(tool, most))
        with waits.waiting():
            place = await gate.acquire(Claimant.current(run))
        try:
            yield
        finally:
            place.release()

    def _open(self, tool: str, most: int) -> Admission:
        limits = Limits(
            most,
            most * WAITING_PER_PLACE,
            per_second=self._rates.get(tool, 0.0),
            wait_s=self._wait_s,
            reserved=-(-most // RESERVED_SHARE) if most > 1 else 0,
            reserve_s=RESERVE_S,
        )
        return Admission(f"tool {tool!r}", limits, GateMetrics(tool, self._waiting, self._waits), "calls")
