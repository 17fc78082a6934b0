"""Vectors of a corpus in segments, each with a FAISS index of its own, searched as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.services.retrieval.index.dense import SAMPLED, DenseIndex, Vectors, sort_best_first

Found = tuple[NDArray[np.int64], Vectors]
"""Positions and inner products, best first."""


class DenseSegments:
    """Search over consecutive segments; read-only after construction, so thread-safe."""

    def __init__(self, segments: Sequence[DenseIndex], dim: int) -> None:
        self.segments, self.dim = tuple(segments), dim
        self._starts = [0]
        for segment in segments:
            self._starts.append(self._starts[-1] + segment.count)
        self.count = self._starts[-1]

    def search(self, queries: Vectors, count: int, mask: NDArray[np.bool_] | None = None) -> list[Found]:
        """Return per query [queries, dim] positions and inner products of at most ``count`` documents, best first.

        ``mask`` [documents] restricts the candidates before ranking. Ties keep corpus order. Raises ``CorruptData``
        when the queries have another dimension than the index.
        """
        if len(self.segments) == 1:
            return self.segments[0].search(queries, count, mask)
        found: list[list[Found]] = [[] for _ in queries]
        for segment, start in zip(self.segments, self._starts, strict=False):
            part = None if mask is None else mask[start : start + segment.count]
            for hits, (positions, scores) in zip(found, segment.search(queries, count, part), strict=True):
                hits.append((positions + start, scores))
        return [join_best(hits, count) for hits in found]

    def get_vectors(self, positions: NDArray[Any]) -> Vectors:
        """Return the vectors of documents [positions, dim]."""
        if len(self.segments) == 1:
            return self.segments[0].get_vectors(positions)
        vectors = np.empty((len(positions), self.dim), np.float32)
        owners = np.searchsorted(self._starts, positions, "right") - 1
        for owner in np.unique(owners):
            places = np.flatnonzero(owners == owner)
            vectors[places] = self.segments[owner].get_vectors(positions[places] - self._starts[owner])
        return vectors

    @cached_property
    def _sample(self) -> Vectors:
        # Read by the first query whose weights are chosen: a thousand places of a mapped file would slow every start.
        return self.get_vectors(np.arange(0, self.count, max(1, self.count // SAMPLED)))

    def measure_spread(self, query: Vectors) -> float:
        """Return the standard deviation of the inner products of a query [dim] with the vectors, from a sample."""
        return float(np.std(self._sample @ query)) if len(self._sample) else 0.0

    def iter_chunks(self, first: int, last: int, size: int) -> Iterator[Vectors]:
        """Yield the vectors from one position to another, in order, in chunks."""
        for start in range(first, last, size):
            yield self.get_vectors(np.arange(start, min(start + size, last)))


def join_best(hits: Sequence[Found], count: int) -> Found:
    """Return the best of what several segments found."""
    if not hits:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    positions, scores = (np.concatenate([part[at] for part in hits]) for at in (0, 1))
    positions, scores = sort_best_first(positions, scores)
    return positions[:count], scores[:count]
