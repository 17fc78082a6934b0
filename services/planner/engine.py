"""Execution of episodes for queued runs and for trainers' groups, through the same ``player``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fathom.errors import InvalidField
from fathom.protocol.messages import Sampling
from services.planner.answering.ending import CitedEnding
from services.planner.model import Episode, Limits, Outcome, Step, Task, rebuilt
from services.planner.playing import AnyProtocol, Player, player
from services.planner.ports import Observer, Policy
from services.planner.stage import Stage
from services.planner.todo import TodoItem


@dataclass(frozen=True)
class Play:
    """A finished episode with its outcome."""

    episode: Episode
    outcome: Outcome


MakeStage = Callable[[Task, Sequence[Step], Step | None], Stage]
"""Factory of an episode's resources from the task, its recorded steps, and an interrupted step."""


class Engine:
    """Executor of episodes."""

    def __init__(self, policy: Callable[[AnyProtocol], Policy], stage: MakeStage) -> None:
        self._policy, self._stage = policy, stage
        self._running: dict[str, Player] = {}

    async def play(
        self,
        task: Task,
        protocol: AnyProtocol,
        observer: Observer,
        steps: Sequence[Step] = (),
        cut_short: Step | None = None,
        edited: Sequence[TodoItem] | None = None,
    ) -> Play:
        """Run an episode from its last recorded step to its end; used by production and training.

        ``cut_short`` is the interrupted step after the recorded ones, whose partial results are reused. ``edited`` is
        the user's todo list if no step shows it yet.
        """
        episode = rebuilt(task, protocol.opening(task), steps)
        stage = self._stage(task, episode.steps, cut_short)
        # Tag protocols are graded on their text.
        if protocol.tags:  # its answers are words to grade: nothing is corrected, drawn or added
            stage = replace(stage, ending=CitedEnding())
        loop = player(episode, protocol, self._policy(protocol), stage, observer, cut_short)
        if edited is not None:
            loop.edit_todo(edited)
        self._running[task.run_id] = loop
        try:
            return Play(episode, await loop.run())
        finally:
            del self._running[task.run_id]
            stage.metrics.episode(episode.steps)
            await stage.close()

    def stop(self, run_id: str) -> bool:
        """Request the end of a run; return False when it is not active in this process."""
        loop = self._running.get(run_id)
        if loop is not None:
            loop.stop()
        return loop is not None

    def runs(self, run_id: str) -> bool:
        """Return whether the run is active in this process."""
        return run_id in self._running

    def edit_todo(self, run_id: str, items: Sequence[TodoItem]) -> tuple[TodoItem, ...] | None:
        """Replace the todo list of a run and return it as stored; None when the run is not active in this process.

        Raises ``InvalidField`` for a list that is too long or malformed.
        """
        loop = self._running.get(run_id)
        return None if loop is None else loop.edit_todo(items)

    async def group(
        self,
        tasks: list[Task],
        group_size: int,
        concurrency: int,
        protocol: AnyProtocol,
        observer: Observer,
        places: Sequence[tuple[int, int]],
    ) -> AsyncIterator[tuple[int, int, Play]]:
        """Yield the episodes at ``places`` (task, sample) with their places as they end.

        At most ``concurrency`` run at once. Each of the ``group_size`` samples has its own seed, derived from the
        request: samples differ within a group but are equal when the request is repeated.
        """
        gate = asyncio.Semaphore(concurrency)

        async def one(index: int, sample: int) -> tuple[int, int, Play]:
            task = tasks[index]
            seed = task.sampling.seed + index * group_size + sample
            run_id = f"{task.run_id}-{index}-{sample}"
            async with gate:
                varied = replace(task, run_id=run_id, sampling=replace(task.sampling, seed=seed))
                return index, sample, await self.play(varied, protocol, observer)

        running = [asyncio.create_task(one(*place)) for place in places]
        try:
            for ended in asyncio.as_completed(running):
                yield await ended
        finally:
            for episode in running:
                episode.cancel()
            await asyncio.gather(*running, return_exceptions=True)


def checked_question(question: str, longest: int, field: str = "question") -> str:
    """Return the question without surrounding whitespace; raise ``InvalidField`` when it is empty or too long."""
    question = question.strip()
    if not question:
        raise InvalidField(field, "is empty")
    if len(question) > longest:
        raise InvalidField(field, f"has {len(question):,} characters; at most {longest:,} are allowed")
    return question


def tightened(requested: int, longest: int, field: str) -> int:
    """Return the requested limit, at most ``longest``; 0 requests the default, which is ``longest``.

    Raises ``InvalidField`` for a negative one.
    """
    if requested < 0:
        raise InvalidField(field, "must not be negative")
    return min(requested, longest) if requested else longest


def cheaper(requested: float, most: float, field: str) -> float:
    """Return the smaller of two cost limits, where 0 means unlimited; raise ``InvalidField`` for a negative one."""
    if not requested >= 0:
        raise InvalidField(field, "must not be negative")
    return min(requested, most) if requested and most else requested or most


def limits(
    max_rounds: int,
    max_tokens: int,
    max_ms: int,
    start_time: float | None = None,
    max_cost: float = 0.0,
    since: int = 0,
) -> Limits:
    """Return limits that count from ``start_time`` (seconds since the epoch; None: now) and step ``since``."""
    longest = max_ms / 1000
    # The wall clock only measures the time waited until now, at least 0 in case the sender's clock is ahead. From here
    # on the monotonic clock counts, which cannot be adjusted.
    waited = 0.0 if start_time is None else max(0.0, time.time() - start_time)
    return Limits(max_rounds, max_tokens, time.monotonic() + longest - waited, longest, max_cost, since)


def bounded(sampling: Sampling, max_tokens: int) -> Sampling:
    """Limit the sampling to ``max_tokens`` tokens per completion; 0 sets no limit."""
    if max_tokens == 0:
        return sampling
    return replace(sampling, max_tokens=tightened(sampling.max_tokens, max_tokens, "sampling.max_tokens"))


def asked_on(as_of: Any, start_time: float) -> str:
    """Return the ISO date (UTC) that an episode regards as today: of ``as_of`` (a Timestamp), else of its start."""
    moment = as_of.ToDatetime() if as_of is not None else datetime.fromtimestamp(start_time, UTC)
    return str(moment.date().isoformat())
