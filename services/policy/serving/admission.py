"""Admission control of a model: a token budget, priority lanes, and load shedding with a retry delay.

A generation reserves the sum of its prompt and its largest completion, an upper bound of its key-value cache.
Interactive requests come before evaluation, evaluation before training; every ``OLDEST_EVERY``-th turn goes to the
request that has waited longest. Running generations are not preempted.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from fathom.core.call import Lane
from fathom.core.errors import Overloaded
from fathom.services.policy.metrics import PolicyMetrics

ORDER = (Lane.INTERACTIVE, Lane.EVALUATION, Lane.TRAINING)
# A tenth of the turns: training progresses under constant interactive load, which loses little by it. Strict priority
# would starve it.
OLDEST_EVERY = 10
# Shorter delays only cause another refusal; longer ones would outlast most bursts.
MIN_RETRY_S, MAX_RETRY_S = 0.5, 30.0
# Weight of the latest generation in the moving average of durations: about the last five count.
SMOOTHING = 0.2


@dataclass(frozen=True)
class Limits:
    """Limits of one model: running generations, waiting generations, and tokens reserved by the running ones."""

    running: int
    waiting: int
    tokens: int


@dataclass(eq=False)
class Turn:
    """A queued generation; shedding it sets an exception on ``granted``."""

    lane: Lane
    tokens: int
    since: float
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Admission:
    """Admission queue of one model, shared by all its versions. ``pause`` stops admissions, not running generations."""

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
    def is_paused(self) -> bool:
        return self._paused

    @property
    def running(self) -> int:
        """Return the number of generations admitted and not finished."""
        return self._running

    @property
    def tokens(self) -> int:
        """Return the number of tokens that running generations have reserved."""
        return self._tokens

    @property
    def waiting(self) -> Mapping[Lane, int]:
        """Return the number of queued generations by lane."""
        return {lane: len(queue) for lane, queue in self._queues.items()}

    def pause(self, resume_after_s: float | None = None) -> None:
        """Queue new generations from now on.

        Resume automatically after ``resume_after_s`` seconds unless that is None.
        """
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

    async def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait at most ``timeout_s`` seconds until nothing runs; return whether the model is idle."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        return not self._running

    @asynccontextmanager
    async def admit(self, lane: Lane, tokens: int) -> AsyncIterator[None]:
        """Wait for a turn and reserve ``tokens`` inside the block.

        Raise ``Overloaded`` with a delay when the queue is full. A generation larger than the whole token limit is
        admitted when nothing else runs.
        """
        # A generation larger than the whole limit would never fit; capped, it is admitted when nothing else runs.
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
        except BaseException:  # cancellation included: a turn must not be lost with its caller
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
        """Return whether the queue has no room for a request of ``lane``.

        Sheds a queued request of a later lane if needed.
        """
        waiting = sum(map(len, self._queues.values()))
        # With `waiting: 0` a free place may still be taken at once: the queue is then only passed through.
        if waiting < self._limits.waiting or (self._fits(1) and not waiting):
            return False
        # The least important lane loses first, and within it the newest request, which has waited least.
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
        """Estimate the seconds until admission from the queue ahead and the duration of recent generations."""
        # Only requests of lanes up to its own come before it; the estimate assumes that `running` of them run at a
        # time.
        ahead = sum(len(self._queues[earlier]) for earlier in ORDER[: ORDER.index(lane) + 1])
        return round(min(MAX_RETRY_S, max(MIN_RETRY_S, self._seconds * (1 + ahead / self._limits.running))), 3)

    def _fits(self, tokens: int) -> bool:
        if self._paused or self._running >= self._limits.running:
            return False
        return self._tokens + tokens <= self._limits.tokens

    def _next(self) -> deque[Turn] | None:
        """Return the queue to serve next, or None."""
        filled = [queue for queue in self._queues.values() if queue]
        if not filled:
            return None
        if (self._turns + 1) % OLDEST_EVERY == 0:
            return min(filled, key=lambda queue: queue[0].since)
        return filled[0]

    def _grant(self) -> None:
        # Only the head of a queue is considered: a large request that does not fit yet must not be overtaken by small
        # ones behind it, or it would wait forever.
        while (queue := self._next()) is not None and self._fits(queue[0].tokens):
            turn = queue.popleft()
            # Its caller was cancelled in the same step of the event loop and has not removed the turn yet.
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
