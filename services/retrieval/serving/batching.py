"""Batching of jobs across requests: while one batch runs, the next one collects.

An idle batcher starts at once, so that a lone request never waits; under load batches grow by themselves. Between two
batches it pauses for a small fraction of a batch's duration, or until as many jobs wait as the last batch had: callers
that were just answered send their next request and join.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

from fathom.core.errors import Overloaded

J = TypeVar("J")
R = TypeVar("R")
RETRY_AFTER_S = 0.2
# A tenth of a batch's time costs little latency and lets callers that were just answered join; 20 ms bound it for slow
# batches.
PAUSE_SHARE, LONGEST_PAUSE_S = 0.1, 0.02


class Batcher(Generic[J, R]):
    """Runs ``work`` on lists of jobs in its own threads; results are aligned with the jobs.

    If ``work`` raises, all jobs of its batch fail with that error.
    """

    def __init__(
        self, name: str, work: Callable[[Sequence[J]], Sequence[R]], size: int, queue: int, threads: int = 1
    ) -> None:
        self._work, self._size, self._limit, self._threads = work, size, queue, threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._waiting: deque[tuple[J, asyncio.Future[R]]] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._draining = 0
        self._expected, self._gathered = 0, asyncio.Event()
        self.batches = self.jobs = self.refused = 0

    @property
    def waiting(self) -> int:
        """Return the number of jobs that are not in a batch yet."""
        return len(self._waiting)

    async def __call__(self, job: J) -> R:
        """Return the job's result; raise ``Overloaded`` when the queue is full, and the errors of ``work``."""
        if len(self._waiting) >= self._limit:
            self.refused += 1
            raise Overloaded(f"{len(self._waiting):,} queries are waiting", RETRY_AFTER_S)
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        if len(self._waiting) >= self._expected:
            self._gathered.set()
        # One task per thread at most: it takes batches until nobody waits.
        if self._draining < self._threads:
            self._draining += 1
            task = asyncio.create_task(self._drain())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return await future

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
                    self._pool, self._work, [job for job, _ in batch]
                )
            except Exception as error:  # its callers get it, and the batcher goes on
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                pause = 0.0
                continue
            # As many as were just served are likely to come back.
            self._expected = min(len(batch) + len(self._waiting), self._size)
            pause = min(PAUSE_SHARE * (time.perf_counter() - began), LONGEST_PAUSE_S) if self._expected > 1 else 0.0
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)

    async def _gather(self, longest_s: float) -> None:
        """Wait for the expected number of jobs, at most ``longest_s`` and at least one turn of the event loop."""
        await asyncio.sleep(0)
        if longest_s and len(self._waiting) < self._expected:
            self._gathered.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(longest_s):
                    await self._gathered.wait()

    def _next(self) -> list[tuple[J, asyncio.Future[R]]]:
        """Return the next batch, without jobs whose caller is gone."""
        batch: list[tuple[J, asyncio.Future[R]]] = []
        while self._waiting and len(batch) < self._size:
            job, future = self._waiting.popleft()
            if not future.done():
                batch.append((job, future))
        return batch

    async def close(self) -> None:
        """Cancel waiting jobs and free the threads."""
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for _, future in self._waiting:
            future.cancel()
        self._waiting.clear()
        # Not waited for: a batch in its thread cannot be stopped and would hold up the shutdown.
        self._pool.shutdown(wait=False, cancel_futures=True)
