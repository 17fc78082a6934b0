"""A service that runs beside a bus or a store that goes away, and one that starts before its bus."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fathom.core.errors import DependencyFailed, NotReady
from fathom.core.retry import RetryPolicy
from fathom.hosting.host import Runtime, dependencies, hosting
from fathom.hosting.reach import Reach
from fathom.hosting.starting import wait_for_bus
from fathom.transport.bus.memory import MemoryBus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.bus.streams import topology
from fathom.transport.rpc.service import Service
from fathom.transport.store import StoredObject
from fathom.transport.store.memory import MemoryStore
from tests.support.waiting import eventually

AT_ONCE = RetryPolicy(attempts=None, first_delay_s=0.01, max_delay_s=0.01)


class Store(MemoryStore):
    """A store that a network policy may keep from us, or that hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = self.hangs = False

    async def head(self, key: str) -> StoredObject | None:
        if self.is_away:
            raise DependencyFailed("object store", "cannot be reached (MaxRetryError)")
        if self.hangs:
            await asyncio.Event().wait()
        return await super().head(key)


class Log:
    """Writes down warnings."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append(event)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def reach(store: Store) -> Reach:
    return Reach(MemoryBus(store, topology()), store, Log(), every_s=0.0, timeout_s=0.05, misses=3)


@pytest.mark.parametrize("fault", ["is_away", "hangs"])
async def test_a_store_that_stays_away_is_told_once_and_its_return_too(reach: Reach, store: Store, fault: str) -> None:
    setattr(store, fault, True)
    assert await reach.wait_for_change() is False
    setattr(store, fault, False)
    assert await reach.wait_for_change() is True


async def test_a_restart_of_the_store_is_no_outage(reach: Reach, store: Store) -> None:
    # Two misses, an answer, two misses: never three in a row.
    for _ in range(2):
        store.is_away = True
        await reach.ask()
        await reach.ask()
        store.is_away = False
        await reach.ask()
    assert reach.is_there
    waiting = asyncio.create_task(reach.wait_for_change())
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_health_follows_what_is_within_reach(store: Store) -> None:
    """A planner was Ready while no object store could be reached, and questions hung."""
    async with dependencies("planner", Runtime(log_level="error"), io.StringIO()) as deps:
        reach = Reach(deps.bus, store, Log(), every_s=0.01, misses=2)

        async def changes() -> AsyncIterator[bool]:
            while True:
                yield await reach.wait_for_change()

        async with hosting(Service("planner", object(), changes=changes), deps, Runtime(grace_s=0.1)) as hosted:
            await hosted.warm
            assert hosted.dispatcher.ready
            store.is_away = True
            await eventually(lambda: not hosted.dispatcher.ready)
            store.is_away = False
            await eventually(lambda: hosted.dispatcher.ready)


async def test_a_service_that_starts_before_its_bus_waits_for_it(tmp_path: Path, store: Store) -> None:
    """All restart at once: five services ended with "no NATS server answers" and were started again."""
    # A port that was free a moment ago, known before its server is there.
    async with NatsServer(tmp_path / "first") as server:
        port = server.port
    log = Log()
    url = f"nats://127.0.0.1:{port}"
    opening = asyncio.create_task(
        wait_for_bus(url, store, log, streams=topology(), patience_s=300, policy=AT_ONCE), name="service"
    )
    await eventually(lambda: bool(log.lines), within_s=60)
    async with NatsServer(tmp_path / "second", port=port):
        bus = await opening
        assert await bus.states()
        await bus.close()


async def test_without_patience_the_reason_is_told_at_once(store: Store) -> None:
    with pytest.raises(NotReady, match="no NATS server answers"):
        await wait_for_bus("nats://127.0.0.1:1", store, Log(), streams=topology(), patience_s=0)
