"""Batching of jobs across requests: while one batch runs, the next one collects.

An idle batcher starts at once, so that a lone request never waits; under load batches grow by themselves. Between two
batches it pauses for a small fraction of a batch's duration, or until as many jobs wait as the last batch had: callers
that were just answered send their next request and join.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fathom.core.admission import Claimant, LaneQueue, Turn
from fathom.core.errors import Overloaded

J = TypeVar("J")
R = TypeVar("R")
RETRY_AFTER_S = 0.2
# A tenth of a batch's time costs little latency and lets callers that were just answered join; 20 ms bound it for slow
# batches.
PAUSE_SHARE, LONGEST_PAUSE_S = 0.1, 0.02


@dataclass(eq=False, kw_only=True)
class Queued(Turn):
    """A queued job, whose result is that of ``granted``."""

    job: Any


class Batcher(Generic[J, R]):
    """Runs ``work`` on lists of jobs in its own threads; results are aligned with the jobs.

    If ``work`` raises, all jobs of its batch fail with that error.
    """

    def __init__(
        self, name: str, work: Callable[[Sequence[J]], Sequence[R]], size: int, queue: int, threads: int = 1
    ) -> None:
        self._work, self._size, self._limit, self._threads = work, size, queue, threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._waiting = LaneQueue()
        self._running: set[asyncio.Task[None]] = set()
        self._draining = 0
        self._expected, self._gathered = 0, asyncio.Event()
        self.batches = self.jobs = self.refused = 0

    @property
    def waiting(self) -> int:
        """Return the number of jobs that are not in a batch yet."""
        return len(self._waiting)

    async def __call__(self, job: J) -> R:
        """Return the job's result; raise ``Overloaded`` when the queue is full, and the errors of ``work``.

        Jobs of people come before those of trainings, which give up their places in a full queue.
        """
        claimant = Claimant.current()
        if len(self._waiting) >= self._limit:
            self.refused += 1
            full = Overloaded(f"{len(self._waiting):,} queries are waiting", RETRY_AFTER_S)
            if (dropped := self._waiting.make_room(claimant)) is None:
                raise full
            dropped.granted.set_exception(full)
        turn = Queued(claimant, 1, asyncio.get_running_loop().time(), job=job)
        self._waiting.push(turn)
        if len(self._waiting) >= self._expected:
            self._gathered.set()
        # One task per thread at most: it takes batches until nobody waits.
        if self._draining < self._threads:
            self._draining += 1
            task = asyncio.create_task(self._drain())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        try:
            found: R = await turn.granted
        finally:
            # A caller that went away must leave no trace in the queue.
            self._waiting.remove(turn)
        return found

    async def _drain(self) -> None:
        # Counted down in the same step that finds nothing: a task that is done, but not yet known to be, would leave
        # who comes in between waiting for ever.
        try:
            await self._drain_all()
        finally:
            self._draining -= 1

    async def _drain_all(self) -> None:
        pause = 0.0  # one turn of the loop: what arrives together runs together
        while True:
            await self._gather(pause)
            if not (batch := self._next()):
                return
            began = time.perf_counter()
            self.batches, self.jobs = self.batches + 1, self.jobs + len(batch)
            try:
                results = await asyncio.get_running_loop().run_in_executor(
                    self._pool, self._work, [turn.job for turn in batch]
                )
            except Exception as error:  # its callers get it, and the batcher goes on
                for turn in batch:
                    if not turn.granted.done():
                        turn.granted.set_exception(error)
                pause = 0.0
                continue
            # As many as were just served are likely to come back.
            self._expected = min(len(batch) + len(self._waiting), self._size)
            pause = min(PAUSE_SHARE * (time.perf_counter() - began), LONGEST_PAUSE_S) if self._expected > 1 else 0.0
            for turn, result in zip(batch, results, strict=True):
                if not turn.granted.done():
                    turn.granted.set_result(result)

    async def _gather(self, longest_s: float) -> None:
        """Wait for the expected number of jobs, at most ``longest_s`` and at least one turn of the event loop."""
        await asyncio.sleep(0)
        if longest_s and len(self._waiting) < self._expected:
            self._gathered.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(longest_s):
                    await self._gathered.wait()

    def _next(self) -> list[Queued]:
        """Return the next batch, without jobs whose caller is gone."""
        batch: list[Queued] = []
        while len(batch) < self._size and (turn := self._waiting.next()) is not None:
            self._waiting.pop(turn)
            if isinstance(turn, Queued) and not turn.granted.done():
                batch.append(turn)
        return batch

    async def close(self) -> None:
        """Cancel waiting jobs and free the threads."""
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        while (turn := self._waiting.next()) is not None:
            self._waiting.remove(turn)
            turn.granted.cancel()
        # Not waited for: a batch in its thread cannot be stopped and would hold up the shutdown.
        self._pool.shutdown(wait=False, cancel_futures=True)
