"""A planner that has lost a run writes nothing of it: neither event nor step nor end, and is told so by a typed error."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.bus.memory import MemoryBus
from fathom.bus.nats import NatsBus
from fathom.bus.server import NatsServer
from fathom.bus.streams import LEGS, events_subject, run_subject, topology
from fathom.call import Lane
from fathom.errors import Conflict
from fathom.store.memory import MemoryStore
from services.planner.events import Events
from services.planner.fence import TakenOver
from services.planner.journal import Journal
from services.planner.record import Leg, Record, Taken
from tests.support.clock import pass_time, simulated
from tests.support.waiting import eventually
from tests.unit.planner.house import House, echo, finish


def thought(text: str) -> pb.Thought:
    return pb.Thought(text=text, tool_call_id=text)


async def test_who_took_the_run_up_last_is_the_only_one_who_is_heard() -> None:
    house = House()
    old, new = Events(house.bus, "run_1"), Events(house.bus, "run_1")
    await old.take_up(1)
    old.publish(thought=thought("before"))
    await old.flush()
    await new.take_up(2)
    assert new.epoch > old.epoch
    new.publish(thought=thought("new"))
    old.publish(thought=thought("late"))
    await new.flush()
    with pytest.raises(TakenOver, match="run_1 was taken up by another planner"):
        await old.flush()
    with pytest.raises(TakenOver):
        await old.confirm()
    await new.confirm()
    new.publish(finished=pb.RunFinished())
    await new.flush()
    assert [event.thought.text for event in (await house.events())[:-1]] == ["before", "new"]


async def test_a_message_is_stored_behind_the_one_that_is_expected_only(tmp_path: Path) -> None:
    """On a real server as in memory; a repetition of what is stored is no conflict."""
    store = MemoryStore()
    async with NatsServer(tmp_path / "nats") as server:
        for bus in (MemoryBus(store, topology()), await NatsBus.open(server.url, store, topology())):
            await bus.declare()
            subject = events_subject("run-1")
            first = await bus.publish(subject, b"1", message_id="1", expected=0)
            other = await bus.publish(events_subject("run-2"), b"x", message_id="x")
            second = await bus.publish(subject, b"2", message_id="2", expected=first)
            assert first < other < second
            with pytest.raises(Conflict, match="no longer the last"):
                await bus.publish(subject, b"late", message_id="3", expected=first)
            assert await bus.publish(subject, b"2", message_id="2", expected=first) == second
            assert await bus.publish(subject, b"3", message_id="4", expected=second) > second
            await bus.close()


def step(index: int, text: str) -> trajectory.Step:
    made = trajectory.Step(index=index)
    made.completion.text = text
    return made


async def test_late_steps_and_ends_do_not_count() -> None:
    record = Record(MemoryStore())
    await record.take_up("run_1", Taken(5, 0, 0))
    await record.put_step("run_1", step(0, "a"), 5)
    await record.take_up("run_1", Taken(9, 0, 1))
    await record.put_step("run_1", step(1, "late"), 5)
    assert [one.completion.text for one in await record.steps("run_1")] == ["a"]
    await record.put_step("run_1", step(1, "b"), 9)
    await record.put_step("run_1", step(0, "late"), 5)
    await record.put_step("run_1", step(2, "late"), 5)
    assert [one.completion.text for one in await record.steps("run_1")] == ["late", "b"]
    # An end by a planner that had lost the run is none, whenever it was written.
    await record.finish(trajectory.Trajectory(run_id="run_1", error="late"), epoch=5)
    assert await record.finished("run_1", 0) is None
    await record.finish(trajectory.Trajectory(run_id="run_1", error="end"), epoch=9)
    await record.finish(trajectory.Trajectory(run_id="run_1", error="later still"), epoch=5)
    ended = await record.finished("run_1", 0)
    assert ended is not None
    assert ended[0].error == "end"
    # A resumption begins a leg of its own; until that ends, the earlier end stands.
    await record.take_up("run_1", Taken(12, 1, 2))
    kept = await record.trajectory("run_1")
    assert kept is not None
    assert kept.error == "end"
    assert await record.finished("run_1", 1) is None


async def test_notes_of_a_lost_planner_are_adopted_whole_or_not_at_all() -> None:
    house = House(echo("a", "b"), finish("It is [1]."))
    await house.ask()
    async with house.working():
        await eventually(lambda: len(house.called) == 2)
    record = house.record
    before = {name for _, name in await record.notes("run_1")}
    read = await Journal(record, "run_1", 99).read(len(await record.steps("run_1")))
    notes = await record.notes("run_1")
    if read is not None:
        assert {name for epoch, name in notes if epoch == 99} == before
    assert all(epoch in (99, *{epoch for epoch, _ in notes}) for epoch, _ in notes)


@simulated
async def test_a_worker_that_lost_its_run_leaves_it_alone() -> None:
    """Its tool hangs; meanwhile another one takes the run up and ends it; then the tool answers."""
    house = House(echo("wait"), echo("b"), finish("It is so [1] and [2]."), ack_wait_s=1.5)
    await house.ask()
    first, second = house.worker(), house.worker()
    async with house.working(first):
        await eventually(lambda: house.policy.sampled == ["run_1-0"])
        taken = Events(house.bus, "run_1")
        await taken.take_up(2)  # as another planner does, when the lease has ended
        await house.record.take_up("run_1", Taken(taken.epoch, 0, 0))
        house.release.set()
        await pass_time(0.3)
        assert await house.record.steps("run_1") == []
        assert await house.record.finished("run_1", 0) is None
    async with house.working(second):
        events = await house.events()
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED
    assert sum(event.HasField("finished") for event in events) == 1
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))


async def ended(house: House) -> None:
    await house.ask(budget=pb.Budget(max_rounds=1))
    async with house.working():
        assert (await house.events())[-1].finished.stop_reason == trajectory.STOP_REASON_BUDGET


async def test_of_two_resumptions_at_once_one_is_made() -> None:
    house = House(echo("a"), finish("It is [1]."))
    await ended(house)
    asked = [pb.ResumeRunRequest(run_id="run_1", request_id=f"again-{n}") for n in range(4)]
    results = await asyncio.gather(*(house.runs.resume(request) for request in asked), return_exceptions=True)
    legs = [result[1] for result in results if isinstance(result, tuple)]
    assert len(legs) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 3
    header = await house.record.header("run_1")
    assert [leg.request_id for leg in await house.record.legs(header)] == ["run_1", legs[0].request_id]
    # The same request joins, however often it comes.
    joined = await house.runs.resume(pb.ResumeRunRequest(run_id="run_1", request_id=legs[0].request_id))
    assert joined[1] == legs[0]


async def test_a_resumption_whose_planner_was_lost_is_made_by_the_next_one_who_asks() -> None:
    import json

    house = House(echo("a"), finish("It is [1]."))
    await ended(house)
    lost = Leg(1, "lost", 1e9, steps=1)
    await house.bus.bucket(LEGS).put("run_1.1", json.dumps(asdict(lost)).encode(), revision=0)
    with pytest.raises(Conflict, match="is running"):
        await house.runs.resume(pb.ResumeRunRequest(run_id="run_1", request_id="mine"))
    assert (await house.record.leg(await house.record.header("run_1"))).request_id == "lost"
    async with house.working():
        assert (await house.events(leg=1))[-1].finished.leg == 1


@simulated
async def test_the_same_run_delivered_twice_is_played_once() -> None:
    """Two messages for one run in the queue, two workers, both at it: one answer, each event once."""
    house = House(echo("a"), echo("b", "c"), finish("It is so [1] and [3]."))
    await house.ask()
    async with house.working(), house.working(house.worker()):
        for name in ("again", "and again"):
            await house.bus.publish(run_subject(Lane.INTERACTIVE), b"run_1:0", message_id=name.replace(" ", "-"))
        events = await house.events()
        await pass_time(5.0)
        later = await house.events()
    assert later == events
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert sum(event.HasField("finished") for event in events) == 1
    assert events[-1].finished.answer.markdown == "It is so [1] and [3]."
    steps = await house.record.steps("run_1")
    assert [one.index for one in steps] == [0, 1, 2]
    assert [item.number for item in events[-1].finished.material] == [1, 2, 3]
