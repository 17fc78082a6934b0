"""Ranking in PostgreSQL: BM25 over postings, exact or approximate search by pgvector, fused as in ``index.ranking``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from math import log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.services.retrieval.documents.versions import UNDATED, to_microseconds
from fathom.services.retrieval.index.lexical import K1, B
from fathom.services.retrieval.index.ranking import (
    FADING_TYPE,
    MICROSECONDS_PER_DAY,
    SMALLEST,
    Floats,
    Ranked,
    Ranking,
    RankOptions,
    choose_alpha,
    choose_depth,
    choose_ranking,
    combine,
    compute_weights,
    find_missing_side,
    find_present,
    select_top,
)
from fathom.services.retrieval.index.text import is_single_character, tokenise
from fathom.services.retrieval.postgres.table import PostgresTable
from fathom.services.retrieval.postgres.writing import strip_zeros, write_vector

# Documents among which the spread of a query's cosines is estimated.
SAMPLED = 1_000
# Longest list that pgvector's index walks with, and the shortest that is near enough to exact.
LEAST_WALKED, MOST_WALKED = 128, 1_000
IN_ORDER = "array_position(%(segments)s::bigint[], h.segment), h.place"


@dataclass(frozen=True)
class Candidates:
    """Documents of a ranking, best first, with what freshness needs."""

    positions: NDArray[np.int64]
    scores: Floats
    published: NDArray[np.int64]
    is_news: NDArray[np.bool_]


@dataclass(frozen=True)
class PostgresIndex:
    """Index over the documents of a table; ``dim`` is 0 without vectors."""

    table: PostgresTable
    has_words: bool
    dim: int
    alpha: float | None
    is_approximate: bool

    @property
    def ranking(self) -> Ranking:
        """Return the default ranking."""
        return choose_ranking(self.has_words, self.dim > 0, self.alpha)

    def find_missing_side(self, ranking: Ranking) -> str:
        """Return the index that a ranking needs and this corpus lacks; "" if it has all."""
        return find_missing_side(ranking, self.has_words, self.dim > 0)

    def rank(self, queries: Sequence[str], vectors: Floats | None, options: RankOptions) -> list[Ranked]:
        """Rank documents per query; ``vectors`` [queries, dim] are required unless the ranking is lexical."""
        if options.ranking is Ranking.LEXICAL or not self.dim:
            return [self._rank_by_words(query, options) for query in queries]
        assert vectors is not None
        return [self._rank_by_vectors(query, vectors[row], options) for row, query in enumerate(queries)]

    def _rank_by_words(self, query: str, options: RankOptions) -> Ranked:
        present = find_present(query, options, self.table.newest)
        found = self._find_by_words(query, options, options.top_k, present)
        return [(int(at), float(score)) for at, score in zip(found.positions, found.scores, strict=True)]

    def _rank_by_vectors(self, query: str, vector: Floats, options: RankOptions) -> Ranked:
        present, depth = find_present(query, options, self.table.newest), choose_depth(options)
        near = self._find_nearest(vector, options, depth)
        found = self._find_by_words(query, options, depth, None) if options.ranking is Ranking.HYBRID else None
        if found is None or not len(found.positions):
            return select_top(near.positions, near.scores, weigh(near, present, options), options.top_k)
        # What only one side found gets its exact score of the other, instead of a guess for "below the list".
        both = merge(near, found)
        cosines, words = (dict(zip(side.positions.tolist(), side.scores, strict=True)) for side in (near, found))
        cosines |= self._measure_cosines(vector, [at for at in both.positions.tolist() if at not in cosines])
        words |= self._score_words(query, [at for at in both.positions.tolist() if at not in words])
        word_scores, cosine = (
            np.array([scores.get(at, 0.0) for at in both.positions.tolist()], np.float32) for scores in (words, cosines)
        )
        spread = self._measure_spread(vector)
        alpha = choose_alpha(near.scores, spread, word_scores) if self.alpha is None else self.alpha
        fused = combine(word_scores, cosine, alpha)
        return select_top(both.positions, fused, weigh(both, present, options), options.top_k)

    def _find_nearest(self, vector: Floats, options: RankOptions, count: int) -> Candidates:
        joins, conditions, parameters = self.table.build_condition(options.allowed)
        kind = f"halfvec({self.dim})" if self.is_approximate else "vector"
        column = f"p.vector::{kind}" if self.is_approximate else "p.vector"
        size = f" AND vector_dims(p.vector) = {self.dim}" if self.is_approximate else ""
        distance = f"{column} <#> %(vector)s::{kind}"
        # An index gives rows by distance alone; what is sorted exactly is sorted by place, too.
        order = distance if self.is_approximate else f"{distance}, {IN_ORDER.replace('h.', 'p.')}"
        statement = (
            f"SELECT h.segment, h.place, -(h.vector <#> %(vector)s::vector), h.published, h.type FROM ("
            f"SELECT p.* FROM passages p {joins} "
            f"WHERE p.segment = ANY(%(segments)s){size}{conditions} ORDER BY {order} LIMIT %(count)s) h "
            f"ORDER BY h.vector <#> %(vector)s::vector, {IN_ORDER}"
        )
        values = {**self.table.parameters, **parameters, "vector": write_vector(vector), "count": count}

        def work(connection: Any) -> list[Any]:
            if self.is_approximate:
                walked = min(MOST_WALKED, max(LEAST_WALKED, 2 * count))
                connection.execute(f"SET LOCAL hnsw.ef_search = {walked}")
                # Behind a narrow filter the walk goes on until there are enough.
                connection.execute("SET LOCAL hnsw.iterative_scan = strict_order")
            return list(connection.execute(statement, values).fetchall())

        return self._collect(self.table.connections.run(work))

    def _find_by_words(self, query: str, options: RankOptions, count: int, present: datetime | None) -> Candidates:
        joins, conditions, parameters = self.table.build_condition(options.allowed)
        score = "h.score"
        if present is not None:
            age = f"greatest(%(present)s - p.published, 0) / {MICROSECONDS_PER_DAY} / %(half_life)s"
            is_fading = f"p.type = '{FADING_TYPE}' AND p.published IS NOT NULL"
            score += f" * CASE WHEN {is_fading} THEN greatest(power(2::float8, -{age}), {SMALLEST}) ELSE 1 END"
            parameters |= {"present": to_microseconds(present), "half_life": options.half_life_days}
        # Without anything that a passage says, the best are known before the passages are looked up.
        best = f"(SELECT h.* FROM hits h ORDER BY h.score::real DESC, {IN_ORDER} LIMIT %(count)s)"
        hits = "hits" if conditions or present is not None else best
        statement = (
            f"{SCORED} SELECT h.segment, h.place, ({score})::real AS shown, p.published, p.type FROM {hits} h "
            f"JOIN passages p USING (segment, place) {joins} WHERE true{conditions} "
            f"ORDER BY shown DESC, {IN_ORDER} LIMIT %(count)s"
        )
        return self._collect(self._run_scored(query, statement.replace("{among}", ""), {**parameters, "count": count}))

    def _score_words(self, query: str, positions: Sequence[int]) -> dict[int, float]:
        if not positions:
            return {}
        among = (
            " AND (w.segment, u.place) IN "
            "(SELECT * FROM unnest(%(in_segments)s::bigint[], %(places)s::int[]) AS c(segment, place))"
        )
        statement = f"{SCORED} SELECT h.segment, h.place, h.score::real FROM hits h".replace("{among}", among)
        rows = self._run_scored(query, statement, self.table.locate(positions))
        return {self.table.to_position(segment, place): score for segment, place, score in rows}

    def _run_scored(self, query: str, statement: str, parameters: dict[str, Any]) -> list[Any]:
        terms, weights = self._weigh_terms(query)
        if not terms:
            return []
        values = {
            **self.table.parameters, **parameters, "terms": terms, "weights": weights,
            "mean": max(self._mean_length, SMALLEST),
        }  # fmt: skip
        return self.table.connections.run(lambda connection: list(connection.execute(statement, values).fetchall()))

    def _weigh_terms(self, query: str) -> tuple[list[str], list[float]]:
        """Return the known terms of a query, and their inverse document frequencies times their counts."""
        wanted = Counter(strip_zeros(term) for term in tokenise(query) if strip_zeros(term))
        lone = wanted and all(is_single_character(term) for term in wanted)
        # No term of the index equals a lone Chinese character; those that contain it stand for it.
        test = "term LIKE ANY(%(terms)s)" if lone else "term = ANY(%(terms)s)"
        rows = self.table.connections.run(
            lambda connection: connection.execute(
                f"SELECT term, sum(documents) FROM postings "
                f"WHERE {test} AND segment = ANY(%(segments)s) GROUP BY term ORDER BY term",
                {**self.table.parameters, "terms": [f"%{term}%" if lone else term for term in wanted]},
            ).fetchall()
        )
        total = len(self.table)
        found = [
            (term, sum(times for part, times in wanted.items() if part in term) if lone else wanted[term], float(known))
            for term, known in rows
        ]
        return [term for term, _, _ in found], [
            times * log1p((total - known + 0.5) / (known + 0.5)) for _, times, known in found
        ]

    @cached_property
    def _mean_length(self) -> float:
        (terms,) = self.table.connections.run(
            lambda connection: connection.execute(
                "SELECT sum(terms) FROM segments WHERE id = ANY(%(segments)s)", self.table.parameters
            ).fetchone()
        )
        return float(terms or 0) / max(len(self.table), 1)

    def _measure_cosines(self, vector: Floats, positions: Sequence[int]) -> dict[int, float]:
        return dict(zip(positions, (self._read_vectors(positions) @ vector).tolist(), strict=True))

    def _measure_spread(self, vector: Floats) -> float:
        return float(np.std(self._sample @ vector)) if len(self._sample) else 0.0

    @cached_property
    def _sample(self) -> Floats:
        return self._read_vectors(range(0, len(self.table), max(1, len(self.table) // SAMPLED)))

    def _read_vectors(self, positions: Sequence[int]) -> Floats:
        """Return vectors [positions, dim]."""
        if not len(positions):
            return np.empty((0, self.dim), np.float32)
        rows = self.table.connections.run(
            lambda connection: connection.execute(
                "SELECT p.vector::real[] FROM unnest(%(in_segments)s::bigint[], %(places)s::int[]) "
                "WITH ORDINALITY AS w(segment, place, number) JOIN passages p USING (segment, place) "
                "ORDER BY w.number",
                self.table.locate(positions),
            ).fetchall()
        )
        return np.array([row[0] for row in rows], np.float32)

    def _collect(self, rows: Sequence[Any]) -> Candidates:
        return Candidates(
            np.array([self.table.to_position(row[0], row[1]) for row in rows], np.int64),
            np.array([row[2] for row in rows], np.float32),
            np.array([UNDATED if row[3] is None else row[3] for row in rows], np.int64),
            np.array([row[4] == FADING_TYPE for row in rows], np.bool_),
        )


# Lucene's BM25 of all documents that hold a term; a block of postings has their places, counts and lengths.
SCORED = (
    "WITH wanted AS (SELECT * FROM unnest(%(terms)s::text[], %(weights)s::float8[]) AS q(term, weight)), "
    "hits AS (SELECT w.segment, u.place, "
    # As floats: PostgreSQL computes with written fractions as decimal numbers, several times slower.
    f"sum(q.weight * u.count / (u.count + {K1 * (1 - B)}::float8 + {K1 * B}::float8 * u.length / %(mean)s::float8)) "
    "AS score FROM wanted q JOIN postings w ON w.term = q.term AND w.segment = ANY(%(segments)s) "
    "CROSS JOIN LATERAL unnest(w.places, w.counts, w.lengths) AS u(place, count, length) "
    "WHERE true{among} GROUP BY 1, 2)"
)


def merge(near: Candidates, found: Candidates) -> Candidates:
    """Return the candidates of both rankings, each once; only those of ``near`` keep scores that mean anything."""
    is_new = ~np.isin(found.positions, near.positions)
    return Candidates(
        np.concatenate([near.positions, found.positions[is_new]]),
        np.concatenate([near.scores, found.scores[is_new]]),
        np.concatenate([near.published, found.published[is_new]]),
        np.concatenate([near.is_news, found.is_news[is_new]]),
    )


def weigh(candidates: Candidates, present: datetime | None, options: RankOptions) -> Floats | None:
    """Return the freshness weights of candidates; None when news do not fade."""
    if present is None:
        return None
    return compute_weights(candidates.published, candidates.is_news, present, options.half_life_days)
