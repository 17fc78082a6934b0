"""Process host of the live mirror, from settings to its decision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fathom.core.call import Lane
from fathom.hosting.host import Runtime, dependencies, wait_for_signal
from fathom.operations.monitoring.door import Door
from fathom.operations.shadow.config import Config
from fathom.operations.shadow.gate import Decision, Verdict
from fathom.operations.shadow.live import LiveMirror

NAME = "shadow"


async def serve(config: Config, runtime: Runtime, say: Callable[[Verdict], None]) -> Decision:
    """Mirror until the gate decides, or SIGTERM or SIGINT comes; return the decision, and raise ``FathomError``.

    With ``config.stays`` only a signal ends it.
    """
    async with dependencies(NAME, runtime, lane=Lane.TRAINING) as deps:
        mirror = LiveMirror(
            config, deps.clients, deps.store, deps.bus, deps.telemetry.registry, deps.telemetry.log, say
        )
        opened = runtime.metrics_port >= 0
        door = Door(deps.telemetry.registry, {"/healthz/live": lambda: True, "/healthz/ready": lambda: mirror.ready})
        if opened:
            door.open(NAME, runtime.host, runtime.metrics_port)
        duty = asyncio.create_task(mirror.run(), name="live mirror")
        stopping = asyncio.create_task(wait_for_signal(duty))
        try:
            await asyncio.wait({duty, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if duty.done():
                duty.result()
                if config.stays:
                    await stopping
        finally:
            for task in (duty, stopping):
                task.cancel()
            await asyncio.gather(duty, stopping, return_exceptions=True)
            if opened:
                door.close()
        return mirror.verdict.decision
