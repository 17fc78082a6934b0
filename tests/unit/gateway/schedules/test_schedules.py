"""Questions that are asked again: each time once whoever asks, late after an outage, and by nobody else's right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import pytest_asyncio

from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.core.call import Call, calling
from fathom.core.errors import FailedPrecondition, NotFound, Overloaded
from fathom.hosting.deps import Deps
from fathom.services.gateway.config import Config
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.readiness import Readiness
from fathom.services.gateway.schedules import firing
from fathom.services.gateway.schedules.firing import CLAIM_S, RETRY_S, Scheduler
from fathom.services.gateway.schedules.recurrence import Recurrence
from fathom.services.gateway.schedules.store import Schedule, ScheduleStore
from fathom.transport.bus.streams import SCHEDULES
from fathom.transport.store.tenant import TenantStore
from tests.e2e.replay import ReplayHouse, replay_house
from tests.e2e.script import Script
from tests.support.clock import Clock
from tests.support.waiting import eventually

DAY_S = 86_400.0
START = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp()


@dataclass
class Bench:
    """A gateway with two replicas' schedulers beside it, and a clock that the test moves."""

    house: ReplayHouse
    deps: Deps
    client: httpx.AsyncClient
    schedules: ScheduleStore
    clock: Clock
    engine: Engine
    first: Scheduler
    second: Scheduler

    async def add(self, **more: Any) -> dict[str, Any]:
        body = {"ask": {"question": "How did AAA do?"}, "every": "day", "at": "09:00", "time_zone": "UTC", **more}
        made = await self.client.post("/v1/schedules", json=body)
        assert made.status_code == 201, made.text
        # The routes have the clock of the machine; the test's schedule begins with its own.
        found = await self.change(made.json()["id"], due=NINE, created=START)
        return {**made.json(), "due": found.due}

    async def change(self, schedule_id: str, **values: Any) -> Schedule:
        return await self.schedules.change(schedule_id, lambda one: replace(one, **values))

    async def list(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = (await self.client.get("/v1/schedules")).json()["schedules"]
        return listed


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    async with replay_house(Script(days=5), max_schedules=3) as (house, deps):
        store, clock = TenantStore(deps.store), Clock(START)
        engine = Engine(Config(), deps.clients, store, Readiness(deps.clients, deps.store, deps.bus))
        schedules = ScheduleStore(deps.bus.bucket(SCHEDULES), 3)
        first, second = (Scheduler(engine, schedules, store, deps.telemetry, clock) for _ in range(2))
        transport = httpx.ASGITransport(house.service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield Bench(house, deps, client, schedules, clock, engine, first, second)


async def test_each_due_time_is_asked_once_by_whichever_replica_comes_first(bench: Bench) -> None:
    made = await bench.add()
    assert await bench.first.ask_due() == []
    bench.clock.now = NINE
    both = await asyncio.gather(bench.first.ask_due(), bench.second.ask_due())
    assert sum(map(len, both)) == 1
    assert list(bench.house.planner.runs) == [f"{made['id']}_{int(NINE)}"]
    assert await bench.second.ask_due() == []
    bench.clock.now = NINE + DAY_S
    assert await bench.second.ask_due() == [f"{made['id']}_{int(NINE + DAY_S)}"]
    asked = bench.house.planner.asked
    # Each follows the conversation's beginning, and none the answer before it.
    assert {(one.conversation_id, one.parent_turn) for one in asked} == {(made["conversation_id"], 0)}
    [listed] = await bench.list()
    assert [(one["due"], one["missed"]) for one in listed["runs"]] == [(NINE, 0), (NINE + DAY_S, 0)]
    assert listed["due"] == NINE + 2 * DAY_S


async def test_a_replica_that_is_lost_between_claim_and_end_leaves_one_run(bench: Bench) -> None:
    made = await bench.add()
    bench.clock.now = NINE
    # As after its claim and the start of the run, before it has said so.
    await bench.first.ask_due()
    await bench.change(made["id"], due=NINE, claimed_until=NINE + CLAIM_S, firings=())
    assert await bench.second.ask_due() == []
    bench.clock.now = NINE + CLAIM_S
    assert await bench.second.ask_due() == [f"{made['id']}_{int(NINE)}"]
    assert len(bench.house.planner.runs) == 1
    [listed] = await bench.list()
    assert (len(listed["runs"]), listed["due"]) == (1, NINE + DAY_S)


async def test_times_that_an_outage_has_passed_over_are_caught_up_once_and_said(bench: Bench) -> None:
    made = await bench.add()
    bench.clock.now = NINE + 3.5 * DAY_S
    [run_id] = await bench.first.ask_due()
    assert run_id == f"{made['id']}_{int(NINE)}"
    assert await bench.second.ask_due() == []
    [listed] = await bench.list()
    assert [one["missed"] for one in listed["runs"]] == [3]
    assert listed["due"] == NINE + 4 * DAY_S
    changes = (await bench.client.get(f"/v1/runs/{run_id}/changes")).json()
    assert (changes["due"], changes["asked"], changes["missed"]) == (NINE, NINE + 3.5 * DAY_S, 3)
    assert (changes["schedule_id"], changes["before"]) == (made["id"], "")


async def test_a_full_queue_is_asked_again_and_a_refusal_waits_for_the_next_time(bench: Bench) -> None:
    made = await bench.add()
    bench.clock.now = NINE
    bench.house.planner.full = Overloaded("9 runs wait", 60.0)
    assert await bench.first.ask_due() == []
    [listed] = await bench.list()
    assert ("9 runs wait" in listed["problem"], listed["due"]) == (True, NINE)
    bench.house.planner.full = None
    assert await bench.second.ask_due() == []
    bench.clock.now += RETRY_S
    assert await bench.second.ask_due() == [f"{made['id']}_{int(NINE)}"]
    assert (await bench.list())[0]["problem"] == ""
    # What the planner refuses, it would refuse again.
    await bench.change(made["id"], ask={"question": " ", "conversation_id": "c"})
    bench.clock.now = NINE + DAY_S
    assert await bench.first.ask_due() == []
    [listed] = await bench.list()
    assert ("empty" in listed["problem"], listed["due"]) == (True, NINE + 2 * DAY_S)


async def test_a_schedule_that_cannot_be_asked_keeps_no_other_waiting(bench: Bench) -> None:
    older, nowhere, good = [await bench.add() for _ in range(3)]
    # As another version stored it, whose questions had a field more; and in a zone that this machine does not know.
    await bench.change(older["id"], ask={"question": "why?", "conversation_id": "c", "colour": "red"})
    await bench.change(nowhere["id"], recurrence=Recurrence("day", "09:00", "Mars/Olympus"))
    bench.clock.now = NINE
    assert await bench.first.ask_due() == [f"{good['id']}_{int(NINE)}"]
    listed = {one["id"]: one for one in await bench.list()}
    assert "colour" in listed[older["id"]]["problem"]
    assert listed[older["id"]]["due"] == NINE + DAY_S, "it would be refused again at once"


async def test_a_question_that_hangs_delays_no_other_and_is_asked_again(bench: Bench) -> None:
    made = [await bench.add() for _ in range(3)]
    bench.clock.now = NINE
    hanging, order, gate = made[0]["id"], list[str](), asyncio.Event()
    start_run = bench.engine.start_run

    async def start(request: planner.RunRequest) -> dict[str, Any]:
        schedule_id = request.request_id.rpartition("_")[0]
        order.append(f"asks {schedule_id}")
        if schedule_id == hanging:
            await gate.wait()
        accepted: dict[str, Any] = await start_run(request)
        order.append(f"asked {schedule_id}")
        return accepted

    bench.engine.start_run = start  # type: ignore[method-assign]
    asking = asyncio.create_task(bench.first.ask_due())
    await eventually(lambda: len([line for line in order if line.startswith("asked")]) == 2)
    # The first one began before both and has not ended: they have not waited for it.
    assert order[0] == f"asks {hanging}"
    assert {line for line in order if line.startswith("asked")} == {f"asked {one['id']}" for one in made[1:]}
    assert not asking.done()
    impatient = Scheduler(bench.engine, bench.schedules, bench.first.objects, bench.deps.telemetry, bench.clock, 0.0)
    await bench.change(hanging, claimed_until=0.0)
    assert await impatient.ask_due() == []
    listed = {one["id"]: one for one in await bench.list()}
    assert "not accepted within 0 s" in listed[hanging]["problem"]
    assert listed[hanging]["due"] == NINE, "it is still due"
    gate.set()
    assert await asking == [f"{one['id']}_{int(NINE)}" for one in made]


async def test_as_many_as_allowed_are_asked_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firing, "ASKED_AT_ONCE", 2)
    bounded = Scheduler(bench.engine, bench.schedules, bench.first.objects, bench.deps.telemetry, bench.clock)
    made = [await bench.add() for _ in range(3)]
    bench.clock.now = NINE
    at_work, most, start_run = 0, 0, bench.engine.start_run

    async def start(request: planner.RunRequest) -> dict[str, Any]:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        accepted: dict[str, Any] = await start_run(request)
        at_work -= 1
        return accepted

    bench.engine.start_run = start  # type: ignore[method-assign]
    assert await bounded.ask_due() == [f"{one['id']}_{int(NINE)}" for one in made]
    assert most == 2


async def test_a_paused_schedule_asks_nothing_and_misses_nothing(bench: Bench) -> None:
    made = await bench.add()
    path = f"/v1/schedules/{made['id']}"
    assert (await bench.client.patch(path, json={"paused": True})).json()["paused"] is True
    bench.clock.now = NINE + 2 * DAY_S
    assert await bench.first.ask_due() == []
    resumed = (await bench.client.patch(path, json={"paused": False})).json()
    assert resumed["paused"] is False
    assert resumed["due"] > NINE
    assert (await bench.client.delete(path)).status_code == 204
    assert await bench.list() == []
    for gone in (await bench.client.patch(path, json={"paused": True}), await bench.client.delete(path)):
        assert (gone.status_code, gone.json()["reason"]) == (404, "NOT_FOUND")


async def test_what_is_deleted_while_it_is_asked_stays_deleted(bench: Bench) -> None:
    made = await bench.add()
    bench.clock.now = NINE
    bench.house.planner.hold(before=1)
    asking = asyncio.create_task(bench.first.ask_due())
    await eventually(lambda: bench.house.planner.asked)
    assert (await bench.client.delete(f"/v1/schedules/{made['id']}")).status_code == 204
    bench.house.planner.release()
    await asking
    assert await bench.list() == []


async def test_schedules_belong_to_a_tenant_and_are_bounded(bench: Bench) -> None:
    for _ in range(3):
        await bench.add()
    body = {"ask": {"question": "why?"}, "every": "day", "at": "09:00", "time_zone": "UTC"}
    refused = await bench.client.post("/v1/schedules", json=body)
    assert (refused.status_code, refused.json()["reason"]) == (409, "FAILED_PRECONDITION")
    [first, *_] = await bench.list()
    anna = replace(Call.new(tenant="fund-7"), principal="anna")
    schedule = Schedule(
        "schedule_1", {"question": "own?", "conversation_id": "c"}, Recurrence("day", "09:00", "UTC"),
        "anna", START, NINE,
    )  # fmt: skip
    with calling(anna):
        await bench.schedules.add(schedule)
        assert [one.id for one in await bench.schedules.list_own()] == ["schedule_1"]
        with pytest.raises(NotFound):
            await bench.schedules.change(first["id"], lambda _: None)
        # Another tenant's places are its own.
        await bench.schedules.add(replace(schedule, id="schedule_2"))
        await bench.schedules.add(replace(schedule, id="schedule_3"))
        with pytest.raises(FailedPrecondition):
            await bench.schedules.add(replace(schedule, id="schedule_4"))
    assert len(await bench.list()) == 3
    bench.clock.now = NINE
    assert len(await bench.first.ask_due()) == 6
    origins = []
    for tenant in ("fund-7", "default"):
        with calling(Call.new(tenant=tenant)):
            origins.append(await bench.first.read_origin(f"schedule_1_{int(NINE)}"))
    assert [one is not None for one in origins] == [True, False]


async def test_a_request_that_is_sent_again_makes_no_second_schedule(bench: Bench) -> None:
    made = await bench.add(request_id="wish_1")
    again = await bench.add(request_id="wish_1")
    # The conversation, too, which the first request has begun.
    assert {key: again[key] for key in ("id", "conversation_id")} == {
        key: made[key] for key in ("id", "conversation_id")
    }
    assert [one["id"] for one in await bench.list()] == [made["id"]]
    body = {"ask": {"question": "why?"}, "every": "day", "at": "09:00", "time_zone": "UTC", "request_id": "wish_1"}
    other = await bench.client.post("/v1/schedules", json=body)
    assert (other.status_code, other.json()["reason"], other.json()["field"]) == (409, "CONFLICT", "request_id")
    # Another tenant's keys are its own, and a schedule that was deleted can be made again.
    schedule = Schedule(
        "schedule_1", {"question": "own?", "conversation_id": "c"}, Recurrence("day", "09:00", "UTC"),
        "anna", START, NINE, request_id="wish_1",
    )  # fmt: skip
    with calling(Call.new(tenant="fund-7")):
        assert (await bench.schedules.add(schedule)).id == "schedule_1"
    assert (await bench.client.delete(f"/v1/schedules/{made['id']}")).status_code == 204
    assert (await bench.client.post("/v1/schedules", json=body)).status_code == 201
    [left] = await bench.list()
    assert left["question"] == "why?"


@pytest.mark.parametrize("places", [1, 3])
async def test_requests_that_come_at_once_under_one_key_make_one_schedule(bench: Bench, places: int) -> None:
    """Also where they race for the last place."""
    for _ in range(3 - places):
        await bench.add()
    before = {one["id"] for one in await bench.list()}
    body = {
        "ask": {"question": "why?"}, "every": "day", "at": "09:00", "time_zone": "UTC", "request_id": "wish_1",
    }  # fmt: skip
    answers = await asyncio.gather(*(bench.client.post("/v1/schedules", json=body) for _ in range(4)))
    assert {answer.status_code for answer in answers} == {201}
    [made] = {one["id"] for one in await bench.list()} - before
    assert {answer.json()["id"] for answer in answers} == {made}


async def test_the_note_names_the_figures_that_changed_since_the_time_before(bench: Bench) -> None:
    class Later(Script):
        def material(self) -> list[pb.Material]:
            found = super().material()
            found[2].code.stdout = "AAA.close_adj   -0.387\nBBB.close_adj   -0.298\n"
            return found

    accepted = (await bench.client.post("/v1/runs", json={"question": "How did AAA do?"})).json()
    await eventually(lambda: bench.house.planner.runs[accepted["run_id"]].is_finished)
    made = await bench.add(run_id=accepted["run_id"])
    bench.clock.now = NINE
    [first] = await bench.first.ask_due()
    await eventually(lambda: bench.house.planner.runs[first].is_finished)
    bench.house.planner.script = Later(days=5)
    bench.clock.now = NINE + DAY_S
    [second] = await bench.first.ask_due()
    await eventually(lambda: bench.house.planner.runs[second].is_finished)
    assert (await bench.client.delete(f"/v1/schedules/{made['id']}")).status_code == 204
    changes = (await bench.client.get(f"/v1/runs/{second}/changes")).json()
    assert (changes["before"], changes["compared"], changes["changed"]) == (first, 2, 1)
    assert changes["figures"] == [{"name": "BBB.close_adj", "before": -0.312, "after": -0.298}]
    assert (await bench.client.get(f"/v1/runs/{first}/changes")).json()["before"] == accepted["run_id"]
    # Any two runs can be compared, and one that no schedule has asked for has none before it.
    asked = f"/v1/runs/{second}/changes?before={accepted['run_id']}"
    assert (await bench.client.get(asked)).json()["changed"] == 1
    assert (await bench.client.get(f"/v1/runs/{accepted['run_id']}/changes")).json()["before"] == ""
    assert (await bench.client.get("/v1/runs/none/changes")).status_code == 404


async def test_a_table_that_differs_and_is_gone_is_counted(bench: Bench) -> None:
    class Later(Script):
        def material(self) -> list[pb.Material]:
            # An id says the content: under another one the table differs, and this one is not there to be read.
            found = super().material()
            for item in found:
                if item.HasField("sheet"):
                    item.sheet.id = "t" + "9" * 23
            return found

    accepted = (await bench.client.post("/v1/runs", json={"question": "How did AAA do?"})).json()
    await eventually(lambda: bench.house.planner.runs[accepted["run_id"]].is_finished)
    await bench.add(run_id=accepted["run_id"])
    bench.house.planner.script = Later(days=5)
    bench.clock.now = NINE
    [run_id] = await bench.first.ask_due()
    await eventually(lambda: bench.house.planner.runs[run_id].is_finished)
    changes = (await bench.client.get(f"/v1/runs/{run_id}/changes")).json()
    assert (changes["before"], changes["tables"], changes["uncompared"]) == (accepted["run_id"], [], 1)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"time_zone": "Mars/Olympus"}, "time_zone"),
        ({"every": "week"}, "day"),
        ({"every": "hour"}, "every"),
        ({"at": "24:00"}, "at"),
        ({"ask": {"question": " "}}, "question"),
        ({"ask": {"question": "why?", "request_id": "r"}}, "ask.request_id"),
        ({"ask": {"question": "why?", "colour": "red"}}, "ask.colour"),
        ({"run_id": "a/b"}, "run_id"),
        ({"request_id": "a/b"}, "request_id"),
    ],
)
async def test_a_schedule_that_cannot_be_kept_is_refused_by_name(
    bench: Bench, change: dict[str, Any], field: str
) -> None:
    body = {"ask": {"question": "why?"}, "every": "day", "at": "09:00", "time_zone": "UTC", **change}
    refused = await bench.client.post("/v1/schedules", json=body)
    assert (refused.status_code, refused.json()["field"]) == (400, field)
    assert await bench.list() == []
