"""Test who gets a session, what the service says of itself, and what travels by reference."""

from __future__ import annotations

import asyncio
import io
import os

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.clients import Clients
from fathom.core import errors
from fathom.core.call import Lane
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.services.sandbox import server
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.ipc.levels import Level, list_health_names
from fathom.services.sandbox.ipc.owner import Owner
from fathom.services.sandbox.supervisor.events import Status
from fathom.services.sandbox.supervisor.host.scheduling import may_lower_nice
from fathom.services.sandbox.supervisor.reclaiming import IDLE_S
from fathom.services.sandbox.supervisor.worker.precedence import BACKGROUND_NICE
from fathom.transport.bus import open_bus
from fathom.transport.store import open_store
from fathom.transport.store.refs import read_ref
from tests.integration.sandbox.conftest import begin_cell, descendants, make_engine, run_cell
from tests.support.waiting import eventually

PNG = (
    "import base64\n"
    "pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='\n"
    "display({'image/png': pixel, 'text/plain': 'a pixel'}, raw=True)"
)


async def test_cells_of_trainings_give_way_to_those_of_people() -> None:
    engine = make_engine(max_sessions=2, reserved_sessions=0)
    await engine.start()
    try:
        training, person = [await engine.create(lane=lane) for lane in (Lane.TRAINING, Lane.INTERACTIVE)]
        code = "import os, subprocess\nprint(os.nice(0), subprocess.check_output(['nice'], text=True).strip())"
        own = os.nice(0)
        assert (await run_cell(person, code))[0] == f"{own} {own}\n"
        behind = min(own + BACKGROUND_NICE, 19)
        assert (await run_cell(training, code))[0] == f"{behind} {behind}\n"
        await engine.restart(training.id)
        assert (await run_cell(training, code))[0] == f"{behind} {behind}\n"
    finally:
        await engine.close()


async def test_people_get_the_sessions_of_trainings_that_compute_nothing_just_now() -> None:
    engine = make_engine(max_sessions=3, max_waiting=8, reserved_sessions=0, spares=0)
    await engine.start()
    try:
        used, computing, fresh = [await engine.create(lane=Lane.TRAINING) for _ in range(3)]
        await run_cell(used, "kept = 1")
        cell = await begin_cell(computing, "import time; time.sleep(2)")
        await engine.create(lane=Lane.INTERACTIVE)
        with pytest.raises(errors.NotFound):  # the one that has nothing to run again
            engine.get_session(fresh.id)
        await engine.create(lane=Lane.INTERACTIVE)
        with pytest.raises(errors.NotFound):
            engine.get_session(used.id)
        third = asyncio.create_task(engine.create(lane=Lane.INTERACTIVE))
        assert (await cell)[1].status is Status.OK, "what runs goes on"
        assert engine.get_session(computing.id) is computing, "the last one stays, whoever waits"
        await engine.close_session(computing.id)
        await third
    finally:
        await engine.close()


async def test_a_tenant_has_its_own_bound() -> None:
    engine = make_engine(max_sessions=3, max_sessions_per_tenant=1, spares=0)
    await engine.start()
    first = await engine.create(tenant="a")
    with pytest.raises(errors.Overloaded, match="tenant 'a'") as refused:
        await engine.create(tenant="a")
    assert refused.value.retry_after_s
    await engine.create(tenant="b")
    await engine.close_session(first.id)
    await engine.create(tenant="a")
    await engine.close()


async def test_training_waits_for_a_session_and_leaves_some_to_people() -> None:
    engine = make_engine(max_sessions=3, max_waiting=8, reserved_sessions=1, spares=0)
    await engine.start()
    held = [await engine.create(lane=Lane.TRAINING) for _ in range(2)]
    waiting = [asyncio.create_task(engine.create(lane=Lane.TRAINING)) for _ in range(4)]
    person = await engine.create(lane=Lane.INTERACTIVE)
    assert not any(task.done() for task in waiting)
    await engine.close_session(held[0].id)
    await eventually(lambda: sum(task.done() for task in waiting) == 1)
    await engine.close_session(person.id)
    assert sum(task.done() for task in waiting) == 1, "what is kept for people stays free"
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await engine.close()


async def test_a_session_that_does_not_get_free_in_time_is_refused_with_a_delay() -> None:
    engine = make_engine(max_sessions=1, max_waiting=8, wait_s=0.05, spares=0)
    await engine.start()
    (await engine.create()).last_used_at += 3_600
    with pytest.raises(errors.Overloaded, match="1 of 1 places are taken by sessions") as refused:
        await engine.create()
    assert refused.value.retry_after_s
    await engine.close()


async def test_a_request_opens_one_session() -> None:
    engine = make_engine(max_sessions=3, spares=0)
    await engine.start()
    a, b = Owner("a", "run_1"), Owner("b", "run_1")
    first, again = await asyncio.gather(*(engine.open("r", {"cells": 5}, a) for _ in range(2)))
    assert first is again
    assert await engine.open("r", {}, b) is not first
    # Another run of the same tenant's that has chosen the same id for its request.
    assert await engine.open("r", {}, Owner("a", "run_2")) is not first
    await engine.close_session(first.id)
    assert (await engine.open("r", {}, a)).id != first.id
    with pytest.raises(errors.InvalidField):
        await engine.open("bad", {"cells": -1}, a)
    await engine.close()


async def test_a_request_that_failed_can_be_made_again() -> None:
    engine, owner = make_engine(max_sessions=1, spares=0), Owner("a")
    await engine.start()
    with pytest.raises(errors.InvalidField):
        await engine.open("bad", {"cells": -1}, owner)
    assert (await engine.open("bad", {"cells": 1}, owner)).config.cells == 1
    await engine.close()


