"""The log of a run: all that a planner needs to resume it, and the only thing that is written while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Lane
from fathom.core.errors import CorruptData
from fathom.services.planner.config import Config
from fathom.services.planner.runs.log.events import LATE_S, fold_log, send_heartbeats
from fathom.services.planner.runs.log.message import STEP_FIELD, STEP_HEADER, read_message, write_message
from fathom.services.planner.runs.queue import submit_run
from fathom.transport.bus.memory import MemoryBus
from fathom.transport.bus.streams import ACK_WAIT_S, events_subject, run_durable, run_subject, topology
from fathom.transport.store.memory import MemoryStore
from tests.support.clock import loop_time, pass_time, simulate_time
from tests.support.counting import CountingBus, CountingStore
from tests.support.waiting import eventually
from tests.unit.planner.house import House, echo, finish, numbers

LINES = (echo("a"), echo("b", "wait", "c"), finish("It is so [1] and [3]."))
CALLS = ["run_1-0-0 a", "run_1-1-0 b", "run_1-1-1 wait", "run_1-1-2 c"]


async def count_question(rounds: int) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the operations on the store and the publications of a question with so many rounds of tools."""
    store = CountingStore()
    bus = CountingBus(store, topology(ack_wait_s=0.3), loop_time)
    house = House(*(echo(f"line {n}") for n in range(rounds)), finish("Done [1]."), store=store, bus=bus)
    await house.ask()
    async with house.working() as working:
        await house.events()
        # The worker ends the run's sub-runs after the last event, and then waits for another run.
        await eventually(lambda: ("keys", "runs/children/run_1/") in store.operations)
        assert not any(task.done() for task in working)
    return store.operations, bus.published


async def test_the_object_store_is_asked_as_often_for_a_long_run_as_for_a_short_one() -> None:
    (short, _), (long, _) = await count_question(1), await count_question(12)
    # The same operations in the same order, whatever the number of rounds.
    assert [name for name, _ in short] == [name for name, _ in long]
    # Eleven for a whole question: header, end and index, each written and read; the header also before it is written.
    assert len(long) <= 11, long
    assert [key for name, key in long if name == "get"] == ["runs/headers/run_1.json"] * 3, "nothing is read back"


async def test_a_round_is_one_message_for_its_completion_two_for_a_call_and_one_for_its_end() -> None:
    (_, few), (_, many) = await count_question(1), await count_question(11)
    # Ten rounds more: a completion, a call begun and ended, and the step's end each.
    assert len(many) - len(few) == 10 * (1 + 2 + 1)
    assert set(many) == {run_subject(Lane.INTERACTIVE), events_subject("run_1")}


async def lose_in_the_middle(house: House) -> None:
    """Play until "wait" waits and the result of "b" is in the log; then the worker is gone."""

    async def has_result() -> bool:
        step = (await fold_log(house.bus, "run_1")).find_open(1)
        return step is not None and bool(step.results)

    await house.ask()
    async with house.working():
        await eventually(has_result)


async def test_a_lost_planners_run_goes_on_from_its_log_alone() -> None:
    house = House(*LINES)
    await lose_in_the_middle(house)
    # All objects but the header are deleted: what is left must be in the log.
    for item in await house.store.list(""):
        if not item.key.startswith("runs/headers/"):
            await house.store.delete(item.key)
    house.release.set()
    async with house.working(house.worker()):
        events = await house.events()
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED, events[-1].finished.error
    assert house.policy.sampled == ["run_1-0", "run_1-1", "run_1-2"]
    assert house.called == CALLS
    assert numbers(events) == list(range(1, len(events) + 1))


async def test_a_running_run_is_read_from_its_log() -> None:
    house = House(*LINES)
    await lose_in_the_middle(house)
    found = await house.runs.get("run_1", common.LANE_INTERACTIVE)
    assert found.running
    assert [step.index for step in found.trajectory.steps] == [0]
    house.release.set()
    async with house.working(house.worker()):
        await house.events()
    ended = await house.runs.get("run_1", common.LANE_INTERACTIVE)
    # Read from the log while it ran, and from the store after its end: one step, the same bytes.
    assert ended.trajectory.steps[0] == found.trajectory.steps[0]


async def test_a_step_that_a_stop_has_cut_short_outlives_the_log() -> None:
    house = House(*LINES)
    await house.ask()
    async with house.working():
        await eventually(lambda: any("b" in call for call in house.called))
        assert await house.runs.stop("run_1")
        await house.events()
    # The bus keeps events for a day; a new one stands for the time after it.
    # A day later the events are gone.
    later = House(*LINES, store=house.store, bus=MemoryBus(house.store, topology(ack_wait_s=0.3), loop_time))
    later.release.set()
    header, leg = await later.runs.resume(pb.ResumeRunRequest(run_id="run_1"))
    await submit_run(later.bus, header, Lane.INTERACTIVE, leg)
    async with later.working():
        events = await later.events(leg=1)
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED, events[-1].finished.error
    assert house.policy.sampled + later.policy.sampled == ["run_1-0", "run_1-1", "run_1-2"]
    assert house.called + later.called == CALLS
    assert (await later.runs.replay("run_1")).same


