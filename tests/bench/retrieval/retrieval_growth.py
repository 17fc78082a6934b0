"""Measure what a corpus costs as it grows: building, memory, a query; and switching snapshots while 32 clients ask.

Passages are sentences of real texts (the bundled corpus, and the labelled sets where the shared data are), about 60
words each, put together anew and deterministically as often as there are passages to make: English and Chinese as
they come. Vectors are made, since an encoder's cost is known by the passage and would hide the rest: deterministic
neighbours of the vectors of some hundred real passages. ``FATHOM_BENCH_PASSAGES`` (default 10000,100000,1000000)
gives the sizes. A million takes some ten minutes on two processors.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import FathomError
from fathom.domain.encoders.base import Kind
from fathom.domain.encoders.choose import Encoders
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.documents.model import Document
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.index import dense
from fathom.services.retrieval.index.text import SENTENCE_END
from fathom.transport.store.folder import FolderStore
from tests.bench.retrieval.retrieval import MODEL, MODELS, ROOT, neighbours, read_shared
from tests.bench.retrieval.retrieval import passages as real_passages
from tests.support.waiting import eventually

SIZES = tuple(int(size) for size in os.environ.get("FATHOM_BENCH_PASSAGES", "10000,100000,1000000").split(","))
DIM, CENTRES, QUERIES, CLIENTS, SWITCHES = 384, 500, 200, 32, 20
WORDS, LETTERS_PER_WORD, NEAREST = 60, 6, 10
DENSE: tuple[dense.IndexKind, ...] = ("flat", "ivf")
BUNDLE = ROOT / ".fathom" / "data" / "corpus" / "documents.jsonl"
TEXTS = ("qed_nq/corpus.jsonl", "tatqa/corpus_dev.jsonl", "cmrc2018/corpus.jsonl", "finna_zh_news/corpus.jsonl")


class Made:
    """An encoder that costs next to nothing: a neighbour of one of ``CENTRES`` vectors, by the text's checksum."""

    name, dim = "made", DIM

    def __init__(self, centres: NDArray[np.float32]) -> None:
        self._centres = centres

    def encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        seeds = np.array([zlib.crc32(text.encode()) for text in texts], dtype=np.uint64)
        angles = (seeds[:, None] % 10_007 * np.arange(1, DIM + 1, dtype=np.uint64)) % np.uint64(10_007)
        vectors = self._centres[seeds % len(self._centres)] + 0.04 * np.sin(angles.astype(np.float32))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors.astype(np.float32)


async def run() -> None:
    """Each size in a process of its own, so that memory is that of the size."""
    with tempfile.TemporaryDirectory() as name:
        centres = Path(name) / "centres.npy"
        np.save(centres, Encoders(MODELS)(MODEL).encode(real_passages(), "passage"))
        head = f"{'passages':>10}{'index':>8}{'build s':>9}{'CPU s':>8}{'/ first':>9}{'build MB':>10}{'open s':>8}"
        print(head + f"{'serve MB':>10}{'disk MB':>9}{'words ms':>10}{'vectors ms':>12}{'both ms':>9}", flush=True)
        rows, first = [], 0.0
        for size in SIZES:
            words = await figures("corpus", size, centres)
            first = first or float(words[2])
            index, build_s, cpu, build_mb, *rest = words
            line = f"{size:>10,}{index:>8}{build_s:>9}{cpu:>8}{float(cpu) / first:>9.1f}{build_mb:>10}"
            print(
                line + "".join(f"{word:>{width}}" for word, width in zip(rest, (8, 10, 9, 10, 12, 9), strict=True)),
                flush=True,
            )
            rows += [(size, kind, await figures(kind, size, centres)) for kind in DENSE]
        head = f"{'passages':>10}{'index':>8}{'build s':>9}{'CPU s':>8}{'build MB':>10}{'disk MB':>9}{'ms alone':>10}"
        print(f"\nvectors alone\n{head}{'ms of 32':>10}{'recall@10':>11}")
        for size, kind, words in rows:
            widths = (9, 8, 10, 9, 10, 10, 11)
            print(
                f"{size:>10,}{kind:>8}" + "".join(f"{word:>{width}}" for word, width in zip(words, widths, strict=True))
            )
    await switching()


