"""The list of runs: by when they began, whoever named them."""

from __future__ import annotations

from fathom.store.memory import MemoryStore
from services.planner.record import Header, Record


def header(run_id: str, start_time: float) -> Header:
    return Header(run_id, "why?", "", "PROTOCOL_RESEARCH", "rules", start_time, "")


async def test_runs_are_listed_newest_first_whoever_named_them() -> None:
    record = Record(MemoryStore())
    for start_time, run_id in enumerate(("zebra", "run_0000", "a-1", "m-2"), start=1):
        await record.begin(header(run_id, float(start_time)))
    assert await record.headers() == ["m-2", "a-1", "run_0000", "zebra"]


async def test_a_run_that_began_twice_is_listed_once_and_one_without_a_header_not_at_all() -> None:
    store = MemoryStore()
    record = Record(store)
    await store.put("runs/begun/000000000001000-lost.txt", b"", "text/plain")
    await store.put("runs/begun/000000000002000-again.txt", b"", "text/plain")
    await record.begin(header("between", 3.0))
    await record.begin(header("again", 4.0))
    assert (await record.begin(header("again", 5.0))).start_time == 4.0
    assert await record.headers() == ["again", "between"]


async def test_runs_of_before_beginnings_were_recorded_come_last() -> None:
    store = MemoryStore()
    record = Record(store)
    for run_id in ("old-1", "old-2"):
        await store.put(f"runs/headers/{run_id}.json", b"{}", "application/json")
    await record.begin(header("a-new-one", 1.0))
    assert await record.headers() == ["a-new-one", "old-2", "old-1"]
