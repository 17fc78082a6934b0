"""Process host of production monitoring, from settings to shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TextIO

from fathom.core.call import Lane
from fathom.hosting.host import Runtime, dependencies, wait_for_signal
from fathom.operations.monitoring.config import Config
from fathom.operations.monitoring.door import Door
from fathom.operations.monitoring.watch import Watch

NAME = "grading"


@dataclass(frozen=True)
class Watching:
    """A running monitor."""

    watch: Watch
    duty: asyncio.Task[None]
    """Task that ends with an error when the monitor can no longer be used."""
    port: int
    """Port of ``/metrics`` and ``/healthz``; -1 without."""


@asynccontextmanager
async def watching(config: Config, runtime: Runtime, log: TextIO | None = None) -> AsyncIterator[Watching]:
    """Run a monitor over the bus and the services of ``runtime``.

    On exit it finishes the current run within the grace period. Its calls use the lane ``evaluation``, which yields to
    interactive calls. Raises ``FathomError``.
    """
    async with dependencies(NAME, runtime, log, lane=Lane.EVALUATION) as deps:
        watch = Watch(config, deps.clients, deps.bus, deps.telemetry.registry, deps.telemetry.log)
        door = Door(deps.telemetry.registry, {"/healthz/live": watch.alive, "/healthz/ready": lambda: watch.ready})
        opened = runtime.metrics_port >= 0
        port = door.open(NAME, runtime.host, runtime.metrics_port) if opened else -1
        duty = asyncio.create_task(watch.run(), name="watch over production")
        try:
            yield Watching(watch, duty, port)
        finally:
            watch.ready = False
            # Asked first, cancelled after the grace period: a run that is graded to its end need not be graded again.
            await watch.finish()
            await asyncio.wait({duty}, timeout=runtime.grace_s)
            duty.cancel()
            await asyncio.gather(duty, return_exceptions=True)
            if opened:
                door.close()
            deps.telemetry.log.info("stopped")


async def serve(config: Config, runtime: Runtime) -> None:
    """Monitor until SIGTERM or SIGINT; raise ``FathomError`` when that is not possible."""
    async with watching(config, runtime) as found:
        await wait_for_signal(found.duty)
