"""The two engines of corpora on one machine: the embedded one, and PostgreSQL, with the same passages and vectors.

Per size (``FATHOM_BENCH_PASSAGES``, default 2000,20000): the first ingest, another of a hundredth of it, a query by
words, by vectors and by both that comes alone, and of how many queries the lists are the same. Passages and vectors
are those of ``retrieval_growth``. The database is the one of the tests, on a socket.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncGenerator
from itertools import islice
from pathlib import Path

import numpy as np

from fathom.core.errors import FathomError
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.documents.model import Document
from fathom.services.retrieval.engine import Engine
from fathom.transport.store.folder import FolderStore
from tests.bench.retrieval.retrieval_growth import CENTRES, DIM, NEAREST, Made, passages, took
from tests.support.postgres import serve_postgres

SIZES = tuple(int(size) for size in os.environ.get("FATHOM_BENCH_PASSAGES", "2000,20000").split(","))
ENGINES, RANKINGS, QUERIES = ("embedded", "postgres"), ("lexical", "dense", "hybrid"), 40
Figures = tuple[list[float], list[list[str]]]


async def run() -> None:
    """Needs the tests' PostgreSQL."""
    head = f"{'passages':>10}{'engine':>10}{'ingest s':>10}{'1 % more s':>12}{'words ms':>10}{'vectors ms':>12}{'both ms':>9}"
    print(head)
    with serve_postgres() as url:
        for size in SIZES:
            lists = {}
            for engine in ENGINES:
                figures, lists[engine] = await measure(engine, size, url)
                widths = (10, 12, 10, 12, 9)
                row = "".join(f"{value:>{width}.1f}" for value, width in zip(figures, widths, strict=True))
                print(f"{size:>10,}{engine:>10}{row}", flush=True)
            same = sum(here == there for here, there in zip(*lists.values(), strict=True))
            print(f"{'':>10}lists of {NEAREST} that are the same: {same} of {len(lists['embedded'])}", flush=True)


async def measure(kind: str, size: int, url: str) -> Figures:
    """Return the seconds of both ingests and the milliseconds of each ranking, and the lists of all queries."""
    random = np.random.default_rng(0).standard_normal((CENTRES, DIM), dtype=np.float32)
    with tempfile.TemporaryDirectory() as name:
        recipe = Recipe.model_validate({"encoder": "made", "engine": kind})
        config = Config(
            corpus_dir=None, corpus_name="made", index_dir=Path(name) / "index", recipe=recipe, cache=0, refresh_s=0,
            database_url=url, database_timeout_s=600,  # type: ignore[arg-type]
        )  # fmt: skip
        engine = Engine(config, FolderStore(Path(name) / "store"))
        engine.encoders.add(Made(random / np.linalg.norm(random, axis=1, keepdims=True)))
        await engine.start()
        ingests = [await bring(engine, 0, size), await bring(engine, size, size + size // 100)]
        asked = [" ".join(document.text.split()[1:13]) for document in passages(QUERIES)]
        times = [await took(engine, asked, ranking) for ranking in RANKINGS]
        lists = [await read_list(engine, query, ranking) for ranking in RANKINGS for query in asked]
        await engine.close()
    return [*ingests, *times], lists


async def bring(engine: Engine, first: int, last: int) -> float:
    """Ingest some of the passages and serve them; return the seconds."""

    async def items() -> AsyncGenerator[Document, None]:
        for document in islice(passages(last), first, None):
            yield document

    began = time.perf_counter()
    done = await engine.ingest("made", items())
    await engine.corpora.activate("made", done.snapshot)
    return time.perf_counter() - began


async def read_list(engine: Engine, query: str, ranking: str) -> list[str]:
    (result,) = (await engine.rank([query], NEAREST, ranking=ranking)).results
    if isinstance(result, FathomError):
        raise result
    return [document.id for document, _ in result]
