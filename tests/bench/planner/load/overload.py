"""Goodput of the queue of runs at its capacity and at four times as much, with a model that sleeps; and memory.

The baseline is what the workers finish when just as many runs come as they can play. A run counts when it finishes
within its own time. Bus: a real nats-server; store: a folder. The model takes ``ROUND_S`` per round, so that limits
and not this machine's processors decide.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.errors import Overloaded
from fathom.services.planner.runs.log.events import follow
from fathom.transport.bus import open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.store.folder import FolderStore
from tests.support.policy import PolicyRequest
from tests.unit.planner.house import House, echo, finish

PLACES, ROUND_S = 8, 1.0
# Two rounds, and what the steps between them take.
CAPACITY = PLACES / (2 * ROUND_S) * 0.9
WARM_S, MEASURED_S, FLOOD_S = 10.0, 30.0, 75.0
STOPS = {value: name.removeprefix("STOP_REASON_").lower() for name, value in trajectory.StopReason.items()}


class Load:
    """Runs that come at a fixed rate, whatever becomes of those before them."""

    def __init__(self, house: House) -> None:
        self._house, self._number = house, 0
        self._readers: set[asyncio.Task[None]] = set()
        self.ended: list[tuple[float, str]] = []
        self.refused = 0

    async def come(self, per_second: float, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        for number in range(int(per_second * seconds)):
            await asyncio.sleep(max(0.0, started + number / per_second - loop.time()))
            self._number += 1
            reader = asyncio.create_task(self._ask(f"run_{self._number:06d}"))
            self._readers.add(reader)
            reader.add_done_callback(self._readers.discard)

    async def _ask(self, run_id: str) -> None:
        try:
            await self._house.ask(run_id)
        except Overloaded:
            self.refused += 1
            return
        async with aclosing(follow(self._house.bus, run_id, 0)) as events:
            async for event in events:
                if event.HasField("finished"):
                    self.ended.append((asyncio.get_running_loop().time(), STOPS[event.finished.stop_reason]))

    def count_good(self, since: float, until: float) -> int:
        return sum(stop == "finished" and since <= at < until for at, stop in self.ended)

    async def drain(self) -> None:
        await asyncio.gather(*self._readers)


@asynccontextmanager
async def open_house() -> AsyncIterator[House]:
    with tempfile.TemporaryDirectory() as folder:
        async with NatsServer(Path(folder) / "jetstream") as server:
            store = FolderStore(Path(folder) / "objects")
            bus = await open_bus(server.url, store)
            await bus.declare()
            try:
                house = House(
                    echo("a"),
                    finish("It is so."),
                    store=store,
                    bus=bus,
                    concurrent_runs=PLACES,
                    max_run_ms=15_000,
                    max_queue_s=20.0,
                )
                write = house.policy.write

                async def sleep_first(request: PolicyRequest) -> str:
                    await asyncio.sleep(ROUND_S)
                    return await write(request)

                house.policy.write = sleep_first  # type: ignore[method-assign]
                async with house.working():
                    yield house
            finally:
                await bus.close()


def read_memory_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


async def measure(house: House, load: Load, per_second: float, seconds: float) -> float:
    """Return the runs that finish per second while so many come, after a time to warm up."""
    loop = asyncio.get_running_loop()
    coming: asyncio.Task[Any] = asyncio.create_task(load.come(per_second, WARM_S + seconds))
    await asyncio.sleep(WARM_S)
    since = loop.time()
    await coming
    return load.count_good(since, loop.time()) / (loop.time() - since)


async def run() -> None:
    async with open_house() as house:
        load = Load(house)
        usual = await measure(house, load, CAPACITY, MEASURED_S)
        await load.drain()
        before = read_memory_mib()
        flooded = await measure(house, load, 4 * CAPACITY, FLOOD_S)
        after = read_memory_mib()
        await load.drain()
    stops = Counter(stop for _, stop in load.ended)
    print(f"goodput at capacity {usual:.2f}/s, at 4 times {flooded:.2f}/s: ratio {flooded / usual:.2f}")
    print(f"ends {dict(stops)}, refused at once {load.refused}; memory {before:.0f} -> {after:.0f} MiB")
