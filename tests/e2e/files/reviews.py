"""The real queues of review behind the gateway's double of memory, in a database that is made at the first call."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from fathom.services.memory.engine import Engine
from fathom.services.memory.reviews.servicer import ReviewServicer

RPCS = tuple(name for name in vars(ReviewServicer) if name[0].isupper())


class ReplayReviews:
    """Opens a SQLite file when it is first asked; most tests never do."""

    def __init__(self) -> None:
        self._opening = asyncio.Lock()
        self._engine: Engine | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    async def open(self) -> ReviewServicer:
        """Return the servicer of the queues."""
        async with self._opening:
            if self._engine is None:
                self._folder = tempfile.TemporaryDirectory()
                self._engine = Engine(Path(self._folder.name) / "memory.sqlite3")
                await self._engine.start()
        return ReviewServicer(self._engine.reviews)

    async def close(self) -> None:
        """Close the database and delete it."""
        if self._engine is not None and self._folder is not None:
            await self._engine.close()
            self._folder.cleanup()
