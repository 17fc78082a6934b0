"""A page of ListRuns among few and among many runs, in a folder: from the index, and from the runs' records.

The baseline is how runs were listed before there was an index: the metadata of every header, then header, legs and
trajectory of each run on the page.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.services.planner.runs.index.entry import Entry
from fathom.services.planner.runs.repository import Header, RunRepository, name_of
from fathom.transport.store.folder import FolderStore

RUNS, PAGE, REPEATS = (100, 1_000), 50, 5
# A trajectory of some rounds has about this size.
ANSWER = "It is so. " * 10_000


async def fill(record: RunRepository, runs: int) -> None:
    """Begin and end so many runs."""
    for number in range(runs):
        run_id = f"run_{number:06d}"
        request = pb.RunRequest(request_id=run_id, question="why?").SerializeToString().hex()
        header = Header(run_id, "why?", "", "PROTOCOL_RESEARCH", "rules", float(number), request)
        await record.create(header)
        ended = trajectory.Trajectory(run_id=run_id, stop_reason=trajectory.STOP_REASON_FINISHED)
        ended.answer.markdown = ANSWER
        await record.put_trajectory(ended, epoch=1)
        await record.put_entry(header, Entry(0, ended.stop_reason))


async def read_index(record: RunRepository) -> list[pb.RunSummary]:
    return [await record.get_summary(place) for place in await record.list_runs(PAGE, "")]


async def read_records(record: RunRepository) -> list[pb.RunSummary]:
    names = sorted((name_of(item.key) for item in await record.store.list("runs/headers/")), reverse=True)
    return [await record.summarise(run_id) for run_id in names[:PAGE]]


async def measure_ms(read: Callable[[RunRepository], Awaitable[list[pb.RunSummary]]], record: RunRepository) -> float:
    """Return the least time of some readings in milliseconds."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        await read(record)
        times.append((time.perf_counter() - started) * 1000)
    return min(times)


async def run() -> None:
    print(f"a page of {PAGE} runs        index   records   ratio")
    for runs in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            record = RunRepository(FolderStore(Path(folder)))
            await fill(record, runs)
            assert await read_index(record) == await read_records(record)
            index, records = await measure_ms(read_index, record), await measure_ms(read_records, record)
            print(f"among {runs:>5,} runs   {index:8.1f}  {records:8.1f}  {records / index:6.1f}")
