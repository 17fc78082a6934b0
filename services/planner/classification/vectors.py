"""Sentence vectors from datafetch, which holds the encoder; the planner loads no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.cache import BoundedCache
from fathom.core.errors import FathomError, NotFound, NotImplementedYet
from fathom.core.ids import sha256

# Questions come again within a run: its route, its guard, its plan. A vector of 384 numbers takes 1.5 KB.
CACHE_BYTES, CACHE_S = 4 << 20, 3_600.0
MAX_TEXTS, MAX_CHARS = 64, 8_000


@dataclass(frozen=True)
class Encoded:
    """Vectors [texts, dim] of the encoder of that name."""

    encoder: str
    vectors: NDArray[np.float32]


class Vectors(Protocol):
    """Source of sentence vectors."""

    async def encode(self, texts: Sequence[str]) -> Encoded | None:
        """Return the vectors of texts; None where no encoder answers in time."""
        ...


class DatafetchVectors:
    """Vectors by datafetch's ``EncodeTexts``, cached by text."""

    def __init__(self, clients: Clients, timeout_s: float, report: Callable[[FathomError], None]) -> None:
        """Create the source; ``report`` is called with the error of each request without vectors."""
        self._clients, self._timeout_s, self._report = clients, timeout_s, report
        self.is_absent = False
        """True once datafetch has said that it has no encoder."""
        self._cache = BoundedCache[str, Encoded](max_entries=4_096, max_bytes=CACHE_BYTES, ttl_s=CACHE_S)

    async def encode(self, texts: Sequence[str]) -> Encoded | None:
        """Return the vectors of 1 to 64 texts; None where datafetch has no encoder or does not answer in time."""
        keys = [sha256(text.encode()) for text in texts]
        held = [self._cache.get(key) for key in keys]
        lacking = [place for place, one in enumerate(held) if one is None]
        if lacking:
            request = pb.EncodeTextsRequest(texts=[texts[place][:MAX_CHARS] for place in lacking[:MAX_TEXTS]])
            try:
                response = await self._clients.datafetch.encode_texts(request, timeout_s=self._timeout_s)
            except FathomError as error:
                self.is_absent = isinstance(error, NotFound | NotImplementedYet)
                self._report(error)
                return None
            rows = np.frombuffer(response.vectors, "<f4").reshape(-1, max(1, response.dim))
            for place, row in zip(lacking, rows, strict=False):
                held[place] = Encoded(response.encoder, row)
                self._cache.put(keys[place], Encoded(response.encoder, row), row.nbytes + len(keys[place]))
        found = [one for one in held if one is not None]
        # Another encoder since the cached ones, or more texts than one request takes.
        if len(found) < len(texts) or len({one.encoder for one in found}) > 1:
            return None
        return Encoded(found[0].encoder, np.stack([one.vectors for one in found]))
