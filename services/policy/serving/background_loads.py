"""Activations that outlast the calls that began them: a caller asks again instead of waiting in one long call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from fathom.core.errors import NotReady
from fathom.services.policy.serving.model_versions import RETRY_WHILE_LOADING_S

R = TypeVar("R")


class BackgroundLoads:
    """Activations under way and, until they are asked for, their outcomes; one per key."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[object]] = {}

    async def join(self, key: Hashable, activate: Callable[[], Awaitable[R]], wait_s: float) -> R:
        """Begin the activation of ``key``, or join the one under way; return its outcome if it ends in ``wait_s``.

        Raises what the activation raises, and ``NotReady`` while it goes on.
        """
        task = self._tasks.get(key)
        if task is None:
            # Outcomes that nobody asked for any more, after a caller that died.
            self._tasks = {known: one for known, one in self._tasks.items() if not one.done()}
            task = self._tasks[key] = asyncio.create_task(run(activate), name=f"loading {key}")
        # Only watched: the work is not this caller's, whose cancellation must not end it.
        await asyncio.wait({task}, timeout=wait_s)
        if not task.done():
            raise NotReady("the weights are being loaded: ask again", retry_after_s=RETRY_WHILE_LOADING_S)
        # Asked for once: a failure is not remembered for ever, and the next call begins anew.
        if self._tasks.get(key) is task:
            del self._tasks[key]
        found: R = task.result()  # type: ignore[assignment]
        return found

    async def close(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()


async def run(activate: Callable[[], Awaitable[R]]) -> R:
    """Await an activation as a coroutine of its own."""
    return await activate()
