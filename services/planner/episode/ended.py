"""Hand on episodes of a group that end about the same time together, so that one request grades them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")

# Enough to share a request to the grader, few enough that none waits long for the others.
TOGETHER = 16
# On a busy machine episodes end one by one. What their group has taken so far says how long is short for it.
WAITED_SHARE, MAX_WAITED_S = 0.1, 1.0


class EndedTasks(Generic[T]):
    """Tasks in the order in which they end, several at once.

    Fewer than ``TOGETHER`` wait for others a tenth of the time since the tasks began, at most a second. The last ones
    wait for nothing, nor does a task that is alone: all of a group are never later for it.
    """

    def __init__(self, tasks: Sequence[asyncio.Task[T]]) -> None:
        """Watch tasks that have just been created."""
        self.left = len(tasks)
        """Number of tasks that were not taken yet."""
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._ended: deque[asyncio.Task[T]] = deque()
        self._any, self._enough = asyncio.Event(), asyncio.Event()
        for task in tasks:
            task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[T]) -> None:
        self._ended.append(task)
        self._any.set()
        # One wake-up for all of them: each passes every coroutine above the one that waits.
        if len(self._ended) >= min(TOGETHER, self.left):
            self._enough.set()

    async def take(self) -> list[asyncio.Task[T]]:
        """Return the next tasks that have ended, once there is one; call it only while some are ``left``."""
        await self._any.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(min((self._clock() - self._began) * WAITED_SHARE, MAX_WAITED_S)):
                await self._enough.wait()
        taken = [self._ended.popleft() for _ in range(min(TOGETHER, len(self._ended)))]
        self.left -= len(taken)
        if not self._ended:
            self._any.clear()
        if len(self._ended) < min(TOGETHER, self.left):
            self._enough.clear()
        return taken
