"""How many calls of a tool one planner makes at once, over all its episodes (row Z01)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from prometheus_client import Gauge, Histogram


class Gates:
    """One gate per tool. Who waits is let in in order; the wait is no part of the call's own time."""

    def __init__(self, most: int, by_tool: Mapping[str, int], waiting: Gauge, waits: Histogram) -> None:
        """``most`` calls per tool, or as many as ``by_tool`` says, where 0 sets no bound."""
        self._most, self._by_tool = most, by_tool
        self._waiting, self._waits = waiting, waits
        self._gates: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def passing(self, tool: str) -> AsyncIterator[None]:
        """Holds a place for one call."""
        most = self._by_tool.get(tool, self._most)
        if not most:
            yield
            return
        gate = self._gates.setdefault(tool, asyncio.Semaphore(most))
        started = time.perf_counter()
        with self._waiting.labels(tool).track_inprogress():
            await gate.acquire()
        self._waits.labels(tool).observe(time.perf_counter() - started)
        try:
            yield
        finally:
            gate.release()
