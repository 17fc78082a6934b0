"""Sentence vectors of passages and questions, from datafetch, which holds the encoder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import FathomError

Floats = NDArray[np.float32]
# What one request takes.
MAX_TEXTS, MAX_CHARS = 64, 8_000
# About nothing that is asked here: how near an encoder puts sentences that have nothing in common.
UNRELATED = ("The train leaves at noon.", "She painted the fence green.", "猫在窗台上睡觉。", "他昨天买了一把雨伞。")


@dataclass(frozen=True)
class Encoded:
    """Unit vectors [texts, dim] of an encoder, and its vectors of unrelated sentences [n, dim]."""

    encoder: str
    vectors: Floats
    unrelated: Floats


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
        self._unrelated: tuple[str, Floats] | None = None

    async def encode(self, texts: Sequence[str]) -> Encoded | None:
        """Return the vectors of texts; None where datafetch has no encoder or does not answer in time."""
        try:
            found = await self._encode([*texts] if self._unrelated else [*UNRELATED, *texts])
        except FathomError as error:
            self._report(error)
            return None
        if found is None:
            return None
        encoder, vectors = found
        if self._unrelated is None:
            self._unrelated, vectors = (encoder, vectors[: len(UNRELATED)]), vectors[len(UNRELATED) :]
        if self._unrelated[0] != encoder:
            # Another encoder since the last call: the next one begins anew.
            self._unrelated = None
            return None
        return Encoded(encoder, vectors, self._unrelated[1])

    async def _encode(self, texts: Sequence[str]) -> tuple[str, Floats] | None:
        """Return the encoder and its vectors of any number of texts; None when it changed in between."""
        batches = [texts[start : start + MAX_TEXTS] for start in range(0, len(texts), MAX_TEXTS)]
        encode = self._clients.datafetch.encode_texts
        answers = await asyncio.gather(
            *(
                encode(
                    pb.EncodeTextsRequest(texts=[text[:MAX_CHARS] or "-" for text in batch]), timeout_s=self._timeout_s
                )
                for batch in batches
            )
        )
        rows = [np.frombuffer(answer.vectors, "<f4").reshape(-1, max(1, answer.dim)) for answer in answers]
        if len({answer.encoder for answer in answers}) != 1 or sum(map(len, rows)) != len(texts):
            return None
        return answers[0].encoder, np.concatenate(rows)
