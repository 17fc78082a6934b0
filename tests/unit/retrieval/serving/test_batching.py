"""Batches of queries: those of people first, and training gives up its places in a full queue."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from fathom.core.call import Call, Lane, calling
from fathom.core.errors import Overloaded
from fathom.services.retrieval.serving.batching import Batcher
from tests.support.waiting import settle


class Held:
    """Work that begins when it is let, one batch after the other."""

    def __init__(self) -> None:
        self.may_go = threading.Semaphore(0)
        self.done: list[str] = []

    def __call__(self, jobs: Sequence[str]) -> Sequence[str]:
        self.may_go.acquire()
        self.done += jobs
        return [job.upper() for job in jobs]


async def ask(batcher: Batcher[str, str], job: str, lane: Lane) -> asyncio.Task[str]:
    with calling(Call.new(lane=lane)):
        task = asyncio.create_task(batcher(job))
    await settle()
    return task


async def test_people_overtake_training_and_take_its_places() -> None:
    work = Held()
    batcher: Batcher[str, str] = Batcher("test", work, 1, 2)
    running = await ask(batcher, "first", Lane.TRAINING)
    trainings = [await ask(batcher, f"t{number}", Lane.TRAINING) for number in range(2)]
    with pytest.raises(Overloaded):
        await (await ask(batcher, "t2", Lane.TRAINING))
    person = await ask(batcher, "person", Lane.INTERACTIVE)
    with pytest.raises(Overloaded):
        await trainings[1]
    for _ in range(3):
        work.may_go.release()
    assert await asyncio.gather(running, person, trainings[0]) == ["FIRST", "PERSON", "T0"]
    assert work.done == ["first", "person", "t0"]
    await batcher.close()


async def test_a_caller_that_goes_away_leaves_no_trace() -> None:
    work = Held()
    batcher: Batcher[str, str] = Batcher("test", work, 1, 8)
    running = await ask(batcher, "first", Lane.INTERACTIVE)
    gone = await ask(batcher, "gone", Lane.INTERACTIVE)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    assert batcher.waiting == 0
    work.may_go.release()
    assert await running == "FIRST"
    await batcher.close()
