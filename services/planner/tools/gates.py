"""Concurrency limits per tool, across all episodes of a planner."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from prometheus_client import Gauge, Histogram


class Gates:
    """One semaphore per tool, first come first served; the wait does not count towards the call's deadline."""

    def __init__(self, most: int, by_tool: Mapping[str, int], waiting: Gauge, waits: Histogram) -> None:
        """Allow ``most`` concurrent calls per tool, or the number in ``by_tool``; 0 sets no limit."""
        self._most, self._by_tool = most, by_tool
        self._waiting, self._waits = waiting, waits
        self._gates: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def hold(self, tool: str) -> AsyncIterator[None]:
        """Hold a place for one call inside the block."""
        most = self._by_tool.get(tool, self._most)
        if not most:
            yield
            return
        # Made on first use: names of external tools are known only when their servers have been listed.
        gate = self._gates.setdefault(tool, asyncio.Semaphore(most))
        started = time.perf_counter()
        with self._waiting.labels(tool).track_inprogress():
            await gate.acquire()
        self._waits.labels(tool).observe(time.perf_counter() - started)
        try:
            yield
        finally:
            gate.release()
