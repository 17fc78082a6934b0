"""A run goes on wherever its worker was lost: nothing is sampled twice, no finished call is made twice, no event is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Lane
from fathom.core.errors import Conflict, InvalidField, NotFound, NotReady
from fathom.services.planner.runs.log.events import EventLog, follow, make_event_key
from fathom.services.planner.runs.queue import submit_run
from fathom.services.planner.runs.repository import RunRepository
from fathom.transport.bus.streams import DAY_S, MAX_DELIVER, events_subject
from tests.support.clock import simulate_time
from tests.support.waiting import eventually
from tests.unit.planner.house import House, echo, finish, kinds, numbers
from tests.unit.planner.runs.mortal import Life, MortalBus, MortalStore

LINES = (echo("a"), echo("b", "wait", "c"), finish("It is so [1] and [3]."))


def whole(events: list[pb.RunEvent]) -> None:
    """Numbers from 1 without gap or repeat, each call started and finished once."""
    assert numbers(events) == list(range(1, len(events) + 1))
    for kind in ("tool_started", "tool_finished", "sampled"):
        names = [make_event_key(event) for event in events if event.HasField(kind)]
        assert len(set(names)) == len(names), f"{kind} twice"


async def test_another_worker_goes_on_in_the_middle_of_a_step() -> None:
    house = House(*LINES)
    await house.ask()
    async with house.working():
        # The third call waits for ever; the step is half done when its worker goes.
        await eventually(lambda: any("b" in call for call in house.called))
        await house.events(until="tool_finished")
    before = list(house.policy.sampled)
    house.release.set()
    async with house.working(house.worker()):
        events = await house.events()
    assert before == ["run_1-0", "run_1-1"]
    assert house.policy.sampled == ["run_1-0", "run_1-1", "run_1-2"]
    # Calls "a" and "b" were made once: their results were in the log.
    assert house.called == ["run_1-0-0 a", "run_1-1-0 b", "run_1-1-1 wait", "run_1-1-2 c"]
    whole(events)
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED
    assert [item.number for item in finished.material] == [1, 2, 3, 4]
    assert list(finished.answer.cited) == [1, 3]
    # No objects are written while a run is under way.
    assert await house.store.list("runs/open/") == [], "what a leg has not ended is in its log alone"


@asynccontextmanager
async def lost_after(house: House, writes: int) -> AsyncIterator[None]:
    """Plays with a worker whose process is killed after so many writes; what is left of it ends with the block."""
    life, worker = Life(writes), house.worker()
    record, bus = RunRepository(MortalStore(house.store, life)), MortalBus(house.bus, life)  # type: ignore[arg-type]
    mortal = replace(
        worker,
        record=record,
        bus=bus,  # type: ignore[arg-type]
        preparer=replace(worker.preparer, record=record),
        ends=replace(worker.ends, record=record, bus=bus),  # type: ignore[arg-type]
    )
    working = asyncio.create_task(mortal.work(Lane.INTERACTIVE, 0))
    try:
        # Longer than a run of three rounds takes, as a bound for a hang.
        async with asyncio.timeout(5):
            await life.over.wait()
        working.cancel()  # it takes nothing more; what it had begun hangs
        yield
    finally:
        life.over.set()
        life.buried.set()
        await asyncio.gather(working, return_exceptions=True)


# A run of these lines makes some twenty writes; every one is once the last of its worker.
@pytest.mark.parametrize("writes", range(1, 22))
@simulate_time
async def test_a_worker_killed_after_any_write_leaves_a_run_that_ends_the_same(writes: int) -> None:
    calm = House(*LINES)
    calm.release.set()
    await calm.ask()
    async with calm.working():
        wanted = await calm.events()
    house = House(*LINES, ack_wait_s=0.6)
    house.release.set()
    await house.ask()
    async with lost_after(house, writes), house.working(house.worker()):
        # A short redelivery, so that the next worker gets the run soon.
        events = await house.events()
    whole(events)
    assert sorted(kinds(events)) == sorted(kinds(wanted))
    assert [item.number for item in events[-1].finished.material] == [1, 2, 3, 4]
    assert events[-1].finished.answer == wanted[-1].finished.answer
    # Nothing is sampled twice: completions are logged before anything is done with them.
    assert len(house.policy.sampled) - len(set(house.policy.sampled)) == 0
    # The call that had just ended, and was neither kept nor told of yet, is made again under the same id.
    assert len(house.called) - len(set(house.called)) <= 1
    ended, undisturbed = [await one.record.get_trajectory("run_1") for one in (house, calm)]
    assert ended is not None
    assert undisturbed is not None
    # Trajectories are equal to the bit: nobody can tell that a worker was lost.
    assert ended.hash == undisturbed.hash


# A clock that is set, as by NTP after a suspend: deadlines live on the monotonic one.
@pytest.mark.parametrize("jump_s", [-DAY_S, DAY_S])
async def test_a_clock_that_is_set_in_the_middle_of_a_run_costs_it_no_time(
    jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, true_time = House(*LINES), time.time
    await house.ask()
    async with house.working():
        await eventually(lambda: any("b" in call for call in house.called))
        monkeypatch.setattr(time, "time", lambda: true_time() + jump_s)
        house.release.set()
        events = await house.events()
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED, events[-1].finished.error


@pytest.mark.parametrize("jump_s", [-DAY_S, DAY_S])
async def test_a_planner_with_another_clock_gives_a_run_its_time(
    jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, true_time = House(*LINES), time.time
    house.release.set()
    await house.ask()
    monkeypatch.setattr(time, "time", lambda: true_time() + jump_s)
    async with house.working(house.worker()):
        events = await house.events()
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED, events[-1].finished.error


async def test_a_run_that_ends_its_workers_ends_itself() -> None:
    house = House(*LINES, ack_wait_s=0.4)
    await house.ask()
    async with AsyncExitStack() as graves:
        # The first worker gets as far as its third write, its first completion; each later one only to its first.
        for writes in (3, 1, 1, 1, 1):
            await graves.enter_async_context(lost_after(house, writes))
        await graves.enter_async_context(house.working())
        finished = (await house.events())[-1].finished
    assert (finished.stop_reason, finished.culprit) == (trajectory.STOP_REASON_FAILED, "planner")
    assert "4 workers one after the other" in finished.error


@simulate_time
async def test_a_run_that_each_lost_worker_got_further_is_played_to_its_end() -> None:
    house = House(*(echo(f"call {number}") for number in range(12)), finish("It is so [1]."), ack_wait_s=0.4)
    house.release.set()
    await house.ask()
    losses = 0
    async with AsyncExitStack() as graves:
        # More workers are lost than a run that gets nowhere may cost; each was in the middle of a round.
        for _ in range(8):
            await graves.enter_async_context(lost_after(house, 9))
            losses += 1
        await graves.enter_async_context(house.working())
        events = await house.events()
    whole(events)
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED, events[-1].finished.error
    assert losses > MAX_DELIVER


async def test_events_keep_their_order_and_are_all_stored_after_a_flush() -> None:
    house = House()
    events = EventLog(house.bus, "run_9")
    await events.acquire(1)
    for number in range(20):
        # Published without waiting, as drafts are: their order must come from the log, not from luck.
        events.publish(answer_delta=pb.AnswerDelta(text=str(number)))
    events.publish(finished=pb.RunFinished())
    await events.flush()
    found = [event async for event in follow(house.bus, "run_9", 0)]
    assert numbers(found) == list(range(1, 22))
    assert [event.answer_delta.text for event in found[:-1]] == [str(number) for number in range(20)]


async def test_an_event_that_cannot_be_sent_fails_the_flush() -> None:
    house = House()
    events = EventLog(house.bus, "run_9")
    await events.acquire(1)
    # The bus is gone before the end is published, and the end may not be lost silently.
    await house.bus.close()
    events.publish(finished=pb.RunFinished())
    with pytest.raises(NotReady):
        await events.flush()


async def test_marks_are_never_shown() -> None:
    house = House(*LINES)
    house.release.set()
    await house.ask()
    async with house.working():
        # Bookkeeping among events: readers would count it as progress.
        assert "taken_up" not in kinds(await house.events())
    first = await anext(house.bus.follow(events_subject("run_1")))
    assert pb.RunEvent.FromString(first.payload).HasField("taken_up")


async def test_a_waiting_run_that_is_stopped_never_starts() -> None:
    house = House(*LINES)
    await house.ask()
    # It was not running: the answer to "stop" says whether anything was cut short.
    assert await house.runs.stop("run_1") is False
    async with house.working():
        finished = (await house.events())[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_STOPPED
    assert house.policy.sampled == []
    assert await house.runs.stop("run_1") is False
    # A run that nobody has asked for.
    with pytest.raises(NotFound):
        await house.runs.stop("run_2")


async def stop_run(house: House) -> list[pb.RunEvent]:
    """Return the run, stopped while "wait" waits and "b" is done."""
    await house.ask()
    async with house.working():
        await eventually(lambda: any("b" in call for call in house.called))
        assert await house.runs.stop("run_1") is True
        return await house.events()


async def test_a_stopped_run_goes_on_from_its_last_call() -> None:
    house = House(*LINES)
    first = await stop_run(house)
    assert first[-1].finished.stop_reason == trajectory.STOP_REASON_STOPPED
    # Only "a" had found something by then.
    assert [item.number for item in first[-1].finished.material] == [1]
    house.release.set()
    header, leg = await house.runs.resume(pb.ResumeRunRequest(run_id="run_1", request_id="again"))
    assert (leg.number, leg.steps) == (1, 1)
    # The same request again joins the leg that it made.
    assert (await house.runs.resume(pb.ResumeRunRequest(run_id="run_1", request_id="again")))[1] == leg
    with pytest.raises(Conflict, match="is running"):
        await house.runs.resume(pb.ResumeRunRequest(run_id="run_1"))
    await submit_run(house.bus, header, Lane.INTERACTIVE, leg)
    async with house.working(house.worker()):
        events = await house.events(leg=1)
    whole(events)
    assert kinds(events).count("resumed") == 1
    # At the place behind the first leg's end.
    assert kinds(events)[len(first)] == "resumed"
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED
    assert house.policy.sampled == ["run_1-0", "run_1-1", "run_1-2"]
    assert house.called == ["run_1-0-0 a", "run_1-1-0 b", "run_1-1-1 wait", "run_1-1-2 c"]
    with pytest.raises(Conflict, match="has its answer"):
        await house.runs.resume(pb.ResumeRunRequest(run_id="run_1"))
    with pytest.raises(InvalidField, match=r"budget\.max_rounds"):
        await house.runs.resume(pb.ResumeRunRequest(run_id="run_1", budget=pb.Budget(max_rounds=-1)))


async def test_a_spent_budget_is_refilled_by_a_resumption() -> None:
    house = House(echo("a"), echo("b"), echo("c"), echo("d"), finish("Done [4]."))
    await house.ask(budget=pb.Budget(max_rounds=2))
    async with house.working():
        first = await house.events()
        assert first[-1].finished.stop_reason == trajectory.STOP_REASON_BUDGET
        # One more round, and then two: each resumption adds what its budget says.
        for number, rounds in ((1, 1), (2, 2)):
            request = pb.ResumeRunRequest(run_id="run_1", budget=pb.Budget(max_rounds=rounds))
            header, leg = await house.runs.resume(request)
            await submit_run(house.bus, header, Lane.INTERACTIVE, leg)
            events = await house.events(leg=number)
    whole(events)
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED
    assert len(house.policy.sampled) == 5
    found = await house.runs.get("run_1", common.LANE_INTERACTIVE)
    assert (found.leg, found.running, len(found.trajectory.steps)) == (2, False, 5)
    assert (await house.runs.replay("run_1")).same


async def test_replay_gives_the_same_hash_without_any_service() -> None:
    house = House(*LINES)
    house.release.set()
    await house.ask()
    async with house.working():
        await house.events()
    sampled, called = list(house.policy.sampled), list(house.called)
    replayed = await house.runs.replay("run_1")
    assert replayed.same, replayed
    assert replayed.recorded_hash == replayed.replayed_hash
    # Nothing was asked of policy or tools: a replay reads the record alone.
    assert (house.policy.sampled, house.called) == (sampled, called)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ("result", "steps[2].new_messages[0]"),
        ("call", "steps[1].tool_results[1]"),
        ("lost call", "steps[1].tool_results[2]"),
        ("reason", "stop_reason"),
        ("hash", "hash"),
    ],
)
async def test_replay_names_the_first_difference(change: str, where: str) -> None:
    house = House(*LINES)
    house.release.set()
    await house.ask()
    async with house.working():
        await house.events()
    recorded = await house.record.get_trajectory("run_1")
    assert recorded is not None
    results = recorded.steps[1].tool_results
    if change == "result":
        # One change each: a result's text, a call's id, a call that is gone, the reason for the end, the hash.
        results[0].content += " forged"
    elif change == "call":
        results[1].tool_call_id = results[1].tool = "other"
    elif change == "lost call":
        del results[2]
    elif change == "reason":
        recorded.stop_reason = trajectory.STOP_REASON_BUDGET
    else:
        recorded.hash = "0" * 64
    # An epoch beyond all others, so that this forgery counts as the end of the run.
    await house.record.put_trajectory(recorded, epoch=10**9)
    replayed = await house.runs.replay("run_1")
    assert not replayed.same
    assert replayed.difference == where, replayed
    assert replayed.recorded != replayed.replayed
