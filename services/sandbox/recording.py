"""Recorded events of one execution, held by the supervisor so that a repeated request sees them again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from services.sandbox.events import Display, Event, Gap, Outcome, Output


class Recording:
    """Events of one cell, which grow while it runs, with or without viewers."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.size_bytes = 0
        self.viewers = 0
        self.done = False
        self._events: list[Event] = []
        self._error: Exception | None = None
        self._news = asyncio.Event()

    def add(self, event: Event) -> None:
        """Append an event; an ``Outcome`` closes the recording."""
        self._events.append(event)
        self.size_bytes += weight(event)
        if isinstance(event, Outcome):
            self.done = True
        self._tell()

    def fail(self, error: Exception) -> None:
        """Close the recording of a cell that was never started; ``events`` raises the error."""
        self._error, self.done = error, True
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield all events up to the outcome, waiting for those to come; raise the error given to ``fail``."""
        position = 0
        while True:
            while position < len(self._events):
                yield self._events[position]
                position += 1
            if self._error is not None:
                raise self._error
            if self.done:
                return
            await self._news.wait()


def weight(event: Event) -> int:
    """Return the approximate size of an event in bytes."""
    if isinstance(event, Display):
        return len(event.data)
    if isinstance(event, Output):
        return len(event.text)
    if isinstance(event, Gap):
        return 0
    return len(event.result) + len(event.traceback) + len(event.error_value)
