"""Sentence vectors of passages and questions, from datafetch, which holds the encoder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import FathomError
from fathom.services.memory.segments.meaning import Floats, Origin, list_parallel

# What one request takes.
MAX_TEXTS, MAX_CHARS = 64, 8_000


@dataclass(frozen=True)
class Encoded:
    """Unit vectors [texts, dim] of an encoder, where it puts any text, and the catalog's ids that each text names."""

    encoder: str
    vectors: Floats
    origin: Origin
    names: Sequence[Sequence[str]]


class Vectors(Protocol):
    """Source of sentence vectors."""

    async def encode(self, texts: Sequence[str]) -> Encoded | None:
        """Return the vectors of texts; None where no encoder answers in time."""
        ...


class NoVectors:
    """Source for installations without an encoder."""

    async def encode(self, texts: Sequence[str]) -> Encoded | None:
        """Return None."""
        return None


class DatafetchVectors:
    """Vectors by datafetch's ``EncodeTexts``."""

    def __init__(self, clients: Clients, timeout_s: float, report: Callable[[FathomError], None]) -> None:
        """Create the source; ``report`` is called with the error of each request without vectors."""
        self._clients, self._timeout_s, self._report = clients, timeout_s, report
        self._origin: tuple[str, Origin] | None = None

    async def encode(self, texts: Sequence[str]) -> Encoded | None:
        """Return the vectors of texts; None where datafetch has no encoder or does not answer in time."""
        # The first call also asks for the texts that an origin is found in.
        parallel = [] if self._origin else list_parallel()
        try:
            found = await self._encode([*parallel, *texts])
        except FathomError as error:
            self._report(error)
            return None
        if found is None:
            return None
        encoder, vectors, names = found
        if self._origin is None:
            self._origin = encoder, Origin.from_parallel(vectors[: len(parallel)])
        if self._origin[0] != encoder:
            # Another encoder since the last call: the next one begins anew.
            self._origin = None
            return None
        return Encoded(encoder, vectors[len(parallel) :], self._origin[1], names[len(parallel) :])

    async def _encode(self, texts: Sequence[str]) -> tuple[str, Floats, list[Sequence[str]]] | None:
        """Return the encoder with its vectors and names of any number of texts; None when it changed in between."""
        batches = [texts[start : start + MAX_TEXTS] for start in range(0, len(texts), MAX_TEXTS)]
        encode = self._clients.datafetch.encode_texts
        answers = await asyncio.gather(
            *(
                encode(
                    pb.EncodeTextsRequest(texts=[text[:MAX_CHARS] or "-" for text in batch], with_names=True),
                    timeout_s=self._timeout_s,
                )
                for batch in batches
            )
        )
        rows = [np.frombuffer(answer.vectors, "<f4").reshape(-1, max(1, answer.dim)) for answer in answers]
        if len({answer.encoder for answer in answers}) != 1 or sum(map(len, rows)) != len(texts):
            return None
        names: list[Sequence[str]] = [one.ids for answer in answers for one in answer.names]
        # A datafetch of before this field names nothing.
        return answers[0].encoder, np.concatenate(rows), names if len(names) == len(texts) else [()] * len(texts)
