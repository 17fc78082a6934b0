"""Execution of episodes for queued runs and for trainers' groups, through the same code."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fathom.core.call import Lane, bind, in_lane
from fathom.services.planner.answering.rendering.finish import CitedEnding
from fathom.services.planner.episode.agent import AgentLoop
from fathom.services.planner.episode.dialogue import EpisodeProtocol, Research
from fathom.services.planner.episode.ended import EndedTasks
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import Episode, Outcome, Step, StopReason, Task, rebuild_episode
from fathom.services.planner.model.interfaces import Observer, Policy
from fathom.services.planner.model.recording import RecordingChoice
from fathom.services.planner.model.todo import TodoItem
from fathom.services.planner.recording.tape import RecordingMismatch, Recordings, playing
from fathom.services.planner.workflow.pipeline import Pipeline
from fathom.services.planner.workflow.protocol import Workflow

AnyProtocol = EpisodeProtocol | Workflow
Player = AgentLoop | Pipeline


@dataclass(frozen=True)
class Play:
    """A finished episode with its outcome."""

    episode: Episode
    outcome: Outcome


MakeResources = Callable[[Task, Sequence[Step], Step | None], EpisodeResources]
"""Factory of an episode's resources from the task, its recorded steps, and an interrupted step."""


class Engine:
    """Executor of episodes."""

    def __init__(
        self,
        policy: Callable[[AnyProtocol], Policy],
        make_resources: MakeResources,
        find_chart: Callable[[str], Awaitable[str]] | None = None,
        recordings: Recordings | None = None,
    ) -> None:
        """Create the executor.

        ``find_chart`` returns the kind of chart that a question asks for, "" for none; without ``recordings`` no
        episode is recorded.
        """
        self._policy, self._make_resources, self._find_chart = policy, make_resources, find_chart
        self._recordings = recordings
        self._running: dict[str, Player] = {}

    # Without a recording the episode's own coroutine: no episode pays for one that is not made.
    def play(
        self,
        task: Task,
        protocol: AnyProtocol,
        observer: Observer,
        steps: Sequence[Step] = (),
        cut_short: Step | None = None,
        edited: Sequence[TodoItem] | None = None,
    ) -> Coroutine[Any, Any, Play]:
        """Run an episode from its last recorded step to its end; used by production and training.

        ``cut_short`` is the interrupted step after the recorded ones, whose partial results are reused. ``edited`` is
        the user's todo list if no step shows it yet.
        """
        if task.recording is None or self._recordings is None:
            return self._play(task, protocol, observer, steps, cut_short, edited)
        play_on = partial(self._play, protocol=protocol, observer=observer, cut_short=cut_short, edited=edited)
        return self._play_recorded(play_on, self._recordings, task.recording, task, steps)

    async def _play_recorded(
        self,
        play_on: Callable[..., Awaitable[Play]],
        recordings: Recordings,
        choice: RecordingChoice,
        task: Task,
        steps: Sequence[Step],
    ) -> Play:
        """Run an episode whose calls go through a recording."""
        try:
            date = await recordings.open(choice, task.date)
        except RecordingMismatch as error:
            failed = Outcome(StopReason.FAILED, None, error.message, "recording", error.code)
            return Play(rebuild_episode(task, (), steps), failed)
        tape = recordings.tape(choice, task.run_id)
        # An episode as of a day has that day's date.
        task = task if task.as_of is not None else replace(task, date=date)
        with playing(tape):
            play = await play_on(task, steps=steps)
        if tape.missed is None:
            return play
        # Whatever came after the miss was played without its result: nobody may take it for an answer or a sample.
        missed = tape.missed
        return replace(play, outcome=Outcome(StopReason.FAILED, None, missed.message, "recording", missed.code))

    async def _play(
        self,
        task: Task,
        protocol: AnyProtocol,
        observer: Observer,
        steps: Sequence[Step],
        cut_short: Step | None,
        edited: Sequence[TodoItem] | None,
    ) -> Play:
        # Tag protocols are published environments, and a resumed episode has its opening in its record.
        if self._find_chart is not None and not protocol.tags and not steps and cut_short is None:
            task = replace(task, chart=await self._find_chart(task.question))
        # A resumed run keeps the prompt that it began with, though the data may have changed meanwhile.
        opening = steps[0].new_messages if steps and isinstance(protocol, Research) else protocol.opening(task)
        episode = rebuild_episode(task, opening, steps)
        resources = self._make_resources(task, episode.steps, cut_short)
        # Answers of tag protocols are graded as text: nothing may be corrected, drawn or added.
        if protocol.tags:
            resources = replace(resources, ending=CitedEnding())
        # Both executors have one interface (run, stop, edit_todo), so a run's control does not care which one plays.
        loop = create_player(episode, protocol, self._policy(protocol), resources, observer, cut_short)
        if edited is not None:
            loop.edit_todo(edited)
        # Bound: another tenant may have a run of this id.
        self._running[name := bind(task.run_id)] = loop
        try:
            return Play(episode, await loop.run())
        finally:
            # Before the resources close, which may take seconds: a stop that arrives now must not reach an episode that
            # has ended.
            # A run that this process lost and took up again is the later loop's.
            if self._running.get(name) is loop:
                del self._running[name]
            resources.metrics.observe_episode(episode.steps)
            await resources.close()

    async def open_recording(self, choice: RecordingChoice | None) -> None:
        """Raise ``RecordingMismatch`` for a recording that no episode could use; None is no recording."""
        if choice is not None and self._recordings is not None:
            await self._recordings.open(choice)

    def stop(self, run_id: str) -> bool:
        """Request the end of a run; return False when it is not active in this process."""
        loop = self._running.get(bind(run_id))
        if loop is not None:
            loop.stop()
        return loop is not None

    def is_running(self, run_id: str) -> bool:
        """Return whether the run is active in this process."""
        return bind(run_id) in self._running

    def edit_todo(self, run_id: str, items: Sequence[TodoItem]) -> tuple[TodoItem, ...] | None:
        """Replace the todo list of a run and return it as stored; None when the run is not active in this process.

        Raises ``InvalidField`` for a list that is too long or malformed.
        """
        loop = self._running.get(bind(run_id))
        return None if loop is None else loop.edit_todo(items)

    async def play_group(
        self,
        tasks: Mapping[int, tuple[Task, AnyProtocol]],
        group_size: int,
        concurrency: int,
        observer: Observer,
        places: Sequence[tuple[int, int]],
        lane: Lane = Lane.TRAINING,
    ) -> AsyncIterator[list[tuple[int, int, Play]]]:
        """Yield the episodes at ``places`` (task, sample) with their places as they end, played in ``lane``.

        Some come together, as ``EndedTasks`` has it.

        ``tasks`` are those of the places by index, each with its protocol.

        At most ``concurrency`` run at once. Each of the ``group_size`` samples has its own seed, derived from the
        request: samples differ within a group but are equal when the request is repeated.
        """
        gate = asyncio.Semaphore(concurrency)

        async def one(index: int, sample: int) -> tuple[int, int, Play]:
            task, protocol = tasks[index]
            # Consecutive seeds by place: a repeated request gives every place its seed again, whatever places are still
            # missing.
            seed = task.sampling.seed + index * group_size + sample
            run_id = f"{task.run_id}-{index}-{sample}"
            async with gate:
                # Its time begins now and not when the request came: the others' is none of its own.
                limits = replace(task.limits, deadline=time.monotonic() + task.limits.max_seconds)
                varied = replace(task, run_id=run_id, limits=limits, sampling=replace(task.sampling, seed=seed))
                return index, sample, await self.play(varied, protocol, observer)

        # Whatever lane the caller named: episodes must not come before people at the services. Their tasks take over
        # the lane in which they are created.
        with in_lane(lane):
            running = [asyncio.create_task(one(*place)) for place in places]
        ended = EndedTasks(running)
        try:
            while ended.left:
                yield [task.result() for task in await ended.take()]
        finally:
            for episode in running:
                episode.cancel()
            await asyncio.gather(*running, return_exceptions=True)


def create_player(
    episode: Episode,
    protocol: AnyProtocol,
    policy: Policy,
    resources: EpisodeResources,
    observer: Observer,
    cut_short: Step | None = None,
) -> Player:
    """Create the executor of one episode; ``cut_short`` is a step that a previous worker did not finish."""
    if isinstance(protocol, Workflow):
        return Pipeline(episode, protocol, policy, resources, observer, cut_short)
    return AgentLoop(episode, protocol, policy, resources, observer, cut_short)
