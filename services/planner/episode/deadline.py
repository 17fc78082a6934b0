"""Lifetime of an episode: it runs until it finishes, is stopped, or reaches its deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from fathom.core.errors import NON_RETRYABLE, FathomError, is_retryable
from fathom.services.planner.episode.fence import LeaseLost
from fathom.services.planner.model.episode import Outcome, Shortfall, StopReason
from fathom.services.planner.model.waits import Waits, make_counting_context


class Lifetime:
    """Stop signal and deadline of one episode; collected results survive an early end.

    The deadline does not approach while the episode waits for services that are away or full.
    """

    def __init__(self, waits: Waits | None = None, extend: Callable[[float], None] = lambda seconds: None) -> None:
        """Create the lifetime; ``extend`` is called with the seconds by which ``waits`` have moved the deadline."""
        self._is_stopped = False
        self._stopping: asyncio.Future[None] | None = None
        self._waits, self._extend = waits or Waits(), extend

    def stop(self) -> None:
        """Request the end of the episode and cancel the call in flight."""
        self._is_stopped = True
        if self._stopping is not None and not self._stopping.done():
            self._stopping.set_result(None)

    async def run(
        self, work: Callable[[], Coroutine[Any, Any, Outcome]], deadline: float, waiting_for: Callable[[], str]
    ) -> Outcome:
        """Run ``work`` until it ends, is stopped, or reaches the deadline.

        Raises no ``FathomError`` except ``LeaseLost``. ``deadline`` is in seconds of the monotonic clock;
        ``waiting_for`` returns the active service or tool, "" for none.
        """
        try:
            # A deadline that has passed in the queue still enters, so that the end is reported in one way.
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())) as limit:
                self._waits.listen(partial(self._move, limit, limit.when() or 0.0))
                return await self._run_until_stopped(work)
        except TimeoutError as error:
            if not limit.expired():  # a timeout inside the work: the run had time left
                culprit = waiting_for() or "planner"
                detail = f"{type(error).__name__}: {error}".rstrip(": ")
                return Outcome(StopReason.FAILED, None, f"{culprit} failed inside with {detail}", culprit)
            culprit = waiting_for() or "policy"
            why = f"the time for this run was spent, waiting for {culprit}"
            return Outcome(StopReason.BUDGET, None, why, culprit, shortfall=Shortfall.TIME)
        except LeaseLost:
            raise  # no end of this run: it goes on elsewhere
        except FathomError as error:
            culprit = error.metadata.get("culprit", waiting_for())
            # Rollouts end a task at once for such a code and try again for any other.
            code = error.code if error.code in NON_RETRYABLE else ""
            return Outcome(
                StopReason.FAILED,
                None,
                f"{culprit}: {error.message}" if culprit else error.message,
                culprit,
                code,
                is_house_failure=is_retryable(error),
            )

    def _move(self, limit: asyncio.Timeout, deadline: float, is_waiting: bool, seconds: float) -> None:
        """Suspend the deadline while a call waits; afterwards it is later by as many seconds."""
        if limit.expired():
            return
        limit.reschedule(None if is_waiting else deadline + self._waits.seconds)
        if seconds:
            self._extend(seconds)

    async def _run_until_stopped(self, work: Callable[[], Coroutine[Any, Any, Outcome]]) -> Outcome:
        loop = asyncio.get_running_loop()
        running = loop.create_task(work(), context=make_counting_context(self._waits))
        # A future and no task that waits: almost every episode ends without a stop.
        self._stopping = loop.create_future()
        if self._is_stopped:
            self._stopping.set_result(None)
        try:
            either: set[asyncio.Future[Any]] = {running, self._stopping}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return running.result() if running.done() else Outcome(StopReason.STOPPED)
        finally:
            # Awaited after cancelling: calls in flight close their streams before the resources go.
            if not running.done():
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
