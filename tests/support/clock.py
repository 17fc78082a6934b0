"""Clocks that tests move themselves: a settable one, and an event loop whose time costs none."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from fathom.trainers.rollouts.loop_thread import cancel_all

T = TypeVar("T")


class Clock:
    """A clock in seconds that moves only when ``now`` is set; pass it where the product takes ``clock``."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Jumping(selectors.DefaultSelector):
    """Instead of waiting for ``timeout`` seconds it moves the clock on by as many."""

    now = 0.0
    threads = 0
    """Work outside the loop, which takes no simulated time and is waited for."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Raises ``RuntimeError`` where nothing would ever happen again."""
        # A thread answers in real time: the clock stands still until it has, so that its work takes none.
        if self.threads and timeout != 0:
            return super().select()
        # No timer is set and no thread is at work: a real loop would now wait for ever.
        if timeout is None:
            raise RuntimeError("simulated time has come to its end: everything waits and nothing sleeps")
        # Real input is looked at as well, without waiting for it: threads wake the loop through a socket.
        self.now += max(0.0, timeout)
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Run timers in order and at once; ``time()`` is the simulated time, in seconds from 0.

    What a test sees then depends on durations alone, whatever else the machine does. Real sockets and processes have
    no place in it: time would pass them by.
    """

    def __init__(self) -> None:
        self._jumping = Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self._jumping.threads += 1
        # Counted down in the loop, by a callback of its own future: in the thread it could fall between two looks.
        future.add_done_callback(self._note_return)
        return future

    def _note_return(self, _: object) -> None:
        self._jumping.threads -= 1


def simulate_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in a ``SimulatedLoop``. Its fixtures must not be async: those have another loop."""

    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            runner.run(test(*args, **named))

    return run


def loop_time() -> float:
    """Return the running loop's time: simulated in a ``SimulatedLoop``, else ``time.monotonic()``."""
    return asyncio.get_running_loop().time()


async def pass_time(seconds: float) -> None:
    """Let simulated time pass, also for everything else; raise ``RuntimeError`` in a loop of real time."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, SimulatedLoop):
        raise RuntimeError("time can be simulated in a SimulatedLoop only")
    passed = loop.create_future()
    timer = loop.call_later(seconds, passed.set_result, None)
    try:
        await passed
    finally:
        timer.cancel()


class SimulatedLoopThread:
    """In place of ``fathom.trainers.rollouts.loop_thread.LoopThread``: time passes only while the caller waits for ``call``.

    What the caller computes between two calls takes no time; ``pass_time`` stands for it.
    """

    def __init__(self) -> None:
        self._loop = SimulatedLoop()

    def __enter__(self) -> SimulatedLoopThread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What the test left running ends here, as it does when the real thread stops.
        self.call(cancel_all())
        self._loop.close()

    def now(self) -> float:
        return self._loop.time()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        raise NotImplementedError("nothing runs beside the caller here")

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def pass_time(self, seconds: float) -> None:
        self.call(pass_time(seconds))
