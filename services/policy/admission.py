"""Who may generate when: tokens in flight bounded, lanes in order, overload shed with a delay.

A generation reserves what its prompt and its completion may take together; that is what the key-value cache has
to hold. People come before benchmarks, benchmarks before training; every ``FLOOR``-th turn goes to whoever has
waited longest, so that training is slow under load and never stands still. Running generations are never ended.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from fathom.call import Lane
from fathom.errors import Overloaded
from services.policy.metrics import PolicyMetrics

ORDER = (Lane.INTERACTIVE, Lane.EVALUATION, Lane.TRAINING)
FLOOR = 10
MIN_RETRY_S, MAX_RETRY_S = 0.5, 30.0
SMOOTHING = 0.2


@dataclass(frozen=True)
class Limits:
    """Generations that run and that wait, and tokens that the running ones may hold together."""

    running: int
    waiting: int
    tokens: int


@dataclass(eq=False)
class Turn:
    """Somebody who waits; ``granted`` ends with an error when it is shed."""

    lane: Lane
    tokens: int
    since: float
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Admission:
    """The way in to one model, all its versions together. ``pause`` closes it, not the way out."""

    def __init__(self, model: str, limits: Limits, metrics: PolicyMetrics | None = None) -> None:
        self._model, self._limits, self._metrics = model, limits, metrics
        self._queues: dict[Lane, deque[Turn]] = {lane: deque() for lane in ORDER}
        self._turns, self._running, self._tokens = 0, 0, 0
        self._seconds = MIN_RETRY_S
        self._paused = False
        self._resume: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def paused(self) -> bool:
        return self._paused

    @property
    def running(self) -> int:
        """Generations that were let in and have not ended."""
        return self._running

    @property
    def tokens(self) -> int:
        """Tokens that they have reserved."""
        return self._tokens

    @property
    def waiting(self) -> Mapping[Lane, int]:
        """Generations that wait, by lane."""
        return {lane: len(queue) for lane, queue in self._queues.items()}

    def pause(self, resume_after_s: float | None = None) -> None:
        """New generations wait from now on; after ``resume_after_s`` seconds they are let in by themselves."""
        self._paused = True
        self._forget_resume()
        if resume_after_s is not None:
            self._resume = asyncio.get_running_loop().call_later(resume_after_s, self.resume)

    def resume(self) -> None:
        self._paused = False
        self._forget_resume()
        self._grant()

    def _forget_resume(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None

    async def drained(self, timeout_s: float) -> bool:
        """Waits until nothing runs, at most ``timeout_s`` seconds; says whether that is so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        return not self._running

    @asynccontextmanager
    async def entered(self, lane: Lane, tokens: int) -> AsyncIterator[None]:
        """Waits for its turn and holds ``tokens`` inside; raises ``Overloaded`` with a delay when it cannot wait.

        A generation that needs more than the limit is let in when nothing else runs.
        """
        reserved = min(max(tokens, 1), self._limits.tokens)
        await self._turn(lane, reserved)
        started = time.monotonic()
        try:
            yield
        finally:
            self._seconds += SMOOTHING * (time.monotonic() - started - self._seconds)
            self._leave(reserved)

    async def _turn(self, lane: Lane, tokens: int) -> None:
        turn = Turn(lane, tokens, time.monotonic())
        if not self._full_for(lane):
            self._queues[lane].append(turn)
        else:
            raise self._shed(lane)
        self._grant()
        self._show()
        try:
            await turn.granted
        except BaseException:
            if turn in self._queues[lane]:
                self._queues[lane].remove(turn)
            elif turn.granted.done() and not turn.granted.cancelled() and turn.granted.exception() is None:
                self._leave(tokens)  # it was let in at the very moment in which its caller went away
            self._grant()
            self._show()
            raise
        if self._metrics is not None:
            self._metrics.queue_seconds.labels(self._model, lane.value).observe(time.monotonic() - turn.since)

    def _full_for(self, lane: Lane) -> bool:
        """True when this one cannot wait. One of a later lane that waits makes room for it."""
        waiting = sum(map(len, self._queues.values()))
        if waiting < self._limits.waiting or (self._fits(1) and not waiting):
            return False
        for later in reversed(ORDER[ORDER.index(lane) + 1 :]):
            if self._queues[later]:
                self._queues[later].pop().granted.set_exception(self._shed(later))
                return False
        return True

    def _shed(self, lane: Lane) -> Overloaded:
        if self._metrics is not None:
            self._metrics.shed.labels(self._model, lane.value).inc()
        return Overloaded(
            f"model {self._model!r} has {self._running} generations with {self._tokens:,} tokens running and "
            f"{sum(map(len, self._queues.values()))} waiting",
            self._retry_after_s(lane),
        )

    def _retry_after_s(self, lane: Lane) -> float:
        """When a place should be free: those ahead, at the speed of the last ones."""
        ahead = sum(len(self._queues[earlier]) for earlier in ORDER[: ORDER.index(lane) + 1])
        return round(min(MAX_RETRY_S, max(MIN_RETRY_S, self._seconds * (1 + ahead / self._limits.running))), 3)

    def _fits(self, tokens: int) -> bool:
        if self._paused or self._running >= self._limits.running:
            return False
        return self._tokens + tokens <= self._limits.tokens

    def _next(self) -> deque[Turn] | None:
        """The queue whose first is next; a big one at its head is not overtaken by small ones behind it."""
        filled = [queue for queue in self._queues.values() if queue]
        if not filled:
            return None
        if (self._turns + 1) % FLOOR == 0:
            return min(filled, key=lambda queue: queue[0].since)
        return filled[0]

    def _grant(self) -> None:
        while (queue := self._next()) is not None and self._fits(queue[0].tokens):
            turn = queue.popleft()
            if turn.granted.done():
                continue
            self._turns += 1
            self._running += 1
            self._tokens += turn.tokens
            self._idle.clear()
            turn.granted.set_result(None)

    def _leave(self, tokens: int) -> None:
        self._running -= 1
        self._tokens -= tokens
        if not self._running:
            self._idle.set()
        self._grant()
        self._show()

    def _show(self) -> None:
        if self._metrics is None:
            return
        self._metrics.running.labels(self._model).set(self._running)
        self._metrics.tokens.labels(self._model).set(self._tokens)
        self._metrics.pressure.labels(self._model).set(self._tokens / self._limits.tokens)
        for lane, queue in self._queues.items():
            self._metrics.waiting.labels(self._model, lane.value).set(len(queue))
