"""Background work of the service, in rounds: when something was appended, and every so often for what others left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from fathom.core.call import Call, calling
from fathom.core.errors import FathomError
from fathom.core.retry import run_round
from fathom.core.telemetry import make_traceparent

# Turns of other replicas, and those that were appended when one was lost, are found at the next round.
ROUND_S = 20.0


class Rounds:
    """Runs steps, each of which does a part of its work and returns how much that was."""

    def __init__(self, steps: Sequence[Callable[[], Awaitable[int]]], report: Callable[[FathomError], None]) -> None:
        """Create the rounds; ``report`` is called with the error of a step, which is tried again in the next round."""
        self._steps, self._report = steps, report
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def nudge(self) -> None:
        """Let the next round begin at once."""
        self._wake.set()

    async def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._work(), name="memory's rounds")

    async def close(self) -> None:
        """End; what is left is done at the next start, or by another replica."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _work(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(ROUND_S):
                    await self._wake.wait()
            self._wake.clear()
            for step in self._steps:
                await self._run(step)

    async def _run(self, step: Callable[[], Awaitable[int]]) -> None:
        # Work for later belongs to no question, and would be a trace of its own with each round.
        with calling(Call.new(traceparent=make_traceparent(is_sampled=False))):
            done = await run_round(step, self._report)
        # What is left comes in the next round, which then begins at once.
        if done:
            self._wake.set()
