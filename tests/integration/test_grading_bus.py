"""The watch over production on a real nats-server: copies share the runs, and an outage of the server costs none."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from fathom.core.errors import NotReady
from fathom.operations.monitoring.ledger import Ledger
from fathom.transport.bus import Bus, open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.bus.streams import GRADED
from fathom.transport.store.memory import MemoryStore
from tests.support.waiting import eventually
from tests.unit.monitoring.production import Copy, Production, at_work


async def is_away(bus: Bus) -> bool:
    """Return whether this connection has noticed that its server is away."""
    try:
        await bus.states()
    except NotReady:
        return True
    return False


async def wait_for_grades(copies: list[Copy], count: int) -> None:
    # What was on its way during an outage is delivered again only after half a minute.
    await eventually(lambda: sum(copy.grades() for copy in copies) >= count, within_s=240)


async def test_two_copies_outlive_an_outage_of_the_server_and_grade_each_run_once(tmp_path: Path) -> None:
    async with NatsServer(tmp_path) as server, AsyncExitStack() as open_buses:
        buses = [await open_bus(server.url, MemoryStore()) for _ in range(3)]
        for bus in buses:
            open_buses.push_async_callback(bus.close)
        await buses[0].declare()
        house = Production(buses[0])
        copies = [house.watch(bus=bus, graders=("tool_steps",), look_s=0.5) for bus in buses[1:]]
        async with at_work(*copies):
            for number in range(20):
                await house.ends(f"run_{number}")
            await wait_for_grades(copies, 10)
            await server.kill()
            for bus in buses:
                await eventually(partial(is_away, bus))
            await server.start()
            for number in range(20, 30):
                await house.ends(f"run_{number}")
            await wait_for_grades(copies, 30)
            await eventually(lambda: not any(copy.watch.behind_s() for copy in copies))
        assert sum(copy.grades() for copy in copies) == 30
        again = house.watch(graders=("tool_steps",))
        async with at_work(again):
            await house.ends("run_30")
            await wait_for_grades([again], 1)
        # Two events per run, its begin and its end, of 31 runs.
        assert await Ledger(buses[0].bucket(GRADED), 1.0).position() == 62
        assert len(house.reward.asked) == 31
