"""Groups under way while learners learn, with a bound on how old what is trained on may be.

The bound is strict and per sample: a group whose oldest token is more than ``bound`` versions behind is never
given out. It is begun anew with its own prompt (one for one, so that as many groups are under way as before and no
prompt is lost). A group that was begun anew ``max_restarts`` times is waited for when the next version would spoil
it: long episodes are not lost to short ones, and it is within the bound when it comes.

Places to sample in are counted by episode: a group whose other episodes have ended holds one place, not all of its
own, so that a straggler keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from trainers.rollouts.groups import Group
from trainers.rollouts.requests import Asked, Row


@dataclass
class Job:
    """A group to be played."""

    row: Row
    asked: Asked
    place: int
    """Place in the order of submission; it also tells the seeds of a batch's rows apart."""
    restarts: int = 0
    begun_at: int = 0
    """Version that was current when it was begun: no token of it is older."""
    playing: int = 0
    """Episodes of it that have not ended."""


@dataclass(frozen=True)
class Ready:
    """A group that has ended."""

    job: Job
    group: Group


@dataclass
class Counts:
    """What became of groups since the last batch."""

    stale: int = 0
    mixed: int = 0
    cancelled: int = 0


class Pool:
    """Used from one event loop. ``play`` gives a group or raises; what it raises ends the training.

    ``limit`` bounds the episodes in flight, 0 leaves them unbounded; ``single`` refuses groups of several versions.
    ``play`` says with ``heard`` how many episodes of its job have ended.
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

    @property
    def under_way(self) -> int:
        """Groups that were submitted and not yet given out."""
        return len(self._waiting) + len(self._running) + len(self._ready)

    def pending(self) -> list[str]:
        """``uid`` of these groups' prompts, in the order of submission."""
        jobs = [*self._waiting, *self._running.values(), *(one.job for one in self._ready)]
        return [str(job.row["uid"]) for job in sorted(jobs, key=lambda job: job.place)]

    def submit(self, rows: list[Row], asked: Asked) -> None:
        """Takes prompts; they are begun as ``limit`` allows."""
        for row in rows:
            self._waiting.append(Job(row, asked, self._submitted))
            self._submitted += 1
        self._begin()

    async def take(self, count: int) -> list[Group]:
        """``count`` groups within the bound, those first that would be too old next. Raises what a group raised."""
        while self._failure is None and (len(self._ready) < count or self._due()):
            self._changed.clear()
            await self._changed.wait()
        if self._failure is not None:
            raise self._failure
        self._ready.sort(key=lambda one: (one.job.restarts < self._max_restarts, one.group.oldest, one.job.place))
        taken, self._ready = self._ready[:count], self._ready[count:]
        return [one.group for one in taken]

    def heard(self, job: Job, ended: int) -> None:
        """So many episodes of a job have ended: their places are free."""
        job.playing = job.asked.n - ended
        self._begin()

    def _due(self) -> bool:
        """A group that was begun anew too often would be too old, or of two versions, after this step."""
        last = self.version - (0 if self._single else self.bound)
        return any(job.restarts >= self._max_restarts and job.begun_at <= last for job in self._running.values())

    def advance(self, version: int) -> None:
        """Another version is current: what would be too old from now on is begun anew."""
        self.version = version
        for task, job in list(self._running.items()):
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
        self._waiting.appendleft(job)

    def _begin(self) -> None:
        playing = sum(job.playing for job in self._running.values())
        # A group that is larger than the limit is played all the same, alone.
        while self._waiting and (not self._limit or not playing or playing + self._waiting[0].asked.n <= self._limit):
            job = self._waiting.popleft()
            job.begun_at, job.playing = self.version, job.asked.n
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
        """Gives up what is under way."""
        tasks = list(self._running)
        self._running.clear()
        self._waiting.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
