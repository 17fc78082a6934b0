"""Queued runs: refused when they would wait too long, shown where they stand, with all their time when they begin."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import pytest

from fathom.api.common.v1.common_pb2 import LANE_INTERACTIVE
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Call, Lane, calling
from fathom.core.errors import NotReady, Overloaded
from fathom.services.planner.runs.log.events import fold_log, follow
from fathom.services.planner.runs.playing.dead import DeadRuns
from fathom.services.planner.runs.repository import first_leg
from fathom.transport.bus.streams import DAY_S
from tests.support.clock import pass_time, simulate_time
from tests.support.waiting import eventually
from tests.unit.planner.house import House, echo, finish

LINES = (echo("wait"), finish("It is so."))
FINISHED = trajectory.STOP_REASON_FINISHED


async def list_runs(house: House) -> list[str]:
    return [run.run_id for run in (await house.runs.list(100, "")).runs]


async def test_a_planner_whose_clock_is_ahead_does_not_end_others_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    house, true_time = House(*LINES), time.time
    await house.ask()
    async with house.working():
        await house.events(until="tool_started")
    house.release.set()
    monkeypatch.setattr(time, "time", lambda: true_time() + DAY_S)
    async with house.working(house.worker()):
        assert (await house.events())[-1].finished.stop_reason == FINISHED


async def test_time_that_earlier_workers_have_spent_counts() -> None:
    house = House(*LINES, max_run_ms=60_000)
    await house.ask()
    async with house.working():
        started = await house.events(until="tool_started")
    fold = await fold_log(house.bus, "run_1")
    assert fold.takeovers == 1
    spent = (started[-1].time.ToMicroseconds() - started[0].time.ToMicroseconds()) / 1e6
    assert fold.worked_s == pytest.approx(spent, abs=1e-6)


async def test_a_queue_that_is_full_refuses_and_leaves_no_ghost() -> None:
    house = House(*LINES, max_queued_runs=2)
    for name in ("run_1", "run_2"):
        await house.ask(name)
    with pytest.raises(Overloaded) as refused:
        await house.ask("run_3")
    assert refused.value.retry_after_s
    assert sorted(await list_runs(house)) == ["run_1", "run_2"]
    await house.ask("run_2")  # a repeated request is no new run


@simulate_time
async def test_a_run_that_would_wait_too_long_is_refused_at_once() -> None:
    house = House(*LINES, concurrent_runs=1, max_queue_s=60.0)
    house.runs.worker.pace.note(Lane.INTERACTIVE, 25.0)
    async with house.working():
        await house.ask("run_0")
        await house.events("run_0", until="tool_started")
        for name in ("run_1", "run_2", "run_3"):
            await house.ask(name)
        with pytest.raises(Overloaded, match="3 runs wait, about 75 s") as refused:
            await house.ask("run_4")
        assert refused.value.retry_after_s == 15.0
        house.release.set()
        for name in ("run_1", "run_2", "run_3"):
            assert (await house.events(name))[-1].finished.stop_reason == FINISHED
        await house.ask("run_4")


async def test_a_queue_that_cannot_be_reached_leaves_no_ghost(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(*LINES)

    async def fail(*_: Any, **__: Any) -> int:
        raise NotReady("the disk is full")

    with monkeypatch.context() as away:
        away.setattr(house.bus, "publish", fail)
        with pytest.raises(NotReady):
            await house.ask()
    assert await list_runs(house) == []
    house.release.set()
    await house.ask()
    async with house.working():
        assert (await house.events())[-1].finished.stop_reason == FINISHED


async def test_a_planner_lost_before_it_queues_a_run_leaves_no_ghost(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(*LINES)

    async def die(*_: Any, **__: Any) -> int:
        raise asyncio.CancelledError

    with monkeypatch.context() as dying:
        dying.setattr(house.bus, "publish", die)
        with pytest.raises(asyncio.CancelledError):
            await house.ask()
    assert [item.key for item in await house.store.list("")] == []


async def test_a_planner_lost_after_it_has_queued_a_run_leaves_a_run_that_is_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(*LINES)
    house.release.set()

    async def die(*_: Any, **__: Any) -> int:
        raise asyncio.CancelledError

    with monkeypatch.context() as dying:
        dying.setattr(house.runs.record, "create", die)
        with pytest.raises(asyncio.CancelledError):
            await house.ask()
    assert [item.key for item in await house.store.list("")] == []
    async with house.working():
        assert (await house.events())[-1].finished.stop_reason == FINISHED
    assert await list_runs(house) == ["run_1"]
    await house.ask()  # the client asks again under its id: the same run, which has ended
    assert len(house.called) == 1


async def test_a_resumption_that_is_refused_can_be_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(*LINES)
    await house.ask()
    async with house.working():
        await house.events(until="tool_started")
        await house.runs.stop("run_1")
        await house.events()
    publish = house.bus.publish

    async def refuse(subject: str, *arguments: Any, **named: Any) -> int:
        if subject.startswith("fathom.runs"):
            raise Overloaded("the queue is full", 1.0)
        return int(await publish(subject, *arguments, **named))

    with monkeypatch.context() as full:
        full.setattr(house.bus, "publish", refuse)
        with pytest.raises(Overloaded):
            await house.runs.resume(pb.ResumeRunRequest(run_id="run_1"))
    assert not (await house.runs.get("run_1", LANE_INTERACTIVE)).running
    house.release.set()
    await house.runs.resume(pb.ResumeRunRequest(run_id="run_1"))
    async with house.working():
        assert (await house.events(leg=1))[-1].finished.stop_reason == FINISHED


@simulate_time
async def test_a_reader_sees_at_once_how_many_are_before_its_run() -> None:
    house = House(*LINES, concurrent_runs=1)
    house.runs.worker.pace.note(Lane.INTERACTIVE, 10.0)
    async with house.working():
        for name in ("run_0", "run_1", "run_2"):
            await house.ask(name)
            await house.events("run_0", until="tool_started")
        await house.ask("run_mine")
        header = await house.record.get_header("run_mine")
        seen: list[pb.RunEvent] = []
        async with aclosing(house.runs.entrance.follow(header, first_leg(header))) as events:
            async for event in events:
                seen.append(event)
                house.release.set()
    waiting = [event.waiting for event in seen if event.HasField("waiting")]
    assert (waiting[0].before, waiting[0].expected_ms) == (2, 20_000)
    assert waiting[0].conversation_id == "conv_mine"
    assert {event.sequence for event in seen if event.HasField("waiting")} == {0}
    assert seen[-1].finished.stop_reason == FINISHED
    async with aclosing(follow(house.bus, "run_mine", 0)) as stored:
        assert not any([event.HasField("waiting") async for event in stored]), "it is no part of the record"


@simulate_time
async def test_a_run_whose_service_is_away_waits_and_goes_on() -> None:
    house = House(*LINES)
    house.release.set()
    failures = [NotReady("policy restarts", metadata={"culprit": "policy"}) for _ in range(5)]
    write = house.policy.write

    async def fail_first(request: Any) -> str:
        if failures and request.index == 1:
            raise failures.pop()
        return await write(request)

    house.policy.write = fail_first  # type: ignore[method-assign]
    await house.ask()
    async with house.working():
        events = await watch_all(house)
    waits = [event.waiting for event in events if event.HasField("waiting")]
    assert [wait.count for wait in waits] == [1, 2, 3, 4, 5]
    assert {(wait.culprit, wait.message) for wait in waits} == {("policy", "policy: policy restarts")}
    assert events[-1].finished.stop_reason == FINISHED, events[-1].finished.error
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert house.called == ["run_1-0-0 wait"], "what was done is not done again"


@simulate_time
async def test_a_service_that_stays_away_ends_the_run_within_bounds() -> None:
    house = House(*LINES, outage_s=20.0)

    async def fail(request: Any) -> str:
        raise NotReady("policy is gone", metadata={"culprit": "policy"})

    house.policy.write = fail  # type: ignore[method-assign]
    await house.ask()
    async with house.working():
        events = await watch_all(house)
    finished = events[-1].finished
    assert (finished.stop_reason, finished.culprit) == (trajectory.STOP_REASON_FAILED, "policy")
    assert 10 < asyncio.get_running_loop().time() < 30


@dataclass
class AwayMemory:
    """Memory that is away for its first requests."""

    refusals: float
    appended: list[memory.AppendTurnRequest] = field(default_factory=list)

    async def get_window(self, request: memory.GetWindowRequest) -> memory.GetWindowResponse:
        return memory.GetWindowResponse()

    async def append_turn(self, request: memory.AppendTurnRequest) -> memory.AppendTurnResponse:
        self.refusals -= 1
        if self.refusals >= 0:
            raise NotReady("nobody serves it", metadata={"culprit": "memory"})
        self.appended.append(request)
        return memory.AppendTurnResponse(turn=request.turn)


@simulate_time
async def test_a_turn_waits_for_memory_to_be_back_and_is_remembered_once() -> None:
    house, away = House(*LINES), AwayMemory(refusals=3)
    house.clients.__dict__["memory"] = away
    house.release.set()
    await house.ask()
    async with house.working():
        events = await watch_all(house)
    assert events[-1].finished.stop_reason == FINISHED, events[-1].finished.error
    assert [request.request_id for request in away.appended] == ["run_1"]
    assert [event.waiting.culprit for event in events if event.HasField("waiting")] == ["memory"] * 3
    assert len(house.policy.sampled) == 2, "nothing is sampled again"


@simulate_time
async def test_a_memory_that_stays_away_costs_the_turn_and_not_the_answer() -> None:
    house, away = House(*LINES, outage_s=20.0), AwayMemory(refusals=math.inf)
    house.clients.__dict__["memory"] = away
    house.release.set()
    await house.ask()
    async with house.working():
        events = await watch_all(house)
    assert events[-1].finished.stop_reason == FINISHED, events[-1].finished.error
    assert not away.appended


async def watch_all(house: House) -> list[pb.RunEvent]:
    """Return the run's events to its end, however long that takes."""
    async with aclosing(follow(house.bus, "run_1", 0)) as events:
        return [event async for event in events]


