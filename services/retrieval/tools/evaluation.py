"""Retrieval evaluation: nDCG@10, MRR@10 and recall of each ranking, and of both with a cross-fitted weight.

"hybrid" is what is served without labels: each query's weight follows from its scores. For "fitted" the weight of the
vectors is fitted on one half of the queries and reported on the other, both ways round, so that every query is reported
and none helped to choose its own weight.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fathom.core.errors import InvalidField, MissingExtra
from fathom.domain.encoders.choose import Encoders
from fathom.domain.intervals import bootstrap_mean
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.corpus.building import build_snapshot
from fathom.services.retrieval.corpus.snapshot import Snapshot, open_snapshot
from fathom.services.retrieval.documents.model import Document
from fathom.services.retrieval.index.ranking import Floats, HybridIndex, Ranking, RankOptions

# The deepest measure is R@100.
DEPTH, BATCH = 100, 256
MEASURES = ("nDCG@10", "RR@10", "R@1", "R@5", "R@10", "R@100")
# Steps of a tenth: finer ones would fit noise.
GRID = tuple(step / 10 for step in range(11))
FITTED_BY = "nDCG@10"


@dataclass(frozen=True)
class Query:
    """A question and the relevant documents' ids, with their grades."""

    id: str
    text: str
    relevant: Mapping[str, int]


