"""The middle-term memory of the service: searches, and in the background filing, summaries and late vectors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from fathom.core.call import current_principal, current_tenant
from fathom.core.errors import FathomError
from fathom.services.memory.database import Database
from fathom.services.memory.segments import storage
from fathom.services.memory.segments.filing import Bounds, Filer
from fathom.services.memory.segments.searching import Found, Searcher, Wanted
from fathom.services.memory.segments.storage import Owner
from fathom.services.memory.segments.summarising import Summariser, Writer
from fathom.services.memory.segments.vectors import NoVectors, Vectors

# Turns of other replicas, and those that were appended when this one was lost, are found at the next round.
ROUND_S, OWNERS_AT_ONCE = 20.0, 16


@dataclass(frozen=True)
class Settings:
    """Bounds of each user's memory, and whether turns are filed in the background."""

    segments: int = 500
    bytes: int = 32 << 20
    in_background: bool = True


class MiddleTerm:
    """Middle-term memory on the service's database; ``start`` when that is open."""

    def __init__(
        self,
        database: Database,
        vectors: Vectors | None = None,
        writer: Writer | None = None,
        settings: Settings | None = None,
        report: Callable[[FathomError], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the memory; without ``vectors`` it recalls by words, without a writer it chooses sentences."""
        self._settings, self._report, self._database = settings or Settings(), report, database
        vectors = vectors or NoVectors()
        bounds = Bounds(self._settings.segments, self._settings.bytes)
        self._filer = Filer(database, vectors, bounds, clock)
        self._searcher = Searcher(database, vectors, self._filer, clock)
        self._summariser = Summariser(database, writer, report)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def search(self, wanted: Wanted) -> Found:
        """Return the caller's turns that fit a question best; raise ``InvalidField``."""
        return await self._searcher.search(Owner(current_tenant(), current_principal()), wanted)

    def nudge(self) -> None:
        """Let the background file what was appended."""
        self._wake.set()

    async def start(self) -> None:
        """Begin the background work."""
        if self._settings.in_background:
            self._task = asyncio.create_task(self._work(), name="middle-term memory")

    async def close(self) -> None:
        """End the background work; what it left is done at the next start, or by another replica."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _work(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(ROUND_S):
                    await self._wake.wait()
            self._wake.clear()
            for step in (self.file_all, self._summariser.summarise, self._filer.add_vectors):
                await self._run(step)

    async def _run(self, step: Callable[[], Awaitable[int]]) -> None:
        try:
            # What is left after a full round comes in the next one, which then begins at once.
            if await step():
                self._wake.set()
        except FathomError as error:
            self._report(error)

    async def file_all(self) -> int:
        """File waiting turns of some users; return how many there were."""
        owners = await self._database.run_transaction(lambda db: storage.list_owners(db, OWNERS_AT_ONCE))
        return sum([await self._filer.file_pending(owner) for owner in owners])

    async def summarise(self) -> int:
        """Summarise some segments that have grown; return their number."""
        return await self._summariser.summarise()

    async def add_vectors(self) -> int:
        """Give vectors to some pages that lack them; return their number."""
        return await self._filer.add_vectors()
