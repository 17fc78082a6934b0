"""Readiness of the gateway on a real nats-server: it tells a hung bus and a store that takes no writes."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.clients import Clients
from fathom.core.errors import DependencyFailed
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import Hosted, Runtime, hosting
from fathom.services.gateway.readiness import OUTAGE_S, WRITTEN_S, Readiness
from fathom.transport.bus import open_bus
from fathom.transport.bus.base import Bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.rpc.service import Service
from fathom.transport.store import StoredObject
from fathom.transport.store.memory import MemoryStore
from tests.support.processes import pause


class DiskStore(MemoryStore):
    """A store whose disk can turn read-only; counts the writes."""

    def __init__(self) -> None:
        super().__init__()
        self.read_only, self.writes = False, 0

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> StoredObject:
        if self.read_only:
            # With a path in it, as a real disk's error has, which the answer must not show.
            raise DependencyFailed("store", "/srv/secret/path: Read-only file system")
        self.writes += 1
        return await super().put(key, data, content_type)


@dataclass
class House:
    """A gateway's surroundings; ``now`` is the clock of its readiness."""

    nats: NatsServer
    bus: Bus
    store: DiskStore
    planner: Hosted
    clients: Clients
    now: float = 0.0
    readiness: Readiness = field(init=False)

    def __post_init__(self) -> None:
        self.readiness = Readiness(self.clients, self.store, self.bus, timeout_s=0.5, clock=lambda: self.now)


class Planner:
    """Has no method: whoever asks more of it than its health finds nothing."""


@pytest_asyncio.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        nats = await stack.enter_async_context(NatsServer(tmp_path / "nats"))
        store, telemetry = DiskStore(), Telemetry("gateway", stream=io.StringIO())
        bus = await open_bus(nats.url, store)
        stack.push_async_callback(bus.close)
        await bus.declare()
        deps = Deps(Clients({}, telemetry), store, bus, telemetry)
        planner = await stack.enter_async_context(hosting(Service("planner", Planner()), deps, Runtime(grace_s=0.1)))
        await planner.warm
        clients = Clients({"planner": planner.url}, telemetry)
        stack.push_async_callback(clients.close)
        yield House(nats, bus, store, planner, clients)


async def test_it_is_ready_without_asking_the_planner_for_more_than_its_health(house: House) -> None:
    await house.readiness.check()
    assert await house.bus.bucket("PROBES").get("gateway") is not None


async def test_one_write_speaks_for_some_seconds(house: House) -> None:
    for _ in range(5):
        await house.readiness.check()
    assert house.store.writes == 1
    house.now = WRITTEN_S
    await house.readiness.check()
    assert house.store.writes == 2


async def test_a_hung_bus_is_not_ready_until_it_goes_on(house: House) -> None:
    await house.readiness.check()
    with pause(house.nats.pid):
        # Later than the last write speaks for, so that the bus is asked at all.
        house.now = WRITTEN_S
        with pytest.raises(DependencyFailed, match="bus: did not confirm a write") as hung:
            await house.readiness.check()
    assert hung.value.culprit == "bus"
    # With more patience: the bus has half a second of work to catch up with, and the machine other tests.
    house.readiness = Readiness(house.clients, house.store, house.bus, timeout_s=20)
    await house.readiness.check()


async def test_a_store_that_takes_no_writes_is_not_ready_and_shows_no_path(house: House) -> None:
    house.store.read_only = True
    with pytest.raises(DependencyFailed) as refused:
        await house.readiness.check()
    assert refused.value.message == "store: refused a write [DEPENDENCY_FAILED]"


async def test_a_planner_that_is_away_is_named(house: House) -> None:
    # Nothing listens on port 1, and only root could make something.
    house.clients.endpoints["planner"] = "grpc://127.0.0.1:1"
    with pytest.raises(DependencyFailed) as away:
        await house.readiness.check()
    assert away.value.culprit == "planner"


async def test_what_is_begun_in_a_long_outage_is_refused_at_once_and_by_name(house: House) -> None:
    """A question hung for 45 s behind walls that let nobody reach the store."""
    house.readiness.require_no_outage()
    house.store.read_only = True
    for now in (0.0, 5.0, 10.0):
        house.now = now
        with pytest.raises(DependencyFailed):
            await house.readiness.check()
        # A restart takes as long, and whoever asks then may wait.
        house.readiness.require_no_outage()
    house.now = OUTAGE_S
    with pytest.raises(DependencyFailed):
        await house.readiness.check()
    with pytest.raises(DependencyFailed) as refused:
        house.readiness.require_no_outage()
    assert refused.value.culprit == "store"
    house.store.read_only = False
    await house.readiness.check()
    house.readiness.require_no_outage()


async def test_an_outage_that_nobody_has_seen_lately_refuses_nothing(house: House) -> None:
    house.store.read_only = True
    for now in (0.0, 10.0, 20.0):
        house.now = now
        with pytest.raises(DependencyFailed):
            await house.readiness.check()
    house.now = 20.0 + OUTAGE_S + 1
    house.readiness.require_no_outage()
