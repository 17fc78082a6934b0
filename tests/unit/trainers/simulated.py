"""An event loop whose clock jumps: what sleeps wakes in order and at once, so that durations cost no time.

A simulation's figures then follow from its seed alone, whatever else the machine does.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from trainers.rollouts.bridge import cancel_all

T = TypeVar("T")


class Jumping(selectors.DefaultSelector):
    """Instead of waiting for ``timeout`` seconds it moves the clock on by as many."""

    now = 0.0
    threads = 0
    """Work outside the loop, which takes no simulated time and is waited for."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Raises ``RuntimeError`` where nothing would ever happen again."""
        if self.threads and timeout != 0:
            return super().select()
        if timeout is None:
            raise RuntimeError("simulated time has come to its end: everything waits and nothing sleeps")
        self.now += max(0.0, timeout)
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """``time()`` is what has been slept, in seconds."""

    def __init__(self) -> None:
        self._jumping = Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self._jumping.threads += 1
        future.add_done_callback(self._returned)
        return future

    def _returned(self, _: object) -> None:
        self._jumping.threads -= 1


class SimulatedBridge:
    """In place of ``trainers.rollouts.bridge.Bridge``: time passes only while the caller waits for ``call``.

    What the caller computes between two calls takes no time; ``sleep`` stands for it.
    """

    def __init__(self) -> None:
        self._loop = SimulatedLoop()

    def __enter__(self) -> SimulatedBridge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.call(cancel_all())
        self._loop.close()

    def now(self) -> float:
        return self._loop.time()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        raise NotImplementedError("nothing runs beside the caller here")

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def sleep(self, seconds: float) -> None:
        self.call(asyncio.sleep(seconds))
