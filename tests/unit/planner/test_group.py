"""A group of episodes: they come as they end, and a reader that goes away ends the rest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

from fathom.core.call import Call, Lane, calling, current_call
from fathom.domain.chat.messages import Sampling
from fathom.services.planner.engine import Engine
from fathom.services.planner.model.episode import Limits, Task
from tests.support.waiting import settle

PLACES = [(0, 0), (0, 1), (0, 2)]


class Gated(Engine):
    """Each episode ends when its gate is opened."""

    def __init__(self) -> None:
        super().__init__(lambda _: None, lambda *_: None)  # type: ignore[arg-type, return-value]
        self.gates = {f"run-{task}-{sample}": asyncio.Event() for task, sample in PLACES}
        self.cancelled: list[str] = []

    async def play(self, task: Task, *_: Any, **__: Any) -> Any:
        try:
            await self.gates[task.run_id].wait()
        except asyncio.CancelledError:
            self.cancelled.append(task.run_id)
            raise
        return task

    def episodes(self) -> AsyncGenerator[list[tuple[int, int, Any]], None]:
        task = Task("run", "question", "model", Sampling(seed=7), Limits(5, 100, 0.0))
        return self.play_group({0: (task, None)}, 3, 3, None, PLACES)  # type: ignore[arg-type, return-value]


async def test_episodes_come_as_they_end_each_with_a_seed_of_its_own() -> None:
    engine, seen = Gated(), []
    engine.gates["run-0-2"].set()
    async for ended in engine.episodes():
        seen.append([(index, sample, task.sampling.seed) for index, sample, task in ended])
        for gate in engine.gates.values():
            gate.set()
        await settle()
    assert seen == [[(0, 2, 9)], [(0, 0, 7), (0, 1, 8)]], "those that ended meanwhile come together"


async def test_a_reader_that_goes_away_ends_the_rest() -> None:
    engine = Gated()
    engine.gates["run-0-1"].set()
    episodes = engine.episodes()
    assert [one[:2] for one in await anext(episodes)] == [(0, 1)]
    await episodes.aclose()
    assert sorted(engine.cancelled) == ["run-0-0", "run-0-2"]


async def test_an_episode_has_its_own_time_and_lane_whenever_its_turn_comes() -> None:
    played: list[tuple[float, Lane | None]] = []

    class Noting(Gated):
        async def play(self, task: Task, *_: Any, **__: Any) -> Any:
            call = current_call()
            played.append((task.limits.deadline - time.monotonic(), None if call is None else call.lane))

    # As one that was asked for a minute ago, behind others.
    task = Task("run", "question", "model", Sampling(), Limits(5, 100, time.monotonic() - 30, 30.0))
    with calling(Call.new(lane=Lane.INTERACTIVE)):
        async for _ in Noting().play_group({0: (task, None)}, 3, 1, None, PLACES):  # type: ignore[arg-type]
            pass
    assert [lane for _, lane in played] == [Lane.TRAINING] * 3
    assert all(left > 25 for left, _ in played)