# Objects of an earlier layout, written by hand: nothing in the product writes them any more.
async def rewrite_as_before(house: House, events: Sequence[pb.RunEvent]) -> None:
    """Leave the run as planners did that stored steps as objects: step 0 complete, step 1 open after its first call."""
    recorded = await house.record.get_trajectory("run_1")
    assert recorded is not None
    first, second = recorded.steps[:2]
    completion, note = trajectory.Step(), trajectory.Step(index=1)
    completion.CopyFrom(second)
    for name in ("tool_results", "material"):
        completion.ClearField(name)
    note.completion.tool_calls.append(second.completion.tool_calls[0])
    note.tool_results.append(second.tool_results[0])
    note.material.append(second.material[0])
    for item in await house.store.list("runs/trajectories/"):
        await house.store.delete(item.key)
    await house.store.put("runs/taken/run_1/000000000001.json", b'{"epoch": 1, "leg": 0, "steps": 0}')
    await house.store.put("runs/steps/run_1/0000-000000000001.pb", first.SerializeToString())
    await house.store.put("runs/open/run_1/000000000001/0001.pb", completion.SerializeToString())
    await house.store.put("runs/open/run_1/000000000001/0001-0001-abcdef01.pb", note.SerializeToString())
    house.bus = MemoryBus(house.store, topology(ack_wait_s=0.3), loop_time)
    mark = pb.RunEvent(run_id="run_1", taken_up=pb.TakenUp(attempt=1)).SerializeToString()
    await house.bus.publish(events_subject("run_1"), mark, message_id="mark")
    ends = [place for place, event in enumerate(events) if event.HasField("tool_finished")]
    # Up to the second result: "b" has ended, the others have not.
    for event in events[: ends[1] + 1]:
        await house.bus.publish(events_subject("run_1"), event.SerializeToString(), message_id=str(event.sequence))


async def test_a_run_that_an_older_planner_has_begun_is_read_and_finished() -> None:
    house = House(*LINES)
    house.release.set()
    await house.ask()
    async with house.working():
        wanted = await house.events()
    await rewrite_as_before(house, wanted)
    house.policy.sampled.clear()
    house.called.clear()
    newer = House(*LINES, store=house.store, bus=house.bus)
    newer.release.set()
    assert [step.index for step in (await newer.runs.get("run_1", common.LANE_INTERACTIVE)).trajectory.steps] == [0]
    header = await newer.record.get_header("run_1")
    await newer.runs.queue(header, Lane.INTERACTIVE)
    async with newer.working():
        events = await newer.events()
    assert newer.policy.sampled == ["run_1-2"]
    assert newer.called == CALLS[2:]
    assert numbers(events) == list(range(1, len(events) + 1))
    assert events[-1].finished.answer == wanted[-1].finished.answer
    assert (await newer.runs.replay("run_1")).same


def test_an_older_reader_sees_the_event_without_its_step() -> None:
    event, step = pb.RunEvent(sequence=7, run_id="run_1", sampled=pb.Sampled(step=3)), trajectory.Step(index=3)
    step.completion.text = "x" * 300
    payload, headers = write_message(event, step)
    assert read_message(payload, headers) == (event, step)
    assert read_message(*write_message(event, None)) == (event, None)
    older = pb.RunEvent.FromString(payload)
    assert (older.sequence, older.sampled) == (7, event.sampled)
    assert STEP_FIELD not in pb.RunEvent.DESCRIPTOR.fields_by_number


def test_a_message_whose_header_is_malformed_is_corrupt() -> None:
    with pytest.raises(CorruptData, match="no pair of places"):
        read_message(b"", {STEP_HEADER: "12"})


@simulate_time
async def test_a_question_that_lost_its_planner_is_with_another_one_in_less_than_ten_seconds() -> None:
    """The queue alone waited ten, before anything was repeated."""
    heartbeat_s = Config().heartbeat_s
    bus = MemoryBus(MemoryStore(), topology(), loop_time)
    await bus.publish(run_subject(Lane.INTERACTIVE, 0), b"run_1", message_id="run_1")
    async with aclosing(bus.consume(run_durable(Lane.INTERACTIVE, 0))) as deliveries:
        delivery = await anext(deliveries)
        alive = asyncio.create_task(send_heartbeats(delivery, heartbeat_s, lambda: None))
        again = asyncio.create_task(anext(deliveries))
        # Alive for longer than the queue waits; then killed right after a beat, the longest that it can take.
        await pass_time(10 * heartbeat_s + 0.001)
        assert not again.done()
        alive.cancel()
        killed = loop_time()
        assert (await again).attempt == 2
    assert loop_time() - killed < 8.5
    # A beat is missed while a server of the bus restarts, and a late one is noticed before somebody else has the run.
    assert 2 * heartbeat_s < ACK_WAIT_S
    assert heartbeat_s + LATE_S < ACK_WAIT_S
