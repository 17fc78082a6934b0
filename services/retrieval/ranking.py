"""Ranking by BM25, vectors, or a convex combination of both; filters apply before ranking.

Reciprocal rank fusion is not used: with k 60 it falls below the better single ranking on most sets, while a convex
combination with a fitted weight does not (Bruch, Gai and Ingber, arXiv 2210.11934).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from services.retrieval.corpus import EVERYTHING, Filter
from services.retrieval.lexical import Lexical, best
from services.retrieval.table import UNDATED, Table, microseconds
from services.retrieval.text import tokens

if TYPE_CHECKING:
    from services.retrieval.dense import Dense

FADING_TYPE = "news"
MICROSECONDS_PER_DAY = 86_400e6
FUSED_DEPTH = 100
"""Number of documents of each ranking considered by a hybrid one."""
FADED_DEPTH = 3
"""Factor on that number when news fade: a fresh document may come from further down."""
SMALLEST = 1e-30
"""Minimum weight, so that an old document ranks last but does not vanish."""
YEAR = re.compile(r"(?<![\d.,])((?:19|20)\d\d)(?![\d.,]?\d)(?:年|\b|(?=[^\W\d]))")

Floats = NDArray[np.float32]
Ranked = list[tuple[int, float]]
"""Positions and scores, best first."""


class Ranking(StrEnum):
    """Ranking method."""

    LEXICAL = "lexical"
    DENSE = "dense"
    HYBRID = "hybrid"


@dataclass(frozen=True)
class Ask:
    """Options of a search, apart from its query."""

    top_k: int
    allowed: Filter = EVERYTHING
    half_life_days: float = 0.0
    ranking: Ranking = Ranking.LEXICAL


@dataclass(frozen=True)
class Arms:
    """Hybrid index: the documents, their words, their vectors if any, and the weight of the vectors."""

    table: Table
    lexical: Lexical | None
    dense: Dense | None = None
    alpha: float = 0.5

    @property
    def ranking(self) -> Ranking:
        """Default ranking; a side with zero weight is not computed."""
        if self.dense is None or (self.alpha <= 0 and self.lexical is not None):
            return Ranking.LEXICAL
        return Ranking.DENSE if self.alpha >= 1 or self.lexical is None else Ranking.HYBRID

    def lacks(self, ranking: Ranking) -> str:
        """Return the index that a ranking needs and this corpus lacks; "" if it has all."""
        if ranking is not Ranking.LEXICAL and self.dense is None:
            return "vectors"
        return "words" if ranking is not Ranking.DENSE and self.lexical is None else ""

    def rank(self, queries: Sequence[str], vectors: Floats | None, ask: Ask) -> list[Ranked]:
        """Rank documents per query; ``vectors`` [queries, dim] are required unless the ranking is lexical."""
        mask = self.table.mask(ask.allowed)
        if ask.ranking is Ranking.LEXICAL or self.dense is None:
            return [self._by_words(query, mask, self._weights(query, ask), ask.top_k) for query in queries]
        assert vectors is not None
        depth = max(ask.top_k, FUSED_DEPTH) * (FADED_DEPTH if ask.half_life_days else 1)
        if ask.ranking is Ranking.DENSE and not ask.half_life_days:
            depth = ask.top_k
        near = self.dense.search(vectors, depth, mask)
        return [
            self._fused(query, vectors[row], near[row], mask, ask, depth)
            if ask.ranking is Ranking.HYBRID
            else cut(*near[row], self._weights(query, ask), ask.top_k)
            for row, query in enumerate(queries)
        ]

    def _by_words(self, query: str, mask: NDArray[np.bool_] | None, weights: Floats | None, count: int) -> Ranked:
        assert self.lexical is not None
        scores = self.lexical.scores(tokens(query))
        if scores is None:
            return []
        if weights is not None:
            scores = scores * weights
        if mask is not None:
            scores = np.where(mask, scores, np.float32(0))
        return [(int(at), float(scores[at])) for at in best(scores, count)]

    def _fused(
        self,
        query: str,
        vector: Floats,
        near: tuple[NDArray[np.int64], Floats],
        mask: NDArray[np.bool_] | None,
        ask: Ask,
        depth: int,
    ) -> Ranked:
        """Combine the exact scores of every document that either ranking found."""
        assert self.dense is not None
        assert self.lexical is not None
        scores = self.lexical.scores(tokens(query))
        weights = self._weights(query, ask)
        if scores is None:
            return cut(*near, weights, ask.top_k)
        if mask is not None:
            scores = np.where(mask, scores, np.float32(0))
        found = best(scores, depth)
        missing = np.setdiff1d(found, near[0])
        positions = np.concatenate([near[0], missing])
        if not len(positions):
            return []
        cosine = np.concatenate([near[1], self.dense.vectors(missing) @ vector]) if len(missing) else near[1]
        words = scores[positions]
        # Word scores are divided by their maximum, cosines scaled min-max.
        fused = self.alpha * spread(cosine) + (1 - self.alpha) * words / max(float(words.max()), SMALLEST)
        return cut(positions, fused.astype(np.float32), weights, ask.top_k)

    def _weights(self, query: str, ask: Ask) -> Floats | None:
        """Return freshness weights [documents]; None without a half-life, or when a past period is requested.

        1 for documents that are not news or have no date; otherwise halved per half-life of age at ``as_of``, or at the
        newest document's time.
        """
        if not ask.half_life_days:
            return None
        now = ask.allowed.as_of or self.table.newest or datetime.now(UTC)
        if (ask.allowed.before is not None and ask.allowed.before <= now) or names_past_year(query, now.year):
            return None
        published = self.table.published
        fading = self.table.of_type(FADING_TYPE) & (published != UNDATED)
        age = np.where(fading, microseconds(now) - published, 0).clip(min=0) / MICROSECONDS_PER_DAY
        faded: Floats = np.maximum(np.exp2(-age / ask.half_life_days), SMALLEST).astype(np.float32)
        return faded


def names_past_year(query: str, present: int) -> bool:
    """Return True if the query names years and all of them are past: "annual report 2021", "2021年报"."""
    years = [int(match.group(1)) for match in YEAR.finditer(query)]
    return bool(years) and max(years) < present


def cut(positions: NDArray[np.int64], scores: Floats, weights: Floats | None, count: int) -> Ranked:
    """Return the best of the given documents, ties in corpus order; weights scale scores above the lowest one."""
    if weights is not None and len(scores):
        scores = (scores - min(float(scores.min()), 0.0)) * weights[positions]
    order = np.lexsort((positions, -scores))[:count]
    return [(int(positions[at]), float(scores[at])) for at in order]


def spread(scores: Floats) -> Floats:
    """Scale scores to 0 to 1."""
    low, high = float(scores.min()), float(scores.max())
    return (scores - low) / max(high - low, SMALLEST)