@dataclass(frozen=True)
class Row:
    """One ranking's measures, in [0, 1]. ``alpha`` are the weights that the halves chose."""

    name: str
    figures: Mapping[str, float]
    interval: tuple[float, float]
    """95 % interval of nDCG@10, of a bootstrap over the queries."""
    alpha: tuple[float, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """Result of an evaluation. ``alpha`` is the weight fitted on all queries: the one to serve with."""

    documents: int
    queries: int
    encoder: str
    rows: Sequence[Row]
    alpha: float | None

    def get_figure(self, name: str, measure: str = FITTED_BY) -> float:
        """Return one measure; raise ``KeyError`` for a ranking that was not evaluated."""
        return {row.name: row.figures for row in self.rows}[name][measure]


def evaluate(
    documents: Iterable[Document], queries: Sequence[Query], recipe: Recipe, config: Config, folder: Path
) -> Evaluation:
    """Index the documents in ``folder`` and rank every query by words, by vectors and by both.

    Raises ``InvalidField("queries")`` when no query has a relevant document in the corpus, ``MissingExtra``.
    """
    encoders = Encoders(config.model_dir, config.threads, config.remote_encoders, config.query_tokens, half=config.half)
    folder.mkdir(parents=True, exist_ok=True)
    # Building encodes every document, so an index that is there is used again.
    if not (folder / "snapshot.json").exists():
        build_snapshot("evaluation", documents, recipe, folder, encoders)
    snapshot = open_snapshot(folder, config.threads)
    # A query whose documents are all missing measures the corpus, not the ranking.
    judged = [query for query in queries if any(snapshot.table.find_position(i) is not None for i in query.relevant)]
    if not judged:
        raise InvalidField("queries", "none has a relevant document in the corpus")
    index, texts = snapshot.index, [query.text for query in judged]
    assert isinstance(index, HybridIndex)  # it was built here, of files
    words = rank_queries(index, snapshot, judged, None, Ranking.LEXICAL)
    rows = [make_row("bm25", judged, words)]
    if not snapshot.encoder:
        return Evaluation(len(snapshot.table), len(judged), "", rows, None)
    vectors = encoders(snapshot.encoder).encode(texts, "query")
    rows.append(make_row("dense", judged, rank_queries(index, snapshot, judged, vectors, Ranking.DENSE)))
    both = rank_queries(replace(index, alpha=None), snapshot, judged, vectors, Ranking.HYBRID)
    rows.append(make_row("hybrid", judged, both))
    runs = {
        alpha: rank_queries(replace(index, alpha=alpha), snapshot, judged, vectors, Ranking.HYBRID) for alpha in GRID
    }
    fitted, best = cross_fit(judged, runs)
    return Evaluation(len(snapshot.table), len(judged), snapshot.encoder, [*rows, fitted], best)


Run = dict[str, dict[str, float]]


def rank_queries(
    index: HybridIndex, snapshot: Snapshot, queries: Sequence[Query], vectors: Floats | None, ranking: Ranking
) -> Run:
    """Return scores by query and document, from ``DEPTH`` down to 1."""
    run: Run = {}
    documents, options = snapshot.table.documents, RankOptions(DEPTH, ranking=ranking)
    for start in range(0, len(queries), BATCH):
        part = queries[start : start + BATCH]
        near = None if vectors is None else vectors[start : start + BATCH]
        for query, hits in zip(part, index.rank([query.text for query in part], near, options), strict=True):
            # Ranks instead of scores, so that ties break as in the service and not by the rule of ir_measures.
            run[query.id] = {documents[at].id: float(DEPTH - rank) for rank, (at, _) in enumerate(hits)}
    return run


def make_row(name: str, queries: Sequence[Query], run: Run) -> Row:
    """Measure a ranking over the queries; a query without hits counts as 0."""
    return average(name, {measure: list(found.values()) for measure, found in measure_queries(queries, run).items()})


def average(name: str, values: Mapping[str, Sequence[float]], alpha: tuple[float, ...] = ()) -> Row:
    """Return the means of the measures, given by query, and the interval of nDCG@10."""
    figures = {measure: sum(found) / len(found) for measure, found in values.items()}
    return Row(name, figures, bootstrap_mean([[one] for one in values[FITTED_BY]]), alpha)


def load_measures() -> list[Any]:
    try:
        import ir_measures
    except ImportError as error:
        raise MissingExtra("ir_measures", "evaluation") from error
    return [ir_measures.parse_measure(name) for name in MEASURES]


def measure_queries(queries: Sequence[Query], run: Run) -> dict[str, dict[str, float]]:
    """Compute the measures per query."""
    measures = load_measures()
    import ir_measures

    qrels = {query.id: dict(query.relevant) for query in queries}
    wanted = {query.id: run.get(query.id, {}) for query in queries}
    found: dict[str, dict[str, float]] = {str(measure): dict.fromkeys(qrels, 0.0) for measure in measures}
    for result in ir_measures.iter_calc(measures, qrels, wanted):
        found[str(result.measure)][result.query_id] = result.value
    return found


def cross_fit(queries: Sequence[Query], runs: Mapping[float, Run]) -> tuple[Row, float]:
    """Return the row "fitted", each half weighted as the other half chose, and the weight chosen by all queries."""
    tables = {alpha: measure_queries(queries, run) for alpha, run in runs.items()}
    halves = ([q.id for q in queries if is_first_half(q.id)], [q.id for q in queries if not is_first_half(q.id)])
    chosen = tuple(find_best_alpha(tables, half or [q.id for q in queries]) for half in halves)
    values = {
        name: [tables[chosen[1 - side]][name][ident] for side, half in enumerate(halves) for ident in half]
        for name in MEASURES
    }
    return average("fitted", values, chosen), find_best_alpha(tables, [q.id for q in queries])


def find_best_alpha(tables: Mapping[float, Mapping[str, Mapping[str, float]]], ids: Sequence[str]) -> float:
    """Return the weight with the highest nDCG@10; among equals the one nearest to the middle."""
    totals = {alpha: sum(table[FITTED_BY][ident] for ident in ids) for alpha, table in tables.items()}
    # Rounded, so that sums that differ in the last bit are a tie.
    return max(totals, key=lambda alpha: (round(totals[alpha], 9), -abs(alpha - 0.5)))


def is_first_half(ident: str) -> bool:
    """Assign a query to a half by the hash of its id, independent of order."""
    # Not Python's hash(), which differs by process.
    return hashlib.sha256(ident.encode()).digest()[0] % 2 == 0
