"""A replica that floods an upstream through an admission whose limit it shares: run by ``test_shared_limits``."""

from __future__ import annotations

import asyncio
import sys

import structlog

from fathom.core.admission import Admission, Claimant, Limits, Quota
from fathom.core.call import Lane
from fathom.transport.bus import open_bus
from fathom.transport.bus.quotas import Quotas
from fathom.transport.store import open_store


async def flood(url: str, port: int, running: int, name: str, clients: int) -> None:
    """Call the upstream at a port over and over, as so many clients, until killed."""
    bus = await open_bus(url, open_store("memory://"))
    quotas = Quotas(bus, structlog.get_logger())
    quotas.start()
    gate = quotas.govern("tool.slow", Admission("tool 'slow'", Limits(64, 1_000)), Quota(running=running))

    async def ask(number: int) -> None:
        while True:
            async with gate.admit(Claimant(Lane.TRAINING, "t", f"run-{number}")):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(f"{name}\n".encode())
                await reader.read()
                writer.close()

    await asyncio.gather(*(ask(number) for number in range(clients)))


if __name__ == "__main__":
    asyncio.run(flood(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])))
