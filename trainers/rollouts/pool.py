"""Asynchronous rollout buffer with bounded policy staleness.

The bound is strict and per sample: a group whose oldest token is more than ``bound`` versions behind is never returned.
It is restarted with the same prompt, so that the number of groups in flight stays constant and no prompt is lost. Once
a group has been restarted ``max_restarts`` times, training waits for it before advancing to a version that would make
it stale: long episodes are not crowded out by short ones.

Concurrency is counted in episodes, not groups: a group whose other episodes have ended occupies one slot, so stragglers
do not block the start of new groups.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fathom.trainers.rollouts.groups import Group
from fathom.trainers.rollouts.requests import Row, SamplingSettings


@dataclass
class Job:
    """One group to be sampled."""

    row: Row
    sampling: SamplingSettings
    place: int
    """Position in the order of submission; also offsets the seed, so that rows of a batch differ."""
    restarts: int = 0
    begun_at: int = 0
    """Policy version when the group was started: no token of it is older."""
    playing: int = 0
    """Number of its episodes still running."""


@dataclass(frozen=True)
class Ready:
    """A completed group with its job."""

    job: Job
    group: Group


@dataclass
class Counts:
    """Numbers of discarded groups since the last batch: too old, of several versions, cancelled while running."""

    stale: int = 0
    mixed: int = 0
    cancelled: int = 0


class Pool:
    """Pool of groups in flight; use it from one event loop only.

    ``play`` samples a group, calling ``heard`` with the number of ended episodes; any exception it raises ends the
    training. ``limit`` bounds the episodes in flight, 0 means unbounded; ``single`` rejects groups sampled by several
    versions.
    """

    def __init__(
        self,
        play: Callable[[Job], Awaitable[Group]],
        bound: int,
        *,
        single: bool = False,
        max_restarts: int = 2,
        limit: int = 0,
    ) -> None:
        self._play, self.bound, self._single = play, bound, single
        self._max_restarts, self._limit = max_restarts, limit
        self.version = 0
        self.counts = Counts()
        self._waiting: deque[Job] = deque()
        self._running: dict[asyncio.Task[None], Job] = {}
        self._ready: list[Ready] = []
        self._failure: BaseException | None = None
        self._changed = asyncio.Event()
        self._submitted = 0

    def pending(self) -> list[str]:
        """Return the ``uid`` of prompts whose groups ``take`` has not returned, in order of submission."""
        jobs = [*self._waiting, *self._running.values(), *(one.job for one in self._ready)]
        return [str(job.row["uid"]) for job in sorted(jobs, key=lambda job: job.place)]

    def submit(self, rows: list[Row], sampling: SamplingSettings) -> None:
        """Queue prompts; their groups are started as ``limit`` allows."""
        for row in rows:
            self._waiting.append(Job(row, sampling, self._submitted))
            self._submitted += 1
        self._begin()

    async def take(self, count: int) -> list[Group]:
        """Return ``count`` groups within the staleness bound, those closest to it first.

        Raises the first exception raised by ``play``.
        """
        # Also with enough groups ready, training waits for one that the next version would make unusable once more:
        # long episodes would otherwise be restarted for ever, and the policy trained on short ones alone.
        while self._failure is None and (len(self._ready) < count or self._due()):
            self._changed.clear()
            await self._changed.wait()
        if self._failure is not None:
            raise self._failure
        # Groups that may not be restarted again first, then the oldest: taken later, they might have become too old,
        # and their tokens would have been sampled in vain.
        self._ready.sort(key=lambda one: (one.job.restarts < self._max_restarts, one.group.oldest, one.job.place))
        taken, self._ready = self._ready[:count], self._ready[count:]
        return [one.group for one in taken]

    def record_progress(self, job: Job, ended: int) -> None:
        """Record that ``ended`` episodes of a job have ended, and start groups in the freed slots."""
        job.playing = job.sampling.n - ended
        self._begin()

    def _due(self) -> bool:
        """Return whether a group that may not be restarted again would become invalid after this step.

        Invalid means too old, or with ``single``, sampled by two versions.
        """
        last = self.version - (0 if self._single else self.bound)
        return any(job.restarts >= self._max_restarts and job.begun_at <= last for job in self._running.values())

    def advance(self, version: int) -> None:
        """Set the current policy version and restart groups that are now too old."""
        self.version = version
        # A copy, since restarting a job changes the dictionary.
        for task, job in list(self._running.items()):
            # Its first token is at least as old as its start: such a group could only end as too old, and is given up
            # at once.
            if job.begun_at < version - self.bound:
                task.cancel()
                del self._running[task]
                self.counts.cancelled += 1
                self._again(job)
        kept = []
        for one in self._ready:
            if one.group.oldest < version - self.bound:
                self.counts.stale += 1
                self._again(one.job)
            else:
                kept.append(one)
        self._ready = kept
        self._begin()

    def _again(self, job: Job) -> None:
        job.restarts += 1
        # In front: it has waited longest, and its prompt must not fall behind the epoch it belongs to.
        self._waiting.appendleft(job)

    def _begin(self) -> None:
        # Counted in episodes that still run: a group with one straggler holds one slot, not n.
        playing = sum(job.playing for job in self._running.values())
        # A group that is larger than the limit is played all the same, alone.
        while self._waiting and (
            not self._limit or not playing or playing + self._waiting[0].sampling.n <= self._limit
        ):
            job = self._waiting.popleft()
            job.begun_at, job.playing = self.version, job.sampling.n
            playing += job.playing
            task = asyncio.get_running_loop().create_task(self._one(job), name=f"group {job.row['uid']}")
            self._running[task] = job

    async def _one(self, job: Job) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            group = await self._play(job)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # Kept for `take`, in the thread that trains: a task's own exception would only be logged.
            self._failure = self._failure or error
            self._changed.set()
            return
        if self._running.pop(task, None) is None:
            return  # given up while it ended
        if group.oldest < self.version - self.bound:
            self.counts.stale += 1
            self._again(job)
        elif self._single and not group.single:
            self.counts.mixed += 1
            self._again(job)
        else:
            self._ready.append(Ready(job, group))
        self._begin()
        self._changed.set()

    async def close(self) -> None:
        """Cancel all groups in flight."""
        tasks = list(self._running)
        # Cleared before the tasks are cancelled: one that ends meanwhile finds that it was given up, and is not
        # counted.
        self._running.clear()
        self._waiting.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
