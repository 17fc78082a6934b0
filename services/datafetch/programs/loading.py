"""Loading of the reader of programs in the background: the weights, the encoder and the vectors of all series."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from fathom.core.errors import FathomError
from fathom.domain.encoders.choose import Encoders
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.discovery.embeddings import available
from fathom.services.datafetch.discovery.query_vectors import QueryVectors
from fathom.services.datafetch.programs.catalogue import list_entries
from fathom.services.datafetch.programs.completing import Completer
from fathom.services.datafetch.programs.linking import Linker, load_vectors
from fathom.services.datafetch.programs.reader import ProgramReader, ReadingEncoder
from fathom.services.datafetch.programs.weights import FILE, load_weights
from fathom.services.datafetch.warehouse.database import Warehouse

LOG = logging.getLogger(__name__)


class ProgramLoader:
    """Loads one reader of programs, once, and the completer of its programs."""

    def __init__(
        self,
        config: Config,
        encoders: Encoders,
        layer: Layer,
        warehouse: Warehouse,
        queries: QueryVectors,
        path: Path = FILE,
    ) -> None:
        self._config, self._encoders, self._layer, self._warehouse = config, encoders, layer, warehouse
        self._queries, self._path = queries, path
        self._loading: asyncio.Task[ProgramReader | None] | None = None
        self._is_closed = False
        self.completer: Completer | None = None
        """Completes what the reader has read; here as soon as that is."""

    @property
    def is_done(self) -> bool:
        """Return whether loading ended, with a reader or without."""
        return self._loading is not None and self._loading.done()

    async def get(self, seconds: float) -> ProgramReader | None:
        """Return the reader; None where there is none, and when it is not loaded within some seconds."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        # Unlike wait_for this does not cancel the load at the timeout; later questions find it done.
        await asyncio.wait([self._loading], timeout=seconds)
        return self._loading.result() if self._loading.done() else None

    async def _load(self) -> ProgramReader | None:
        try:
            return await asyncio.to_thread(self.load)
        except (FathomError, InterruptedError) as error:
            LOG.warning("questions are not translated into programs: %s", error)
            return None

    def load(self) -> ProgramReader | None:
        """Return the reader; None without its weights, without an encoder, and with another one than theirs.

        Raises ``CorruptData`` for weights that do not fit, and what the encoder raises.
        """
        config = self._config
        if config.embedding == "off" or not self._path.exists():
            return None
        if config.embedding == "auto" and not available(config.encoder, config.models_dir):
            return None
        weights, encoder = load_weights(self._path), self._encoders(config.encoder)
        if encoder.name != weights.encoder or not isinstance(encoder, ReadingEncoder):
            return None
        entries = list_entries(self._layer, self._warehouse)
        if not entries:
            return None
        vectors = load_vectors(entries, encoder, config.models_dir / "vectors", lambda: self._is_closed)
        reader = ProgramReader(weights, encoder, Linker(entries, vectors), self._queries, self._layer)
        self.completer = Completer(entries, reader.resolve, self._layer)
        return reader

    async def close(self) -> None:
        """Stop a running load after its current batch and wait for it: a thread cannot be cancelled."""
        self._is_closed = True
        if self._loading is not None:
            await asyncio.wait([self._loading])
