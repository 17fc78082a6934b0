"""Measure what a search over eight long files costs, and how long 1,000 pages take to come in.

Files are put together from the texts of ``retrieval_growth``: eight of 300,000 letters as plain text, once as files,
which are cut into passages, and once as rows of JSON lines, which stay whole; and a PDF of 1,000 pages. Words rank.
Processor time is that of the process with its children.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

from fathom.core.errors import FathomError
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.corpus.ingest import Chunk
from fathom.services.retrieval.corpus.rows import list_parsers
from fathom.services.retrieval.documents.model import Document
from fathom.services.retrieval.engine import Engine
from fathom.transport.store.memory import MemoryStore
from tests.bench.retrieval.retrieval import cpu_s
from tests.bench.retrieval.retrieval_growth import passages
from tests.bench.trainers.rehearsal_parts import descendants
from tests.support.files.office import write_pdf

FILES, LETTERS, PAGES, PAGE_LETTERS, QUERIES, NEAREST = 8, 300_000, 1_000, 2_500, 40, 8


async def run() -> None:
    """Needs nothing but the bundle, whose texts it uses where they are."""
    texts = (document.text for document in passages(10**9))
    long = [take(texts, LETTERS) for _ in range(FILES)]
    asked = [" ".join(document.text.split()[1:13]) for document in passages(QUERIES)]
    kinds: dict[str, list[Chunk | Document]] = {
        "files": [Chunk(text.encode(), "text/plain", f"report-{at}.txt") for at, text in enumerate(long)],
        "rows": [Document(f"r{at}", f"Report {at}", text, None, "made", "note", ()) for at, text in enumerate(long)],
    }
    for kind, brought in kinds.items():
        with tempfile.TemporaryDirectory() as name:
            engine = await open_engine(Path(name))
            await bring(engine, *brought)
            first, again = [await search(engine, asked) for _ in range(2)]
            print(f"{FILES} {kind} of {LETTERS:,} letters: a search {first}; again {again}", flush=True)
            await engine.close()
    # Chinese characters have no letters in the font of the tests' PDFs.
    latin = (text for text in texts if text.isascii())
    pages = [take(latin, PAGE_LETTERS) for _ in range(PAGES)]
    with tempfile.TemporaryDirectory() as name:
        engine = await open_engine(Path(name))
        file = Chunk(write_pdf(pages, "Made"), "application/pdf", "made.pdf")
        began, cpu = time.perf_counter(), sum_cpu_s()
        added = await bring(engine, file)
        took, processor = time.perf_counter() - began, sum_cpu_s() - cpu
        print(f"a PDF of {PAGES:,} pages: {added:,} passages in {took:.1f} s, processor {processor:.1f} s")
        await engine.close()


def sum_cpu_s() -> float:
    """Return the processor time of this process and of those below it, which read files and outlive that."""
    return sum(map(cpu_s, descendants(os.getpid())))


def take(texts: Iterator[str], letters: int) -> str:
    """Return the next texts, together of at least so many letters."""
    found = ""
    while len(found) < letters:
        found += next(texts) + " "
    return found


async def open_engine(folder: Path) -> Engine:
    config = Config(corpus_dir=None, corpus_name="made", index_dir=folder, cache=0, refresh_s=0)
    engine = Engine(config, MemoryStore(), list_parsers())
    await engine.start()
    return engine


async def bring(engine: Engine, *brought: Chunk | Document) -> int:
    async def items() -> AsyncGenerator[Chunk | Document, None]:
        for item in brought:
            yield item

    return (await engine.ingest("made", items())).added


async def search(engine: Engine, queries: list[str]) -> str:
    """Return the median milliseconds of a search with its summaries, alone, and its mean processor time."""
    times, cpu = [], time.process_time()
    for query in queries:
        began = time.perf_counter()
        _, (hits,) = await engine.search([query], NEAREST)
        if isinstance(hits, FathomError):
            raise hits
        times.append((time.perf_counter() - began) * 1e3)
    processor = (time.process_time() - cpu) / len(queries) * 1e3
    return f"{statistics.median(times):.1f} ms, processor {processor:.1f} ms"
