"""``python -m tests.bench filings FOLDER/``: finds the pages that answer questions about companies' annual filings.

FOLDER is a checkout of FinanceBench (``data/financebench_open_source.jsonl`` and ``pdfs/``), which is never copied
here: its licence is for evaluation only. Filings are read and cut into passages as uploads are; a page is ranked where
the first of its passages is, and the pages that hold a question's evidence are the relevant ones, among those of all
filings read. ``FATHOM_BENCH_FILINGS`` (0 takes all) draws as many filings by a seed, and ``FATHOM_BENCH_ENCODER``
("minilm"; "none" for words alone) is the encoder of the passages.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fathom.domain.encoders.choose import Encoders
from fathom.domain.intervals import bootstrap_mean
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.corpus.building import build_snapshot
from fathom.services.retrieval.corpus.rows import read_file
from fathom.services.retrieval.corpus.snapshot import Snapshot, open_snapshot
from fathom.services.retrieval.documents.model import Document
from fathom.services.retrieval.index.ranking import Floats, HybridIndex, Ranking
from fathom.services.retrieval.tools.evaluation import (
    FITTED_BY,
    Query,
    Run,
    make_row,
    measure_queries,
    rank_queries,
)
from tests.bench.retrieval.retrieval import ROOT

SEED, PDF = 37, "application/pdf"
QUESTIONS = Path("data", "financebench_open_source.jsonl")


async def run(folder: str) -> None:
    """Print each ranking's measures over pages, and what both together gain over each alone."""
    root, encoder = Path(folder), os.environ.get("FATHOM_BENCH_ENCODER", "minilm")
    rows = [json.loads(line) for line in (root / QUESTIONS).read_text(encoding="utf-8").splitlines()]
    wanted = {str(proof["doc_name"]) for row in rows for proof in row["evidence"]}
    there = sorted(name for name in wanted if (path := root / "pdfs" / f"{name}.pdf").is_file() and path.stat().st_size)
    taken = draw(there, int(os.environ.get("FATHOM_BENCH_FILINGS", "0")))
    queries = make_queries(rows, taken)
    began = time.perf_counter()
    passages = [passage for name in taken for passage in read_filing(root / "pdfs" / f"{name}.pdf")]
    pages = group_pages(passages)
    lost = {page for query in queries for page in query.relevant} - set(pages)
    print(
        f"{len(taken)} of {len(wanted)} filings ({len(wanted) - len(there)} absent): {len(pages):,} pages with text, "
        f"{len(passages):,} passages, read in {time.perf_counter() - began:.0f} s; {len(queries)} questions, "
        f"{len(lost)} of their pages without text",
        flush=True,
    )
    runs = rank(passages, queries, "" if encoder == "none" else encoder)
    for row in [make_row(name, queries, found) for name, found in runs.items()]:
        figures = "  ".join(f"{name} {100 * value:.1f}" for name, value in row.figures.items())
        print(f"{row.name:<7} {figures}  95 % {100 * row.interval[0]:.1f} to {100 * row.interval[1]:.1f}")
    for single in sorted({*runs} - {"both"}) if "both" in runs else ():
        mean, low, high = (100 * value for value in compare(queries, runs["both"], runs[single]))
        print(f"both against {single}: {mean:+.1f} points of {FITTED_BY}, 95 % {low:+.1f} to {high:+.1f}")


def draw(names: Sequence[str], number: int) -> list[str]:
    """Return ``number`` of the names, always the same ones; all of them for 0."""
    return sorted(random.Random(SEED).sample(names, number)) if 0 < number < len(names) else list(names)


def make_queries(rows: Iterable[Mapping[str, Any]], taken: Iterable[str]) -> list[Query]:
    """Return the questions all of whose evidence is in the filings taken, with its pages."""
    names = set(taken)
    return [
        Query(
            row["financebench_id"],
            row["question"],
            # Pages are counted from 0 there.
            {name_page(proof["doc_name"], int(proof["evidence_page_num"]) + 1): 1 for proof in row["evidence"]},
        )
        for row in rows
        if all(proof["doc_name"] in names for proof in row["evidence"])
    ]


def name_page(filing: str, number: int) -> str:
    """Return the id of a filing's page, counted from 1."""
    return f"{filing}#{number}"


def read_filing(path: Path) -> Iterator[Document]:
    """Yield the passages of a filing, as they are of an upload."""
    for item in read_file(path.read_bytes(), PDF, path.name):
        if isinstance(item, Document):
            yield item


def find_page(passage: Document) -> str:
    """Return the id of the page that a passage is on."""
    return name_page(Path(passage.key).stem, passage.page)


def group_pages(passages: Iterable[Document]) -> dict[str, list[Document]]:
    """Return the passages of each page."""
    pages: dict[str, list[Document]] = {}
    for passage in passages:
        pages.setdefault(find_page(passage), []).append(passage)
    return pages


def rank(passages: Sequence[Document], queries: Sequence[Query], encoder: str) -> dict[str, Run]:
    """Return pages ranked by words, by vectors and by both with the weight that is served."""
    config = Config(model_dir=ROOT / ".fathom" / "models")
    encoders = Encoders(config.model_dir, config.threads)
    with tempfile.TemporaryDirectory(prefix="fathom-bench-") as name:
        began = time.perf_counter()
        build_snapshot("filings", passages, Recipe(encoder=encoder), Path(name), encoders)
        print(f"indexed in {time.perf_counter() - began:.0f} s", flush=True)
        snapshot = open_snapshot(Path(name), config.threads)
        page_of = {passage.id: find_page(passage) for passage in passages}
        vectors = encoders(encoder).encode([query.text for query in queries], "query") if encoder else None
        kinds = {"words": Ranking.LEXICAL, "vectors": Ranking.DENSE, "both": Ranking.HYBRID}
        return {
            title: rank_pages(snapshot, queries, vectors, kind, page_of)
            for title, kind in kinds.items()
            if kind is Ranking.LEXICAL or encoder
        }


def rank_pages(
    snapshot: Snapshot, queries: Sequence[Query], vectors: Floats | None, kind: Ranking, page_of: Mapping[str, str]
) -> Run:
    """Return the scores of pages by query: each page's is that of its best passage."""
    assert isinstance(snapshot.index, HybridIndex)  # it was built here, of files
    near = None if kind is Ranking.LEXICAL else vectors
    found = rank_queries(replace(snapshot.index, alpha=None), snapshot, queries, near, kind)
    return {query: keep_best(scores, page_of) for query, scores in found.items()}


def keep_best(scores: Mapping[str, float], page_of: Mapping[str, str]) -> dict[str, float]:
    """Return for each page the highest score of its passages."""
    best: dict[str, float] = {}
    for passage, score in scores.items():
        page = page_of[passage]
        best[page] = max(score, best.get(page, score))
    return best


def compare(queries: Sequence[Query], run: Run, other: Run) -> tuple[float, float, float]:
    """Return how much better a run is than another, question by question, and the interval of that mean."""
    mine, others = (measure_queries(queries, each)[FITTED_BY] for each in (run, other))
    gains = [mine[query.id] - others[query.id] for query in queries]
    return (sum(gains) / len(gains), *bootstrap_mean([[gain] for gain in gains]))
