"""The list of runs: by when they began, whoever named them, from an index."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.common.v1.common_pb2 import LANE_INTERACTIVE
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Lane
from fathom.core.errors import InvalidField
from fathom.core.paging import write_token
from fathom.services.planner.runs.index.entry import Entry
from fathom.services.planner.runs.repository import Header, RunRepository, name_of
from fathom.transport.store.memory import MemoryStore
from tests.support.counting import CountingStore
from tests.support.waiting import eventually
from tests.unit.planner.house import House, echo, finish


def header(run_id: str, start_time: float) -> Header:
    return Header(run_id, "why?", "", "PROTOCOL_RESEARCH", "rules", start_time, "")


async def list_ids(record: RunRepository, after: str = "") -> list[str]:
    return [(await record.get_summary(place)).run_id for place in await record.list_runs(100, after)]


async def begin_earlier(record: RunRepository, run_id: str, start_time: float = 0.0) -> None:
    """Begin a run as before there was an index; without a time, as before start times were recorded."""
    await record.create(header(run_id, start_time))
    for key in await record.store.keys("runs/index/"):
        if key.endswith(f"-{run_id}.json"):
            await record.store.delete(key)
    if start_time:
        await record.store.put(f"runs/begun/{int(start_time * 1000):015d}-{run_id}.txt", b"", "text/plain")


async def test_runs_are_listed_newest_first_whoever_named_them() -> None:
    record = RunRepository(MemoryStore())
    for start_time, run_id in enumerate(("zebra", "run_0000", "a-1", "m-2"), start=1):
        await record.create(header(run_id, float(start_time)))
    assert await list_ids(record) == ["m-2", "a-1", "run_0000", "zebra"]


async def test_a_run_that_is_begun_again_is_listed_once() -> None:
    record = RunRepository(MemoryStore())
    await record.create(header("between", 3.0))
    assert await record.create(header("again", 4.0)) == (header("again", 4.0), True)
    assert await record.create(header("again", 5.0)) == (header("again", 4.0), False)
    assert await list_ids(record) == ["again", "between"]


async def test_runs_of_before_the_index_come_last_and_each_once() -> None:
    store = MemoryStore()
    record = RunRepository(store)
    for run_id in ("old-1", "old-2"):
        await begin_earlier(record, run_id)
    for start_time, run_id in ((3.0, "timed-3"), (2.0, "timed-2"), (1.0, "ended-since")):
        await begin_earlier(record, run_id, start_time)
    await store.put("runs/begun/000000000001000-lost.txt", b"", "text/plain")
    await record.put_entry(header("ended-since", 1.0), Entry(0, trajectory.STOP_REASON_FINISHED))
    await record.create(header("a-new-one", 1.5))
    assert await list_ids(record) == ["a-new-one", "ended-since", "timed-3", "timed-2", "old-2", "old-1"]


async def test_pages_go_from_the_index_on_to_earlier_runs() -> None:
    house = House()
    for number in range(3):
        await begin_earlier(house.record, f"old-{number}")
        await house.record.create(header(f"new-{number}", float(number + 1)))
    found, token = [], ""
    while True:
        page = await house.runs.list(2, token)
        found.append([run.run_id for run in page.runs])
        token = page.next_page_token
        if not token:
            break
    assert found == [["new-2", "new-1"], ["new-0", "old-2"], ["old-1", "old-0"]]
    for stranger in ("runs/headers/never.json", "never"):
        with pytest.raises(InvalidField, match="page_token"):
            await house.runs.list(2, write_token("runs", stranger))


async def test_a_page_reads_an_entry_per_run_that_it_shows_and_nothing_of_the_others() -> None:
    store = CountingStore()
    house = House(store=store)
    for number in range(40):
        begun = replace(header(f"run_{number:02d}", float(number)), question=f"question {number}?")
        await house.record.create(begun)
        await house.record.put_entry(begun, Entry(0, trajectory.STOP_REASON_FINISHED))
    store.operations.clear()
    page = await house.runs.list(5, "")
    assert [run.question for run in page.runs] == [f"question {number}?" for number in range(39, 34, -1)]
    assert [(name, name_of(key).partition("-")[2]) for name, key in store.operations] == [
        ("keys", ""),
        *(("get", f"run_{number:02d}") for number in range(39, 34, -1)),
    ]


async def test_an_entry_follows_its_run_through_end_and_resumption() -> None:
    house = House(echo("a"), finish("It is [1]."))

    async def entry() -> pb.RunSummary:
        (found,) = (await house.runs.list(10, "")).runs
        return found

    await house.ask(budget=pb.Budget(max_rounds=1), model="scripted")
    assert (await entry()).stop_reason == trajectory.STOP_REASON_UNSPECIFIED
    assert not (await entry()).HasField("usage")
    async with house.working():
        await house.events()
        spent = await entry()
        assert (spent.stop_reason, spent.model) == (trajectory.STOP_REASON_BUDGET, "scripted")
        run_header, leg = await house.runs.resume(pb.ResumeRunRequest(run_id="run_1"))
        assert ((await entry()).leg, (await entry()).stop_reason) == (1, trajectory.STOP_REASON_UNSPECIFIED)
        await house.runs.queue(run_header, Lane.INTERACTIVE)
        await house.events(leg=leg.number)

        async def find_end() -> pb.RunSummary | None:
            # Its end is told before it is noted.
            found = await entry()
            return found if found.HasField("end_time") else None

        ended = await eventually(find_end)
    assert (ended.run_id, ended.leg, ended.stop_reason) == ("run_1", 1, trajectory.STOP_REASON_FINISHED)
    # Of both legs, as its record has it.
    kept = (await house.runs.get("run_1", LANE_INTERACTIVE)).trajectory.usage
    assert ended.usage.completion_tokens == kept.completion_tokens > spent.usage.completion_tokens > 0
    assert (ended.usage.prompt_tokens, ended.usage.cost) == (kept.prompt_tokens, kept.cost)
    assert "budget is spent" in spent.error
    assert not ended.error
    assert ended.lane == common.LANE_INTERACTIVE
    assert ended.end_time.ToNanoseconds() > ended.start_time.ToNanoseconds()


async def test_an_entry_says_what_failed_and_where_and_those_of_earlier_versions_say_nothing() -> None:
    record = RunRepository(MemoryStore())
    begun = header("run_1", 1.0)
    await record.create(begun)
    ended = trajectory.Trajectory(stop_reason=trajectory.STOP_REASON_FAILED, culprit="sandbox", error="x" * 1_000)
    await record.put_entry(begun, Entry.of(ended, 3.5))
    (place,) = await record.list_runs(10, "")
    failed = await record.get_summary(place)
    assert (failed.culprit, failed.error, failed.end_time.ToJsonString()) == (
        "sandbox", "x" * 200, "1970-01-01T00:00:03.500Z",
    )  # fmt: skip
    content = json.loads(await record.store.get(place))
    earlier = {name: content[name] for name in ("question", "parent_run_id", "start_time", "leg", "stop_reason")}
    await record.store.put(place, json.dumps({**earlier, "of_a_newer_planner": 1}).encode(), "application/json")
    known = await record.get_summary(place)
    assert known.stop_reason == trajectory.STOP_REASON_FAILED
    assert not known.HasField("end_time")
    assert not known.HasField("usage")


async def test_an_end_whose_entry_was_not_written_is_read_from_the_record() -> None:
    record = RunRepository(MemoryStore())
    request = pb.RunRequest(request_id="run_1", question="why?").SerializeToString().hex()
    await record.create(replace(header("run_1", 1.0), request=request))
    ended = trajectory.Trajectory(run_id="run_1", stop_reason=trajectory.STOP_REASON_FAILED)
    await record.put_trajectory(ended, epoch=1)
    (place,) = await record.list_runs(10, "")
    assert (await record.get_summary(place)).stop_reason == trajectory.STOP_REASON_FAILED
