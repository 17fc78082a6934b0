"""The planner: takes runs from the queue, runs groups of episodes for trainers; both through one ``player``."""

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
    """An episode that has ended."""

    episode: Episode
    outcome: Outcome


MakeStage = Callable[[Task, Sequence[Step], Step | None], Stage]
"""Sets up the tools for a task, the steps that it already has, and the one that was cut short."""


class Engine:
    """Runs episodes."""

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
        """One episode from its last recorded step to its end. Production and training both come here.

        ``cut_short`` is what the step after the recorded ones has given already; that is not asked for again.
        ``edited`` is the user's todo list, where no step shows it yet.
        """
        episode = rebuilt(task, protocol.opening(task), steps)
        stage = self._stage(task, episode.steps, cut_short)
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
        """Asks a run of this process to end; False when it is not running here."""
        loop = self._running.get(run_id)
        if loop is not None:
            loop.stop()
        return loop is not None

    def runs(self, run_id: str) -> bool:
        """True while this process plays the run."""
        return run_id in self._running

    def edit_todo(self, run_id: str, items: Sequence[TodoItem]) -> tuple[TodoItem, ...] | None:
        """Gives a run of this process another todo list; None when it is not running here.

        The list as it will be kept; raises ``InvalidField`` for one that is too long or malformed.
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
        """The episodes at ``places`` (task, sample), at most ``concurrency`` at once, with their places when they end.

        Of ``group_size`` samples each has a seed of its own, so a group explores and a repetition of the request
        does not.
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
    """The question without surrounding space; raises ``InvalidField`` when empty or too long (characters)."""
    question = question.strip()
    if not question:
        raise InvalidField(field, "is empty")
    if len(question) > longest:
        raise InvalidField(field, f"has {len(question):,} characters; at most {longest:,} are allowed")
    return question


def tightened(requested: int, longest: int, field: str) -> int:
    """The requested limit, or the server's own for 0; a request may only tighten."""
    if requested < 0:
        raise InvalidField(field, "must not be negative")
    return min(requested, longest) if requested else longest


def cheaper(requested: float, most: float, field: str) -> float:
    """The requested bound on money, where 0 is none on either side; a request may only tighten."""
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
    """Limits that count from ``start_time`` (seconds since the epoch), or from now, and from the step ``since``.

    The wall clock says only how long the run has waited until now: where the clock of whoever began it is ahead of
    this one's, it has not waited. From here on the monotonic clock counts, which nobody sets.
    """
    longest = max_ms / 1000
    waited = 0.0 if start_time is None else max(0.0, time.time() - start_time)
    return Limits(max_rounds, max_tokens, time.monotonic() + longest - waited, longest, max_cost, since)


def bounded(sampling: Sampling, max_tokens: int) -> Sampling:
    """The sampling with at most ``max_tokens`` tokens per completion; 0 sets no bound."""
    if max_tokens == 0:
        return sampling
    return replace(sampling, max_tokens=tightened(sampling.max_tokens, max_tokens, "sampling.max_tokens"))


def asked_on(as_of: Any, start_time: float) -> str:
    """ISO date (UTC) that an episode takes for today: that of ``as_of`` (a Timestamp), else that of its start."""
    moment = as_of.ToDatetime() if as_of is not None else datetime.fromtimestamp(start_time, UTC)
    return str(moment.date().isoformat())
