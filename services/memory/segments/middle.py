"""The middle-term memory of the service: searches, and the steps of its background: filing, summaries, vectors."""

from __future__ import annotations

import time
from collections.abc import Callable

from fathom.core.call import current_principal, current_tenant
from fathom.core.errors import FathomError
from fathom.services.memory.database import Database
from fathom.services.memory.segments import storage
from fathom.services.memory.segments.filing import Bounds, Filer
from fathom.services.memory.segments.searching import Found, Searcher, Wanted
from fathom.services.memory.segments.storage import Owner
from fathom.services.memory.segments.summarising import Summariser, Writer
from fathom.services.memory.segments.vectors import NoVectors, Vectors

# Of one round; whoever is left comes in the next one, which begins at once.
OWNERS_AT_ONCE = 16


class MiddleTerm:
    """Middle-term memory on the service's database, which is to be open."""

    def __init__(
        self,
        database: Database,
        vectors: Vectors | None = None,
        writer: Writer | None = None,
        bounds: Bounds | None = None,
        report: Callable[[FathomError], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the memory; without ``vectors`` it recalls by words, without a writer it chooses sentences."""
        self._database = database
        vectors = vectors or NoVectors()
        self._filer = Filer(database, vectors, bounds or Bounds(), clock)
        self._searcher = Searcher(database, vectors, self._filer, clock)
        self._summariser = Summariser(database, writer, report)

    async def search(self, wanted: Wanted) -> Found:
        """Return the caller's turns that fit a question best; raise ``InvalidField``."""
        return await self._searcher.search(Owner(current_tenant(), current_principal()), wanted)

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
