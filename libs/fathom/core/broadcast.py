"""A growing list that any number of readers follow from its first item, while it grows and after its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Generic, TypeVar

T = TypeVar("T")


class Broadcast(Generic[T]):
    """Items of one producer, kept for readers that come late. For one event loop; the owner bounds the items."""

    def __init__(self) -> None:
        self._items: list[T] = []
        self._error: Exception | None = None
        self._changed = asyncio.Event()
        self.is_closed = False

    @property
    def error(self) -> Exception | None:
        """The error it was closed with."""
        return self._error

    def add(self, item: T) -> None:
        """Append an item."""
        self._items.append(item)
        self._wake()

    def close(self, error: Exception | None = None) -> None:
        """End the list, with the error that readers get after its items; only the first call counts."""
        if not self.is_closed:
            self.is_closed, self._error = True, error
            self._wake()

    def _wake(self) -> None:
        # A new event for those who wait next: clearing this one could leave a reader that has not run yet asleep.
        self._changed.set()
        self._changed = asyncio.Event()

    async def read(self) -> AsyncGenerator[T, None]:
        """Yield all items, waiting for those to come; raise the error of ``close`` after the last one."""
        position = 0
        while True:
            while position < len(self._items):
                yield self._items[position]
                position += 1
            if self._error is not None:
                raise self._error
            if self.is_closed:
                return
            await self._changed.wait()
