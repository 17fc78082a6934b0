"""Recorded events of one execution, held by the supervisor so that a repeated request sees them again."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from fathom.core.broadcast import Broadcast
from fathom.services.sandbox.supervisor.events import Display, Event, Gap, Outcome, Output


class Recording:
    """Events of one cell, which grow while it runs, with or without viewers."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.size_bytes = 0
        self.viewers = 0
        self._events = Broadcast[Event]()

    @property
    def is_done(self) -> bool:
        return self._events.is_closed

    def add(self, event: Event) -> None:
        """Append an event; an ``Outcome`` closes the recording."""
        self._events.add(event)
        self.size_bytes += measure_event(event)
        if isinstance(event, Outcome):
            self._events.close()

    def fail(self, error: Exception) -> None:
        """Close the recording of a cell that was never started; ``events`` raises the error."""
        self._events.close(error)

    def events(self) -> AsyncGenerator[Event, None]:
        """Yield all events up to the outcome, waiting for those to come; raise the error given to ``fail``."""
        return self._events.read()


def measure_event(event: Event) -> int:
    """Return the approximate size of an event in bytes."""
    if isinstance(event, Display):
        return len(event.data)
    # Characters instead of bytes: near enough for a bound on memory, and nothing is encoded for it.
    if isinstance(event, Output):
        return len(event.text)
    if isinstance(event, Gap):
        return 0
    return len(event.result) + len(event.traceback) + len(event.error_value)
