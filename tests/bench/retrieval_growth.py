"""What a corpus costs as it grows: building, memory, a query; and switching snapshots while 32 clients ask.

Passages are made of words that come as often as words do (Zipf), about 60 each; vectors are made, since an encoder's
cost is known by the passage and would hide the rest. ``FATHOM_BENCH_PASSAGES`` (default 10000,100000) gives the sizes.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fathom.encoders.base import Kind
from fathom.errors import FathomError
from fathom.store.folder import FolderStore
from services.retrieval.config import Config, Recipe
from services.retrieval.corpus import Document
from services.retrieval.engine import Engine

SIZES = tuple(int(size) for size in os.environ.get("FATHOM_BENCH_PASSAGES", "10000,100000").split(","))
WORDS, VOCABULARY, DIM, QUERIES, CLIENTS, SWITCHES = 60, 200_000, 384, 200, 32, 20


class Made:
    """An encoder that costs nothing: vectors by the hash of the text."""

    name, dim = "made", DIM

    def encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        seeds = np.array([hash(text) % 10_006 + 1 for text in texts], dtype=np.uint64)
        angles = (seeds[:, None] * np.arange(1, DIM + 1, dtype=np.uint64)) % np.uint64(10_007)
        vectors = np.sin(angles.astype(np.float32))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


async def run() -> None:
    """Each size in a process of its own, so that memory is that of the size."""
    head = f"{'passages':>10}{'index':>8}{'build s':>9}{'/ first':>9}{'build MB':>10}{'open s':>8}{'serve MB':>10}"
    print(head + f"{'disk MB':>9}{'words ms':>10}{'vectors ms':>12}{'both ms':>9}")
    first = 0.0
    for size in SIZES:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.bench.retrieval_growth", str(size), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        index, build_s, build_mb, open_s, serve_mb, disk, *queries = out.decode().split()
        first = first or float(build_s)
        line = f"{size:>10,}{index:>8}{float(build_s):>9.1f}{float(build_s) / first:>9.1f}{build_mb:>10}{open_s:>8}"
        print(line + f"{serve_mb:>10}{disk:>9}{queries[0]:>10}{queries[1]:>12}{queries[2]:>9}")
    await switching()


def passages(count: int) -> Iterator[Document]:
    random = np.random.default_rng(0)
    for at in range(count):
        ranks = random.zipf(1.3, WORDS) % VOCABULARY
        yield Document(f"p{at}", f"Passage {at}", " ".join(f"w{rank}" for rank in ranks), None, "made", "note", ())


async def items(count: int) -> AsyncGenerator[Document, None]:
    for document in passages(count):
        yield document


def engine_of(folder: Path) -> Engine:
    config = Config(
        corpus_dir=None, corpus_name="made", index_dir=folder / "index", recipe=Recipe(encoder="made"),
        cache=0, refresh_s=0,
    )  # fmt: skip
    engine = Engine(config, FolderStore(folder / "store"))
    engine.encoders.add(Made())
    return engine


async def one(size: int) -> str:
    """Builds and opens; the figures as words."""
    with tempfile.TemporaryDirectory() as name:
        folder, began = Path(name), time.perf_counter()
        engine = engine_of(folder)
        await engine.start()
        await engine.ingest("made", items(size))
        build_s, build_mb = time.perf_counter() - began, peak_mb()
        await engine.close()
        del engine
        began = time.perf_counter()
        engine = engine_of(folder)
        await engine.start()
        open_s = time.perf_counter() - began
        index = (await engine.library.snapshot("made")).manifest.index
        disk = sum(path.stat().st_size for path in (folder / "index").rglob("*") if path.is_file()) / 1e6
        asked = [document.text[:60] for document in passages(QUERIES)]
        times = [await took(engine, asked, ranking) for ranking in ("lexical", "dense", "hybrid")]
        memory = resident_mb()
        await engine.close()
    figures = " ".join(f"{value:.2f}" for value in times)
    return f"{index} {build_s:.1f} {build_mb:.0f} {open_s:.1f} {memory:.0f} {disk:.0f} {figures}"


async def took(engine: Engine, queries: Sequence[str], ranking: str) -> float:
    """Median milliseconds of a query that comes alone."""
    times = []
    for query in queries:
        began = time.perf_counter()
        await engine.rank([query], 10, ranking=ranking)
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


async def switching() -> None:
    """Two snapshots take turns while clients ask; every answer must be whole."""
    with tempfile.TemporaryDirectory() as name:
        engine = engine_of(Path(name))
        await engine.start()
        first = (await engine.ingest("made", items(5_000))).snapshot
        second = (await engine.ingest("made", items(10_000))).snapshot
        stop, answers, failures = asyncio.Event(), 0, 0
        asked = [document.text[:60] for document in passages(QUERIES)]

        async def client(number: int) -> None:
            nonlocal answers, failures
            while not stop.is_set():
                try:
                    found = await engine.rank([asked[(number + answers) % QUERIES]], 10)
                    failures += any(isinstance(result, FathomError) or len(result) != 10 for result in found.results)
                except FathomError:
                    failures += 1
                answers += 1

        clients = [asyncio.create_task(client(number)) for number in range(CLIENTS)]
        times = []
        for turn in range(SWITCHES):
            began = time.perf_counter()
            await engine.library.activate("made", (second, first)[turn % 2])
            times.append(time.perf_counter() - began)
            reached = answers + 2 * CLIENTS
            while answers < reached:
                await asyncio.sleep(0.005)
        stop.set()
        await asyncio.gather(*clients)
        await engine.close()
    print(f"\n{SWITCHES} switches under {CLIENTS} clients: {answers:,} requests, {failures} failed, ", end="")
    print(f"{statistics.median(times) * 1e3:.0f} ms a switch")


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def resident_mb() -> float:
    """What the process holds by itself: mapped files may leave memory whenever others need it."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(fields["RssAnon"].split()[0]) / 1e3


if __name__ == "__main__":
    print(asyncio.run(one(int(sys.argv[1]))))
