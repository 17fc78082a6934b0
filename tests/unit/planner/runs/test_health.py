"""Test when a planner says that it can serve: bus and store within reach, and every queue consumed."""

from __future__ import annotations

import asyncio
from unittest import mock

import pytest

from fathom.core.errors import DependencyFailed
from fathom.services.planner.server import PlannerServicer


class Reach:
    """Tells what the test puts in."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[bool] = asyncio.Queue()

    async def wait_for_change(self) -> bool:
        return await self.answers.get()


def make_servicer(reach: Reach, *consumers: asyncio.Task[None]) -> PlannerServicer:
    parts = [mock.Mock() for _ in range(10)]
    servicer = PlannerServicer(*parts, reach=reach)  # type: ignore[arg-type]
    servicer._consumers = list(consumers)
    return servicer


async def consume() -> None:
    await asyncio.Event().wait()


async def test_it_follows_the_reach_of_bus_and_store_and_ends_with_a_queue() -> None:
    reach, consumer = Reach(), asyncio.create_task(consume(), name="runs interactive 0")
    changes = make_servicer(reach, consumer).changes()
    for is_there in (False, True, False):
        reach.answers.put_nowait(is_there)
        assert await anext(changes) is is_there
    # The queue ends while bus and store are away: that is the worse of the two.
    consumer.cancel()
    with pytest.raises(DependencyFailed, match="runs interactive 0 are not taken any more"):
        await anext(changes)


async def test_nothing_runs_on_when_it_is_no_longer_asked() -> None:
    reach, consumer = Reach(), asyncio.create_task(consume())
    asked = asyncio.create_task(anext(make_servicer(reach, consumer).changes()))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "reach of bus and store"]
    assert not consumer.done()
    consumer.cancel()