@simulate_time
async def test_an_outage_of_the_store_loses_no_run_and_costs_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(*LINES)
    await house.ask()
    async with house.working():
        await house.events(until="tool_started")
        with monkeypatch.context() as read_only:
            read_only.setattr(house.store, "put", refuse_write)
            house.release.set()
            await pass_time(60)
            assert await house.record.get_trajectory("run_1") is None
        events = await watch_all(house)
    assert events[-1].finished.stop_reason == FINISHED, events[-1].finished.error
    assert len(set(house.policy.sampled)) == len(house.policy.sampled) == 2


# As a disk that gets full between a rename and the flush of its folder: the object is there, and the writer is told no.
@pytest.mark.parametrize("writes", range(1, 12))
@simulate_time
async def test_a_store_that_writes_and_says_that_it_did_not_loses_no_run(
    writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, made = House(*LINES), 0
    true_put = house.store.put

    async def put(*arguments: Any, **named: Any) -> Any:
        nonlocal made
        made += 1
        stored = await true_put(*arguments, **named)
        return await refuse_write() if writes <= made < writes + 4 else stored

    house.release.set()
    with monkeypatch.context() as full:
        full.setattr(house.store, "put", put)
        async with house.working():
            while True:
                try:
                    await house.ask()
                    break
                except NotReady:
                    await pass_time(1)
            assert (await watch_all(house))[-1].finished.stop_reason == FINISHED


@simulate_time
async def test_a_store_that_is_away_before_a_run_is_read_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(*LINES)
    house.release.set()
    await house.ask()
    with monkeypatch.context() as away:
        away.setattr(house.store, "get", refuse_write)
        async with house.working():
            await pass_time(300)
    async with house.working():
        assert (await watch_all(house))[-1].finished.stop_reason == FINISHED


async def refuse_write(*_: Any, **__: Any) -> Any:
    raise NotReady("read-only file system", metadata={"culprit": "object store"})


@simulate_time
@pytest.mark.parametrize("tenant", ["default", "fund-7"])
async def test_a_run_that_was_given_up_gets_its_end(tenant: str) -> None:
    house = House(*LINES)
    # As in a planner: whoever writes the ends works for nobody in particular.
    ending = asyncio.create_task(DeadRuns(house.worker()).work())
    with calling(Call.new(tenant=tenant)):
        await house.ask()
        async for delivery in house.bus.consume("planner-interactive"):
            await delivery.dead_letter("too often")
            break
        finished = (await watch_all(house))[-1].finished
        assert (finished.stop_reason, finished.error) == (trajectory.STOP_REASON_FAILED, "planner: too often")
        await eventually(lambda: is_ended(house))
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
        assert not (await house.runs.get("run_1", LANE_INTERACTIVE)).running


async def is_ended(house: House) -> bool:
    return [run.stop_reason for run in (await house.runs.list(9, "")).runs] == [trajectory.STOP_REASON_FAILED]


@simulate_time
async def test_a_run_that_no_worker_can_begin_is_given_up_and_gets_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(*LINES)
    await house.ask()
    worker = house.worker()

    async def break_off(*_: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setattr(worker.preparer, "_understand", break_off)
    ending = asyncio.create_task(DeadRuns(worker).work())
    async with house.working(worker):
        finished = (await watch_all(house))[-1].finished
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    assert finished.stop_reason == trajectory.STOP_REASON_FAILED
    assert "5 workers" in finished.error
