"""Start of a process beside a bus that is not there yet."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fathom.core.errors import FathomError
from fathom.core.retry import Retries, RetryPolicy
from fathom.transport.bus import open_bus
from fathom.transport.bus.base import Bus
from fathom.transport.bus.streams import Topology
from fathom.transport.store import ObjectStore

POLICY = RetryPolicy(attempts=None, first_delay_s=0.5, max_delay_s=5.0)


async def wait_for_bus(
    url: str, store: ObjectStore, log: Any, *, streams: Topology, patience_s: float, policy: RetryPolicy = POLICY
) -> Bus:
    """Open the bus and declare its ``streams``; try again for ``patience_s`` seconds while no server does both.

    Raises what ``open_bus`` raises when that time is over, and at once what waiting does not mend.
    """
    retries = Retries(policy, time.monotonic() + patience_s)
    while True:
        bus: Bus | None = None
        try:
            bus = await open_bus(url, store, streams)
            await bus.declare()
            return bus
        except FathomError as error:
            # Connected, but JetStream is not up yet: the next attempt begins anew.
            if bus is not None:
                await bus.close()
            delay = retries.next_delay_s(error)
            log.warning("waiting for the bus", error=error.message)
        await asyncio.sleep(delay)
