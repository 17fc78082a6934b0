"""A workflow goes on wherever its worker was lost: no stage is sampled twice, no finished call is made twice."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from tests.unit.planner.house import numbers
from tests.unit.planner.runs.test_durability import lost_after
from tests.unit.planner.workflow.test_workflow_pipeline import TURNS
from tests.unit.planner.workflow.workflow_house import ANSWER, WHOLE, WorkflowHouse, stages

TEXTS = {
    **WHOLE,
    "rewrite": ["What was Apple's price in 2020?"],
    "reflect": ['{"search": ["Apple rating"]}'],
    "compose": [ANSWER],
}


async def whole_run() -> WorkflowHouse:
    house = WorkflowHouse(TEXTS, TURNS)
    await house.play()
    return house


@pytest.mark.parametrize("writes", range(1, 30))
async def test_a_worker_that_is_lost_after_any_write_costs_nothing(writes: int) -> None:
    wanted = await whole_run()
    house = WorkflowHouse(TEXTS, TURNS, ack_wait_s=0.3)
    await house.ask()
    async with lost_after(house, writes), house.working(house.worker()):
        async with asyncio.timeout(20):
            events = await house.events()
    assert numbers(events) == list(range(1, len(events) + 1))
    assert stages(events) == ["rewrite", "plan", "reflect", "compose"]
    # A completion that was given and not yet written is asked for again, under the same request id.
    assert set(house.policy.sampled) == set(wanted.policy.sampled)
    assert sum(Counter(house.policy.sampled).values()) <= len(wanted.policy.sampled) + 1
    assert set(house.called) == set(wanted.called)
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    assert finished.answer.markdown == ANSWER
    mine, theirs = await house.record.get_trajectory("run_1"), await wanted.record.get_trajectory("run_1")
    assert mine is not None
    assert theirs is not None
    assert mine.hash == theirs.hash
    assert [item.number for item in finished.material] == list(range(1, len(finished.material) + 1))
    assert (await house.runs.replay("run_1")).same