async def figures(what: str, size: int, centres: Path) -> list[str]:
    """Return what a process of its own printed."""
    command = [sys.executable, "-m", "tests.bench.retrieval.retrieval_growth", what, str(size), str(centres)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{what} of {size:,} ended with {process.returncode}")
    return out.decode().split()


def sentences() -> list[str]:
    """Of all real texts that are here."""
    rows = [json.loads(line) for line in BUNDLE.read_text(encoding="utf-8").splitlines()] if BUNDLE.exists() else []
    for name in TEXTS:
        rows += read_shared(name)
    texts = [row["text"] for row in rows] or [f"Passage {at} tells of thing {at}." for at in range(1_000)]
    parts = (part.strip() for text in texts for part in SENTENCE_END.split(text))
    return [part[: WORDS * LETTERS_PER_WORD] for part in parts if part]


def passages(count: int) -> Iterator[Document]:
    known, random = sentences(), np.random.default_rng(0)
    for at in range(count):
        text = f"{at}."
        while len(text) < WORDS * LETTERS_PER_WORD * 3 // 4:
            text += " " + known[int(random.integers(len(known)))]
        yield Document(f"p{at}", f"Passage {at}", text, None, "made", "note", ())


async def items(count: int) -> AsyncGenerator[Document, None]:
    for document in passages(count):
        yield document


def engine_of(folder: Path, centres: NDArray[np.float32]) -> Engine:
    config = Config(
        corpus_dir=None, corpus_name="made", index_dir=folder / "index", recipe=Recipe(encoder="made"),
        cache=0, refresh_s=0,
    )  # fmt: skip
    engine = Engine(config, FolderStore(folder / "store"))
    engine.encoders.add(Made(centres))
    return engine


async def corpus(size: int, centres: NDArray[np.float32]) -> str:
    """Builds a corpus with words and vectors, and opens it; the figures as words."""
    with tempfile.TemporaryDirectory() as name:
        folder, began, cpu = Path(name), time.perf_counter(), time.process_time()
        engine = engine_of(folder, centres)
        await engine.start()
        await engine.ingest("made", items(size))
        build_s, cpu_s, build_mb = time.perf_counter() - began, time.process_time() - cpu, peak_mb()
        await engine.close()
        del engine
        began = time.perf_counter()
        engine = engine_of(folder, centres)
        await engine.start()
        open_s = time.perf_counter() - began
        index = (await engine.corpora.get_snapshot("made")).manifest.index
        disk = sum(path.stat().st_size for path in (folder / "index").rglob("*") if path.is_file()) / 1e6
        asked = [" ".join(document.text.split()[1:13]) for document in passages(QUERIES)]
        times = [await took(engine, asked, ranking) for ranking in ("lexical", "dense", "hybrid")]
        memory = resident_mb()
        await engine.close()
    milliseconds = " ".join(f"{value:.2f}" for value in times)
    return f"{index} {build_s:.1f} {cpu_s:.1f} {build_mb:.0f} {open_s:.1f} {memory:.0f} {disk:.0f} {milliseconds}"


def vectors(kind: dense.IndexKind, size: int, centres: NDArray[np.float32]) -> str:
    """Builds one kind of dense index, and searches it alone and in batches."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stored = neighbours(centres, size, folder / "vectors.npy")
        began, cpu = time.perf_counter(), time.process_time()
        dense.write_index(stored, kind, folder / "index")
        build_s, cpu_s, build_mb = time.perf_counter() - began, time.process_time() - cpu, peak_mb()
        index, asked = (
            dense.DenseIndex.load(folder / "index", size, DIM),
            neighbours(centres, QUERIES, folder / "asked.npy", 1),
        )
        exact, disk = dense.DenseIndex(flat(stored), "exact"), (folder / "index").stat().st_size / 1e6
        times = {count: [] for count in (1, CLIENTS)}  # type: dict[int, list[float]]
        hits = 0
        for start in range(0, QUERIES - CLIENTS, CLIENTS):
            part = asked[start : start + CLIENTS]
            for count, found in times.items():
                began = time.perf_counter()
                index.search(part[:count], NEAREST)
                found.append((time.perf_counter() - began) * 1e3)
            pairs = zip(index.search(part, NEAREST), exact.search(part, NEAREST), strict=True)
            hits += sum(len(set(mine.tolist()) & set(true.tolist())) for (mine, _), (true, _) in pairs)
        recall = hits / (len(times[1]) * CLIENTS * NEAREST)
        milliseconds = " ".join(f"{statistics.median(found):.1f}" for found in times.values())
    return f"{build_s:.1f} {cpu_s:.1f} {build_mb:.0f} {disk:.0f} {milliseconds} {recall:.3f}"


def flat(stored: NDArray[np.float32]) -> Any:
    """A flat index of vectors [documents, dim]."""
    index = dense.make_empty("flat", *stored.shape)
    for start in range(0, len(stored), dense.CHUNK):
        index.add(np.ascontiguousarray(stored[start : start + dense.CHUNK]))
    return index


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
        random = np.random.default_rng(0).standard_normal((CENTRES, DIM), dtype=np.float32)
        engine = engine_of(Path(name), random / np.linalg.norm(random, axis=1, keepdims=True))
        await engine.start()
        first = (await engine.ingest("made", items(5_000))).snapshot
        second = (await engine.ingest("made", items(10_000))).snapshot
        stop, answers, failures = asyncio.Event(), 0, 0
        asked = [document.text[-60:] for document in passages(QUERIES)]

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
            await engine.corpora.activate("made", (second, first)[turn % 2])
            times.append(time.perf_counter() - began)
            reached = answers + 2 * CLIENTS
            await eventually(partial(lambda wanted: answers >= wanted, reached), every_s=0.005)
        stop.set()
        await asyncio.gather(*clients)
        await engine.close()
    print(f"\n{SWITCHES} switches under {CLIENTS} clients: {answers:,} requests, {failures} failed, ", end="")
    print(f"{statistics.median(times) * 1e3:.0f} ms a switch")


def peak_mb() -> float:
    """Most resident memory so far, mapped files included; unlike ``ru_maxrss`` not that of the parent."""
    return kilobytes("VmHWM") / 1e3


def resident_mb() -> float:
    """Return what the process holds by itself: mapped files may leave memory whenever others need it."""
    return kilobytes("RssAnon") / 1e3


def kilobytes(name: str) -> int:
    """A line of the process' status."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(fields[name].split()[0])


def main(what: str, size: str, centres: str) -> None:
    known = np.load(centres)
    print(
        asyncio.run(corpus(int(size), known))
        if what == "corpus"
        else vectors(dense.choose_kind(what, 0), int(size), known)
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
