"""A stream of events that is full: the oldest go, who asks for them is told, and runs go on."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.errors import NotFound
from fathom.services.planner.runs.log.events import follow
from fathom.transport.bus.memory import MemoryBus
from fathom.transport.bus.streams import EVENTS, topology
from fathom.transport.store.memory import MemoryStore
from tests.support.clock import loop_time
from tests.unit.planner.house import House, echo, finish, numbers

LINES = (echo("a"), echo("b"), finish("It is so [1]."))
FINISHED = trajectory.STOP_REASON_FINISHED


async def measure_run() -> int:
    """Return the bytes of one run's events."""
    house = House(*LINES)
    await play(house, "run_0")
    return (await house.bus.states())[EVENTS].size_bytes


async def make_house(runs: float, *lines: str) -> House:
    """Return a house whose stream has room for the events of so many runs."""
    store = MemoryStore()
    streams = topology(ack_wait_s=0.3, event_bytes=int(await measure_run() * runs))
    return House(*lines, store=store, bus=MemoryBus(store, streams, loop_time))


async def play(house: House, run_id: str) -> list[pb.RunEvent]:
    await house.ask(run_id)
    async with house.working(house.worker()):
        return await house.events(run_id)


async def read_all(house: House, run_id: str, after: int, *, may_skip: bool = False) -> list[pb.RunEvent]:
    async with aclosing(follow(house.bus, run_id, after, may_skip=may_skip)) as events:
        return [event async for event in events]


async def test_a_run_whose_events_have_gone_keeps_its_record_and_says_so() -> None:
    house = await make_house(1.5, *LINES)
    for name in ("run_1", "run_2", "run_3"):
        # Nothing of a run fails because of those before it.
        assert (await play(house, name))[-1].finished.stop_reason == FINISHED
    with pytest.raises(NotFound, match=r"events of run.*GetRun gives its trajectory"):
        await house.runs.find_watchable("run_1")
    # A repeated request would wait for its events as well.
    with pytest.raises(NotFound, match="events of run"):
        await house.ask("run_1")
    found = await house.runs.get("run_1", common.LANE_INTERACTIVE)
    assert (found.running, found.trajectory.stop_reason) == (False, FINISHED)
    assert (await house.runs.replay("run_1")).same
    assert (await house.runs.find_watchable("run_3"))[0].run_id == "run_3"


async def test_a_reader_of_events_of_which_the_first_have_gone_learns_where_the_rest_begins() -> None:
    house = await make_house(1.5, *LINES)
    events = await play(house, "run_1")
    await play(house, "run_2")
    rest = await read_all(house, "run_1", 0, may_skip=True)
    first = rest[0].sequence
    assert 1 < first <= len(events), "the second run has pushed out a part of the first one"
    with pytest.raises(NotFound, match=f"those from {first} on"):
        await read_all(house, "run_1", 0)
    assert numbers(await read_all(house, "run_1", first - 1)) == numbers(rest)


async def test_a_run_that_lost_the_beginning_of_its_log_ends_all_the_same() -> None:
    house = await make_house(1.2, echo("a"), echo("wait"), finish("It is so [1]."))
    await house.ask("run_1")
    async with house.working(), aclosing(follow(house.bus, "run_1", 0)) as events:
        async for event in events:
            # The second call waits, and its planner is gone.
            if event.WhichOneof("event") == "tool_started" and event.tool_started.step == 1:
                break
    house.policy.by_question["next?"] = list(LINES)
    await house.ask("run_2", question="next?")
    house.release.set()
    async with house.working(house.worker()):
        await read_all(house, "run_2", 0, may_skip=True)
        ended = await read_all(house, "run_1", 0, may_skip=True)
    assert ended[0].sequence > 1, "the second run has pushed out a part of the first one"
    assert ended[-1].finished.stop_reason == FINISHED
    assert ended[-1].finished.answer.markdown.startswith("It is so")
