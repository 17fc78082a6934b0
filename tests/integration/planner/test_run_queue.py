"""Queued runs over a real nats-server: they wait for services that are away, show their place, and get their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Lane
from fathom.core.errors import NotReady
from fathom.services.planner.runs.log.events import follow
from fathom.services.planner.runs.playing.dead import DeadRuns
from fathom.services.planner.runs.repository import first_leg
from fathom.transport.bus import open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.bus.streams import run_durable
from fathom.transport.store.folder import FolderStore
from tests.support.observer import list_logged
from tests.unit.planner.house import House, echo, finish

LINES = (echo("wait"), finish("It is so."))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with NatsServer(tmp_path / "jetstream") as server:
        store = FolderStore(tmp_path / "objects")
        bus = await open_bus(server.url, store)
        await bus.declare()
        yield House(*LINES, store=store, bus=bus, concurrent_runs=1)
        await bus.close()


async def read_events(house: House, run_id: str) -> list[pb.RunEvent]:
    async with asyncio.timeout(60), aclosing(follow(house.bus, run_id, 0)) as events:
        return [event async for event in events]


async def test_a_run_waits_for_a_service_that_is_away_however_often_it_is_delivered(house: House) -> None:
    house.release.set()
    away = [NotReady("policy restarts", metadata={"culprit": "policy"}) for _ in range(2)]
    write = house.policy.write

    async def fail_first(request: Any) -> str:
        if away and request.index == 1:
            raise away.pop()
        return await write(request)

    house.policy.write = fail_first  # type: ignore[method-assign]
    await house.ask()
    async with house.working():
        events = await read_events(house, "run_1")
    assert [event.waiting.count for event in events if event.HasField("waiting")] == [1, 2]
    logged = list_logged(events)
    assert [event.sequence for event in logged] == list(range(1, len(logged) + 1))
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED
    assert house.called == ["run_1-0-0 wait"]


async def test_a_reader_sees_its_place_until_its_run_begins(house: House) -> None:
    async with house.working():
        await house.ask("run_0")
        await house.events("run_0", until="tool_started")
        await house.ask("run_1")
        await house.ask("run_2")
        header = await house.record.get_header("run_2")
        seen = []
        async with asyncio.timeout(60), aclosing(house.runs.entrance.follow(header, first_leg(header))) as events:
            async for event in events:
                seen.append(event)
                house.release.set()
    assert seen[0].waiting.before == 1
    assert seen[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED


async def test_a_run_that_was_given_up_gets_its_end(house: House) -> None:
    await house.ask()
    async with aclosing(house.bus.consume(run_durable(Lane.INTERACTIVE))) as deliveries:
        await (await anext(deliveries)).dead_letter("too often")
    ending = asyncio.create_task(DeadRuns(house.worker()).work())
    finished = (await read_events(house, "run_1"))[-1].finished
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    assert (finished.stop_reason, finished.error) == (trajectory.STOP_REASON_FAILED, "planner: too often")