async def test_people_who_think_give_their_session_to_one_who_waits_the_longest_idle_first() -> None:
    engine = make_engine(max_sessions=2, max_waiting=8, reserved_sessions=0, spares=0)
    await engine.start()
    try:
        older, newer = [await engine.create() for _ in range(2)]
        # As if a minute had passed since the last of their cells; nothing waits for it.
        older.last_used_at -= 60 + IDLE_S[Lane.INTERACTIVE]
        newer.last_used_at -= IDLE_S[Lane.INTERACTIVE]
        await engine.create()
        with pytest.raises(errors.NotFound):
            engine.get_session(older.id)
        assert engine.get_session(newer.id) is newer
    finally:
        await engine.close()


async def test_sessions_of_people_are_not_ended_while_they_are_used_or_for_trainings() -> None:
    engine = make_engine(max_sessions=1, max_waiting=8, wait_s=0.3, reserved_sessions=0, spares=0)
    await engine.start()
    try:
        session = await engine.create()
        # As if its last cell had ended just now, however slow this machine is: the next one comes in a moment.
        session.last_used_at += 3_600
        with pytest.raises(errors.Overloaded):
            await engine.create()
        session.last_used_at -= 3_600 + 2 * IDLE_S[Lane.INTERACTIVE]
        with pytest.raises(errors.Overloaded):
            await engine.create(lane=Lane.TRAINING)
        cell = await begin_cell(session, "import time; time.sleep(1)")
        with pytest.raises(errors.Overloaded):
            await engine.create()
        assert (await cell)[1].status is Status.OK
        assert engine.get_session(session.id) is session
    finally:
        await engine.close()


async def test_health_names_the_level_and_images_go_by_reference() -> None:
    telemetry, store = Telemetry("sandbox", stream=io.StringIO()), open_store("memory://")
    bus = await open_bus("memory://", store)
    service = server.build(Config(spares=1), Deps(Clients({}, telemetry), store, bus, telemetry))
    async with hosting(service, Deps(Clients({}, telemetry), store, bus, telemetry), Runtime()) as hosted:
        await hosted.warm
        async with grpc.aio.insecure_channel(hosted.url.removeprefix("grpc://")) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            for name in ("isolation.namespace", "isolation.landlock"):
                reply = await health.Check(health_pb2.HealthCheckRequest(service=name))
                assert reply.status == health_pb2.HealthCheckResponse.SERVING
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await health.Check(health_pb2.HealthCheckRequest(service="isolation.vm"))
            assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        client = Clients({"sandbox": hosted.url}, telemetry).sandbox
        opened = await client.create_session(pb.CreateSessionRequest(), timeout_s=30)
        request = pb.ExecuteRequest(request_id="pixel", session_id=opened.session_id, code=PNG)
        events = [event async for event in client.execute(request, timeout_s=30)]
        display = next(event.display for event in events if event.HasField("display"))
        assert (display.media_type, display.data) == ("image/png", b"")
        assert (await read_ref(store, display.ref)).startswith(b"\x89PNG")
        assert events[-1].outcome.record_id == "pixel"
        metrics = telemetry.registry
        assert metrics.get_sample_value("fathom_sandbox_isolation", {"level": "namespace"}) == 1
        assert metrics.get_sample_value("fathom_sandbox_cells_total", {"status": "ok"}) == 1
        assert metrics.get_sample_value("fathom_sandbox_sessions") == 1


def test_weaker_levels_are_implied_by_stronger_ones() -> None:
    engine = make_engine()
    with pytest.raises(errors.NotReady):
        _ = engine.report
    assert [level.word for level in Level] == ["none", "landlock", "namespace", "guest-kernel", "vm"]
    assert list_health_names(Level.LANDLOCK) == ["isolation.none", "isolation.landlock"]


async def test_the_fork_server_is_renewed_and_old_sessions_go_on() -> None:
    engine = make_engine(max_sessions=8, spares=0, max_forks=3)
    await engine.start()
    first, old = await engine.create(), engine._fork_server.pid
    await run_cell(first, "kept = 7")
    for _ in range(4):
        await engine.close_session((await engine.create()).id)
    await eventually(lambda: engine._fork_server.pid != old)
    assert (await run_cell(first, "kept"))[1].result == "7"
    second = await engine.create()
    assert (await run_cell(second, "1 + 1"))[1].result == "2"
    await engine.close()


async def test_without_control_groups_a_cell_that_computes_for_long_gives_way_with_all_that_it_has_started() -> None:
    engine = make_engine(max_sessions=1, reserved_sessions=0, cgroups=False, cell_wall_ms=120_000, interrupt_grace_s=60)
    await engine.start()
    try:
        session = await engine.create()
        pid = session.worker.pid
        own = os.getpriority(os.PRIO_PROCESS, pid)
        cell = await begin_cell(session, "import os\nos.fork() and os.fork()\nwhile True: pass")
        children: list[int] = []

        def are_behind() -> bool:
            children[:] = descendants(pid)
            return len(children) == 2 and all(os.getpriority(os.PRIO_PROCESS, child) > own for child in children)

        await eventually(are_behind)
        # Without the right to take it back, only the processor time of a second puts the worker itself behind.
        await eventually(lambda: os.getpriority(os.PRIO_PROCESS, pid) > own)
        await session.interrupt()
        _, outcome = await cell
        assert not outcome.session_lost, outcome.cause
        if may_lower_nice():
            assert os.getpriority(os.PRIO_PROCESS, pid) == own
    finally:
        await engine.close()
