"""Event loop in a background thread, for synchronous training loops that use asynchronous clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines on an event loop in a background thread; use it as a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon: a training that ends by an exception before __exit__ must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="rollouts", daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def __enter__(self) -> LoopThread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # While the loop still runs: a task that is only dropped with it never executes its cleanup.
        self.call(cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Schedule the coroutine and return its future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine and return its result.

        An exception in the waiting thread (e.g. an interrupt) cancels it.
        """
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            # KeyboardInterrupt too: the coroutine runs in another thread, which the signal does not reach.
            future.cancel()
            raise


async def cancel_all() -> None:
    """Cancel every other task of the running loop and wait for them to end."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
