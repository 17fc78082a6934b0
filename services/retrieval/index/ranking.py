"""Ranking by BM25, vectors, or a convex combination of both; filters apply before ranking.

Reciprocal rank fusion is not used: with k 60 it falls below the better single ranking on most sets, while a convex
combination with a fitted weight does not (Bruch, Gai and Ingber, arXiv 2210.11934). Without labels to fit one, the
weight is chosen per query, by how far the best document of each ranking stands out.
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

from fathom.services.retrieval.documents.model import EVERYTHING, Filter
from fathom.services.retrieval.documents.table import Table
from fathom.services.retrieval.documents.versions import UNDATED, to_microseconds
from fathom.services.retrieval.index.lexical import WordScorer, select_best
from fathom.services.retrieval.index.text import tokenise

if TYPE_CHECKING:
    from fathom.services.retrieval.index.dense_segments import DenseSegments

FADING_TYPE = "news"
MICROSECONDS_PER_DAY = 86_400e6
# Number of documents of each ranking considered by a hybrid one.
FUSED_DEPTH = 100
# Number of documents with which the nearest one is compared.
COMPARED = 30
# Square of the lead, in standard deviations, at which vectors count as much as words. Means per set and the weight that
# labels would choose: 1.8 and 0.25 (reports alike), 3.1 and 0.6, 5.4 and 0.8. With 5 or 7 nDCG@10 moves half a point.
EVEN_LEAD = 6.0
# Lead of the best document by words, as a share of its score, from which words are taken to have found something, and
# the weight of vectors where it has none. Of 72 such pairs and powers, on five sets, this one loses the least: pages of
# long filings, which are all alike to both, have a mean share of 0.24 (32.9 for 18.5), tables with text 0.54.
CLEAR_SHARE = 0.5
UNCLEAR_WEIGHT = 0.6
# Factor on that number when news fade: a fresh document may come from further down.
FADED_DEPTH = 3
# Minimum weight, so that an old document ranks last but does not vanish.
SMALLEST = 1e-30
# Below what 32 bits tell apart; then all vectors are equal.
SMALLEST_SPREAD = 1e-6
# A year from 1900 to 2099 that is no part of a longer number or a decimal; 年 or a word may follow it directly.
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
class RankOptions:
    """Options of a search, apart from its query."""

    top_k: int
    allowed: Filter = EVERYTHING
    half_life_days: float = 0.0
    ranking: Ranking = Ranking.LEXICAL


@dataclass(frozen=True)
class HybridIndex:
    """Hybrid index: the documents, their words, their vectors if any, and the weight of the vectors.

    ``alpha`` None chooses the weight per query, see ``choose_alpha``.
    """

    table: Table
    lexical: WordScorer | None
    dense: DenseSegments | None = None
    alpha: float | None = None

    @property
    def ranking(self) -> Ranking:
        """Return the default ranking."""
        return choose_ranking(self.has_words, self.dense is not None, self.alpha)

    @property
    def has_words(self) -> bool:
        return self.lexical is not None

    def find_missing_side(self, ranking: Ranking) -> str:
        """Return the index that a ranking needs and this corpus lacks; "" if it has all."""
        return find_missing_side(ranking, self.has_words, self.dense is not None)

    def rank(self, queries: Sequence[str], vectors: Floats | None, options: RankOptions) -> list[Ranked]:
        """Rank documents per query; ``vectors`` [queries, dim] are required unless the ranking is lexical."""
        mask = self.table.get_mask(options.allowed)
        if options.ranking is Ranking.LEXICAL or self.dense is None:
            return [
                self._rank_by_words(query, mask, self._compute_weights(query, options), options.top_k)
                for query in queries
            ]
        assert vectors is not None
        depth = choose_depth(options)
        near = self.dense.search(vectors, depth, mask)
        return [
            self._fuse(query, vectors[row], near[row], mask, options, depth)
            if options.ranking is Ranking.HYBRID
            else select_top(*near[row], self._weigh(query, options, near[row][0]), options.top_k)
            for row, query in enumerate(queries)
        ]

    def _rank_by_words(self, query: str, mask: NDArray[np.bool_] | None, weights: Floats | None, count: int) -> Ranked:
        assert self.lexical is not None
        scores = self.lexical.compute_scores(tokenise(query), mask)
        if scores is None:
            return []
        if weights is not None:
            scores = scores * weights
        return [(int(at), float(scores[at])) for at in select_best(scores, count)]

    def _fuse(
        self,
        query: str,
        vector: Floats,
        near: tuple[NDArray[np.int64], Floats],
        mask: NDArray[np.bool_] | None,
        options: RankOptions,
        depth: int,
    ) -> Ranked:
        """Combine the exact scores of every document that either ranking found."""
        assert self.dense is not None
        assert self.lexical is not None
        scores = self.lexical.compute_scores(tokenise(query), mask)
        if scores is None or not len(found := select_best(scores, depth)):
            return select_top(*near, self._weigh(query, options, near[0]), options.top_k)
        # Documents that only the words found get their exact cosine, instead of a guess for "below the list".
        missing = np.setdiff1d(found, near[0])
        positions = np.concatenate([near[0], missing])
        cosine = np.concatenate([near[1], self.dense.get_vectors(missing) @ vector]) if len(missing) else near[1]
        words = scores[positions]
        spread = self.dense.measure_spread(vector)
        alpha = choose_alpha(near[1], spread, words) if self.alpha is None else self.alpha
        fused = combine(words, cosine, alpha)
        return select_top(positions, fused, self._weigh(query, options, positions), options.top_k)

    def _weigh(self, query: str, options: RankOptions, positions: NDArray[np.int64]) -> Floats | None:
        weights = self._compute_weights(query, options)
        return None if weights is None else weights[positions]

    def _compute_weights(self, query: str, options: RankOptions) -> Floats | None:
        """Return freshness weights [documents]; None without a half-life, or when a past period is requested.

        1 for documents that are not news or have no date; otherwise halved per half-life of age at ``as_of``, or at the
        newest document's time.
        """
        now = find_present(query, options, self.table.newest)
        if now is None:
            return None
        return compute_weights(self.table.publish_times, self.table.mask_type(FADING_TYPE), now, options.half_life_days)


def choose_ranking(has_words: bool, has_vectors: bool, alpha: float | None) -> Ranking:
    """Return the default ranking of a corpus."""
    # A side with zero weight changes nothing and is not computed.
    if not has_vectors or (alpha is not None and alpha <= 0 and has_words):
        return Ranking.LEXICAL
    return Ranking.DENSE if not has_words or (alpha is not None and alpha >= 1) else Ranking.HYBRID


def find_missing_side(ranking: Ranking, has_words: bool, has_vectors: bool) -> str:
    """Return the index that a ranking needs and a corpus lacks; "" if it has all."""
    if ranking is not Ranking.LEXICAL and not has_vectors:
        return "vectors"
    return "words" if ranking is not Ranking.DENSE and not has_words else ""


def choose_depth(options: RankOptions) -> int:
    """Return how many of the nearest documents are considered."""
    # Vectors alone are in their final order.
    if options.ranking is Ranking.DENSE and not options.half_life_days:
        return options.top_k
    # A document that one side ranks low may be first together, so both are read deeper than asked.
    return max(options.top_k, FUSED_DEPTH) * (FADED_DEPTH if options.half_life_days else 1)


def find_present(query: str, options: RankOptions, newest: datetime | None) -> datetime | None:
    """Return the instant at which the age of news is measured; None when news do not fade for this query."""
    if not options.half_life_days:
        return None
    # The newest document, not the clock: a corpus of old news would otherwise be faded as a whole.
    now = options.allowed.as_of or newest or datetime.now(UTC)
    is_past = options.allowed.before is not None and options.allowed.before <= now
    return None if is_past or is_about_past_years(query, now.year) else now


def compute_weights(
    published: NDArray[np.int64], is_fading: NDArray[np.bool_], now: datetime, half_life_days: float
) -> Floats:
    """Return freshness weights [documents], from publication in microseconds since 1970 and whether they are news."""
    age = np.where(is_fading & (published != UNDATED), to_microseconds(now) - published, 0).clip(min=0)
    faded: Floats = np.maximum(np.exp2(-age / MICROSECONDS_PER_DAY / half_life_days), SMALLEST).astype(np.float32)
    return faded


def combine(words: Floats, cosines: Floats, alpha: float) -> Floats:
    """Return the convex combination of both scores of the candidates; ``alpha`` is the weight of the cosines."""
    # Word scores are divided by their maximum, cosines scaled min-max.
    fused = alpha * scale_to_unit(cosines) + (1 - alpha) * words / max(float(words.max()), SMALLEST)
    return fused.astype(np.float32)


def choose_alpha(cosines: Floats, spread: float, words: Floats) -> float:
    """Return the weight of the vectors for one query.

    ``cosines`` are those of its nearest documents, best first, ``words`` the word scores of all candidates. The weight
    rises with the lead of the nearest over the next ones, measured in standard deviations of the query's cosines in
    the whole corpus (``spread``): vectors to which all documents are alike decide little, unless they are alike to the
    words, too.
    """
    if len(cosines) < 2:
        return 0.5
    lead = float(cosines[0] - cosines[1 : COMPARED + 1].mean()) / max(spread, SMALLEST_SPREAD)
    best = np.sort(words)[::-1][: COMPARED + 1]
    share = 1 - float(best[1:].mean()) / max(float(best[0]), SMALLEST)
    unclear = 1 - min(1.0, share / CLEAR_SHARE) ** 2
    return max(lead**2 / (lead**2 + EVEN_LEAD), UNCLEAR_WEIGHT * unclear)


def is_about_past_years(query: str, present: int) -> bool:
    """Return True if the query names years and all of them are past: "annual report 2021", "2021年报"."""
    years = [int(match.group(1)) for match in YEAR.finditer(query)]
    return bool(years) and max(years) < present


def select_top(positions: NDArray[np.int64], scores: Floats, weights: Floats | None, count: int) -> Ranked:
    """Return the best of the given documents, ties in corpus order.

    ``weights`` [candidates] scale scores above the lowest one.
    """
    if weights is not None and len(scores):
        # Cosines may be negative, and a small weight would lift a negative score.
        scores = (scores - min(float(scores.min()), 0.0)) * weights
    # The last key is the first one: by score, then by position.
    order = np.lexsort((positions, -scores))[:count]
    return [(int(positions[at]), float(scores[at])) for at in order]


def scale_to_unit(scores: Floats) -> Floats:
    """Scale scores to 0 to 1."""
    low, high = float(scores.min()), float(scores.max())
    return (scores - low) / max(high - low, SMALLEST)
