"""Time that an episode spends waiting for the services' capacity, which does not count towards its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context


class Waits:
    """Union of the intervals in which calls of one episode waited; times are the running loop's, in seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Seconds waited so far, without the waits that are not over."""
        self._open, self._covered_until = 0, 0.0
        self._hear: Callable[[bool, float], None] = lambda is_waiting, seconds: None

    def listen(self, hear: Callable[[bool, float], None]) -> None:
        """Call ``hear`` at each change, with whether a call waits now and the seconds waited since the last change."""
        self._hear = hear

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time inside the block as waited."""
        started = asyncio.get_running_loop().time()
        self._open += 1
        if self._open == 1:
            self._hear(True, 0.0)
        try:
            yield
        finally:
            self._open -= 1
            self.cover(started)

    def cover(self, started: float) -> None:
        """Count the time since ``started`` as waited, e.g. that of an attempt which failed."""
        now = asyncio.get_running_loop().time()
        # Calls of a round overlap: what one of them has waited for is not counted again for another.
        waited = max(0.0, now - max(started, self._covered_until))
        self._covered_until = now
        self.seconds += waited
        self._hear(self._open > 0, waited)


# A context variable, as the current call is: completions are asked for by code that knows nothing of the episode.
_current: ContextVar[Waits | None] = ContextVar("fathom_waits", default=None)


def current_waits() -> Waits:
    """Return the waits of the episode that is being played; outside of one, waits that nobody counts."""
    return _current.get() or Waits()


def make_counting_context(waits: Waits) -> Context:
    """Return a copy of the current context for a task whose waits are ``waits``."""
    context = copy_context()
    context.run(_current.set, waits)
    return context
