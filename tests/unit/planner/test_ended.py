"""Episodes that end about the same time come together, and none waits once nothing else runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from fathom.services.planner.episode.ended import MAX_WAITED_S, TOGETHER, WAITED_SHARE, EndedTasks
from tests.support.clock import loop_time, pass_time, simulate_time


async def end_after(seconds: float) -> float:
    await pass_time(seconds)
    return seconds


async def take_all(ends: Sequence[float]) -> list[tuple[float, list[float]]]:
    """Return what comes of tasks that end at these times: when it came, and which ones."""
    tasks = [asyncio.create_task(end_after(end)) for end in ends]
    began, ended, seen = loop_time(), EndedTasks(tasks), []
    while ended.left:
        taken = await ended.take()
        seen.append((round(loop_time() - began, 6), [task.result() for task in taken]))
    return seen


@simulate_time
async def test_one_task_alone_and_the_last_ones_wait_for_nothing() -> None:
    assert await take_all([5.0]) == [(5.0, [5.0])]
    # The first waits a tenth of its time in vain; the last two make the group whole as they end.
    assert await take_all([5.0, 8.0, 8.2]) == [(5.0 + 5.0 * WAITED_SHARE, [5.0]), (8.2, [8.0, 8.2])]


@simulate_time
async def test_tasks_that_end_one_by_one_come_together() -> None:
    ends = [2.0 + at / 100 for at in range(40)]
    seen = await take_all(ends)
    assert [end for _, part in seen for end in part] == ends
    assert [len(part) for _, part in seen] == [TOGETHER, TOGETHER, 40 - 2 * TOGETHER]
    assert [when for when, _ in seen] == [ends[15], ends[31], ends[39]], "as many as go together wait no longer"


@simulate_time
async def test_no_task_waits_long_for_one_that_takes_much_longer() -> None:
    assert await take_all([100.0, 500.0]) == [(100.0 + MAX_WAITED_S, [100.0]), (500.0, [500.0])]


@simulate_time
async def test_more_than_go_together_come_in_parts_without_a_wait() -> None:
    seen = await take_all([3.0] * (TOGETHER + 4))
    assert [(when, len(part)) for when, part in seen] == [(3.0, TOGETHER), (3.0, 4)]


@simulate_time
async def test_a_task_that_failed_is_handed_on_like_others() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    ended = EndedTasks([asyncio.create_task(fail())])
    [task] = await ended.take()
    with pytest.raises(ValueError, match="broken"):
        task.result()
    assert not ended.left
