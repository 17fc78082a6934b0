"""Prometheus metrics of the bus: queue lengths, dead letters, stream sizes."""

from __future__ import annotations

import asyncio
from typing import Any

from prometheus_client import CollectorRegistry, Gauge

from fathom.core.errors import FathomError
from fathom.transport.bus.base import Bus

# As often as Prometheus usually scrapes.
EVERY_S = 15.0


class BusWatch:
    """Polls the bus from ``start`` to ``close``. One watcher suffices; with several, the newest reading counts."""

    def __init__(self, bus: Bus, registry: CollectorRegistry, log: Any, every_s: float = EVERY_S) -> None:
        self._bus, self._log, self._every_s = bus, log, every_s
        label = ("stream",)
        self._messages = Gauge(
            "fathom_bus_messages", "Messages in a stream; undone work in a queue", label, registry=registry
        )
        self._bytes = Gauge("fathom_bus_bytes", "Bytes of a stream", label, registry=registry)
        self._oldest = Gauge("fathom_bus_oldest_seconds", "Age of a stream's oldest message", label, registry=registry)
        self._up = Gauge("fathom_bus_up", "1 while the bus says what it holds", registry=registry)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start polling."""
        self._task = asyncio.create_task(self._watch(), name="bus watch")

    async def close(self) -> None:
        """Stop polling."""
        if self._task is not None:
            # Cancelled rather than asked to stop: it sleeps most of the time, and a poll that is cut off changes
            # nothing.
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await self.ask()
            await asyncio.sleep(self._every_s)

    async def ask(self) -> None:
        """Poll once; when the bus does not answer, report it as down and keep the last values."""
        try:
            states = await self._bus.states()
        except FathomError as error:
            self._up.set(0)
            self._log.warning("the bus does not say what it holds", error=error.message)
            return
        self._up.set(1)
        for name, state in states.items():
            self._messages.labels(name).set(state.messages)
            self._bytes.labels(name).set(state.size_bytes)
            self._oldest.labels(name).set(state.oldest_s)
