"""A planner that has lost a run writes nothing of it: neither event nor step nor end, and is told so by a typed error."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Lane
from fathom.core.errors import Conflict
from fathom.services.planner.episode.fence import LeaseLost
from fathom.services.planner.runs.log.events import EventLog, fold_log
from fathom.services.planner.runs.log.fold import load_history
from fathom.services.planner.runs.repository import Lease, Leg, RunRepository
from fathom.transport.bus.memory import MemoryBus
from fathom.transport.bus.nats.bus import NatsBus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.bus.streams import LEGS, events_subject, run_subject, topology
from fathom.transport.store.memory import MemoryStore
from tests.support.clock import pass_time, simulate_time
from tests.support.waiting import eventually
from tests.unit.planner.house import House, echo, finish


def make_thought(text: str) -> pb.Thought:
    return pb.Thought(text=text, tool_call_id=text)


async def test_who_took_the_run_up_last_is_the_only_one_who_is_heard() -> None:
    house = House()
    old, new = EventLog(house.bus, "run_1"), EventLog(house.bus, "run_1")
    await old.acquire(1)
    old.publish(thought=make_thought("before"))
    await old.flush()
    # From here on the old planner's epoch is behind.
    await new.acquire(2)
    assert new.epoch > old.epoch
    new.publish(thought=make_thought("new"))
    old.publish(thought=make_thought("late"))
    await new.flush()
    # The late event fails at its flush: publishing only queues.
    with pytest.raises(LeaseLost, match="run_1 was taken up by another planner"):
        await old.flush()
    with pytest.raises(LeaseLost):
        await old.confirm()
    await new.confirm()
    new.publish(finished=pb.RunFinished())
    await new.flush()
    # "late" is in no log and was read by nobody.
    assert [event.thought.text for event in (await house.events())[:-1]] == ["before", "new"]


async def test_a_planner_that_confirms_its_lease_while_it_sends_does_not_refuse_itself() -> None:
    house = House()
    events = EventLog(house.bus, "run_1")
    await events.acquire(1)
    confirming = [asyncio.create_task(events.confirm()) for _ in range(3)]
    # Confirmations go between the publications and move the expected sequence.
    for number in range(20):
        events.publish(thought=make_thought(str(number)))
        await asyncio.sleep(0)
    events.publish(finished=pb.RunFinished())
    await asyncio.gather(*confirming)
    await events.flush()
    assert [event.thought.text for event in (await house.events())[:-1]] == [str(number) for number in range(20)]


async def test_a_message_is_stored_behind_the_one_that_is_expected_only(tmp_path: Path) -> None:
    """On a real server as in memory; a repetition of what is stored is no conflict."""
    store = MemoryStore()
    async with NatsServer(tmp_path / "nats") as server:
        for bus in (MemoryBus(store, topology()), await NatsBus.open(server.url, store, topology())):
            await bus.declare()
            # 0 expects that the subject is empty.
            subject = events_subject("run-1")
            first = await bus.publish(subject, b"1", message_id="1", expected=0)
            # Another subject's message takes a number of the stream in between.
            other = await bus.publish(events_subject("run-2"), b"x", message_id="x")
            second = await bus.publish(subject, b"2", message_id="2", expected=first)
            assert first < other < second
            with pytest.raises(Conflict, match="no longer the last"):
                await bus.publish(subject, b"late", message_id="3", expected=first)
            # The identical message again is answered with its place: a retry after a lost confirmation.
            assert await bus.publish(subject, b"2", message_id="2", expected=first) == second
            assert await bus.publish(subject, b"3", message_id="4", expected=second) > second
            await bus.close()


def step(index: int, text: str) -> trajectory.Step:
    made = trajectory.Step(index=index)
    made.completion.text = text
    return made


async def put_step(record: RunRepository, made: trajectory.Step, epoch: int) -> None:
    """Store a step as planners did before the log had it."""
    await record.store.put(f"runs/steps/run_1/{made.index:04d}-{epoch:012d}.pb", made.SerializeToString())


async def test_late_steps_and_ends_do_not_count() -> None:
    record = RunRepository(MemoryStore())
    await record.put_lease("run_1", Lease(5, 0, 0))
    await put_step(record, step(0, "a"), 5)
    # The lease passes to epoch 9; what epoch 5 writes from now on is late.
    await record.put_lease("run_1", Lease(9, 0, 1))
    await put_step(record, step(1, "late"), 5)
    assert [one.completion.text for one in await record.get_steps("run_1")] == ["a"]
    await put_step(record, step(1, "b"), 9)
    await put_step(record, step(0, "late"), 5)
    await put_step(record, step(2, "late"), 5)
    # Step 0 counts as epoch 5 wrote it, since that leg owned it; of steps 1 and 2 only epoch 9's do.
    assert [one.completion.text for one in await record.get_steps("run_1")] == ["late", "b"]
    # An end by a planner that had lost the run is none, whenever it was written.
    await record.put_trajectory(trajectory.Trajectory(run_id="run_1", error="late"), epoch=5)
    assert await record.get_end("run_1", 0) is None
    await record.put_trajectory(trajectory.Trajectory(run_id="run_1", error="end"), epoch=9)
    await record.put_trajectory(trajectory.Trajectory(run_id="run_1", error="later still"), epoch=5)
    ended = await record.get_end("run_1", 0)
    assert ended is not None
    assert ended[0].error == "end"
    # A resumption begins a leg of its own; until that ends, the earlier end stands.
    await record.put_lease("run_1", Lease(12, 1, 2))
    kept = await record.get_trajectory("run_1")
    assert kept is not None
    assert kept.error == "end"
    assert await record.get_end("run_1", 1) is None


# Stands between "begun" and "complete", which is where a planner is lost.
async def is_logged(house: House, index: int) -> bool:
    """Return whether the log has a result of this step, which is not complete."""
    step = (await fold_log(house.bus, "run_1")).find_open(index)
    return step is not None and bool(step.results)


async def test_what_a_lost_planner_has_logged_is_all_that_the_next_one_finds() -> None:
    house = House(echo("a"), echo("b", "wait"), finish("It is [1]."))
    await house.ask()
    async with house.working():
        await eventually(lambda: is_logged(house, 1))
    # The next planner acquires, and reads all that there is.
    fold = await EventLog(house.bus, "run_1").acquire(2)
    history = await load_history(house.record, "run_1", fold, None)
    assert [[result.tool for result in one.tool_results] for one in history.steps] == [["echo"]]
    assert history.steps[0].material[0].missing.subject == "a"
    assert history.open_step is not None
    assert history.open_step.index == 1
    assert [result.call.arguments_json for result in history.open_step.results] == [
        history.open_step.completion.tool_calls[0].arguments_json
    ]
    # The half step is found with its completion and its one result.
    assert not history.is_new


@simulate_time
async def test_a_worker_that_lost_its_run_leaves_it_alone() -> None:
    """Its tool hangs; meanwhile another one takes the run up and ends it; then the tool answers."""
    house = House(echo("wait"), echo("b"), finish("It is so [1] and [2]."), ack_wait_s=1.5)
    await house.ask()
    first, second = house.worker(), house.worker()
    async with house.working(first):
        await eventually(lambda: house.policy.sampled == ["run_1-0"])
        taken = EventLog(house.bus, "run_1")
        await taken.acquire(2)  # as another planner does, when the lease has ended
        await house.record.put_lease("run_1", Lease(taken.epoch, 0, 0))
        house.release.set()
        await pass_time(0.3)
        # Nothing of the late result was written.
        assert not (await house.runs.get("run_1", common.LANE_INTERACTIVE)).trajectory.steps
        assert await house.record.get_end("run_1", 0) is None
    async with house.working(second):
        events = await house.events()
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED
    assert sum(event.HasField("finished") for event in events) == 1
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))


async def run_to_end(house: House) -> None:
    await house.ask(budget=pb.Budget(max_rounds=1))
    async with house.working():
        assert (await house.events())[-1].finished.stop_reason == trajectory.STOP_REASON_BUDGET


async def test_of_two_resumptions_at_once_one_is_made() -> None:
    house = House(echo("a"), finish("It is [1]."))
    await run_to_end(house)
    asked = [pb.ResumeRunRequest(run_id="run_1", request_id=f"again-{n}") for n in range(4)]
    results = await asyncio.gather(*(house.runs.resume(request) for request in asked), return_exceptions=True)
    legs = [result[1] for result in results if isinstance(result, tuple)]
    assert len(legs) == 1
    # Three lose by the revision of the leg's key.
    assert sum(isinstance(result, Conflict) for result in results) == 3
    header = await house.record.get_header("run_1")
    assert [leg.request_id for leg in await house.record.get_legs(header)] == ["run_1", legs[0].request_id]
    # The same request joins, however often it comes.
    joined = await house.runs.resume(pb.ResumeRunRequest(run_id="run_1", request_id=legs[0].request_id))
    assert joined[1] == legs[0]


async def test_a_resumption_whose_planner_was_lost_is_made_by_the_next_one_who_asks() -> None:
    import json

    house = House(echo("a"), finish("It is [1]."))
    await run_to_end(house)
    # A planner that wrote the leg and died before it queued the run.
    lost = Leg(1, "lost", 1e9, steps=1)
    await house.bus.bucket(LEGS).put("run_1.1", json.dumps(asdict(lost)).encode(), revision=0)
    with pytest.raises(Conflict, match="is running"):
        await house.runs.resume(pb.ResumeRunRequest(run_id="run_1", request_id="mine"))
    # The refused request was told of the leg that exists, which has been queued by it.
    assert (await house.record.get_leg(await house.record.get_header("run_1"))).request_id == "lost"
    async with house.working():
        assert (await house.events(leg=1))[-1].finished.leg == 1


@simulate_time
async def test_the_same_run_delivered_twice_is_played_once() -> None:
    """Two messages for one run in the queue, two workers, both at it: one answer, each event once."""
    house = House(echo("a"), echo("b", "c"), finish("It is so [1] and [3]."))
    await house.ask()
    async with house.working(), house.working(house.worker()):
        # Twice more in the queue than submitted: deliveries are at least once.
        for name in ("again", "and again"):
            await house.bus.publish(run_subject(Lane.INTERACTIVE), b"run_1:0", message_id=name.replace(" ", "-"))
        events = await house.events()
        # Long enough for every redelivery to be taken and dropped.
        await pass_time(5.0)
        later = await house.events()
    assert later == events
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert sum(event.HasField("finished") for event in events) == 1
    assert events[-1].finished.answer.markdown == "It is so [1] and [3]."
    steps = (await house.runs.get("run_1", common.LANE_INTERACTIVE)).trajectory.steps
    assert [one.index for one in steps] == [0, 1, 2]
    assert [item.number for item in events[-1].finished.material] == [1, 2, 3]
