"""Ten thousand readers of one run: each gets all of it, and together they take bounded memory, none once they are gone."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.services.planner.runs.log.events import EventLog, follow
from fathom.transport.bus.memory import MemoryBus
from fathom.transport.bus.streams import topology
from fathom.transport.store.memory import MemoryStore
from tests.support.waiting import settle

WATCHERS = 10_000
# A task with its generators; an event that each of them kept would be as much again.
MAX_BYTES_EACH = 16_384


async def watch_together(bus: MemoryBus, run_id: str) -> tuple[int, int]:
    """Let all read one run to its end; return the bytes that they took, and those that are left of them."""
    events = EventLog(bus, run_id)
    await events.acquire(1)

    async def watch() -> int:
        return len([event.sequence async for event in follow(bus, run_id, 0)])

    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    watching = [asyncio.create_task(watch()) for _ in range(WATCHERS)]
    await settle()
    events.publish(started=pb.RunStarted(run_id=run_id, question="Why?"))
    await events.flush()
    events.publish(finished=pb.RunFinished(leg=0))
    await events.flush()
    assert set(await asyncio.gather(*watching)) == {2}
    watching.clear()
    await events.close()
    gc.collect()
    after, most = tracemalloc.get_traced_memory()
    return most - before, after - before


@pytest.mark.slow
async def test_ten_thousand_watchers_of_a_run_take_bounded_memory() -> None:
    bus = MemoryBus(MemoryStore(), topology())
    # Not traced, which takes most of the time: tables of the interpreter that grow with the first crowd keep their size.
    await watch_together(bus, "run_1")
    tracemalloc.start()
    try:
        most, left = await watch_together(bus, "run_2")
    finally:
        tracemalloc.stop()
    assert most / WATCHERS < MAX_BYTES_EACH
    assert left / WATCHERS < MAX_BYTES_EACH / 100, "what they took is given back"
