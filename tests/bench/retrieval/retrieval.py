"""Queries per second of ``/retrieve`` against Search-R1's server or a re-creation: same index, same weights, no cache.

``FATHOM_BENCH_SEARCH_R1`` names the file ``search_r1/search/retrieval_server.py`` of a checkout of Search-R1, which
then runs unchanged in place of the re-creations, and is what the ratios compare with; its package ``datasets``, which
this repository has no use for, is found by ``FATHOM_BENCH_SEARCH_R1_PACKAGES``, a folder of ``pip install --target``.

32 clients with one query a request, keep-alive, in a process of their own making. Each server starts once and stays,
as loading a corpus takes longer than a round of load; rounds are interleaved, ratios are medians over rounds, and each
round is printed when it ends. ``FATHOM_BENCH_PASSAGES`` (default 100000,1000000) gives the sizes, ``FATHOM_BENCH_SECONDS`` and
``FATHOM_BENCH_ROUNDS`` the load. Encoding that many texts would take hours: some hundred real passages are encoded,
the others are deterministic neighbours of their vectors, which cost what real ones cost in a flat index.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.domain.encoders.choose import Encoders
from fathom.services.retrieval.index import dense
from fathom.transport.sockets import reserved_port

ROOT = Path(__file__).resolve().parents[3]
MODELS = ROOT / ".fathom" / "models"
SIZES = tuple(int(size) for size in os.environ.get("FATHOM_BENCH_PASSAGES", "100000,1000000").split(","))
CLIENTS, TOPK, CENTRES, CHUNK, PASSAGE_CHARS = 32, 3, 500, 50_000, 200
ROUNDS = int(os.environ.get("FATHOM_BENCH_ROUNDS", "3"))
SECONDS = float(os.environ.get("FATHOM_BENCH_SECONDS", "8"))
STARTS_WITHIN_S = 1_800.0
MODEL = "minilm"
REFERENCE, OWN, FATHOM, UPSTREAM = "reference", "reference, our encoder", "fathom", "Search-R1's own"
UPSTREAM_FILE = os.environ.get("FATHOM_BENCH_SEARCH_R1", "")
UPSTREAM_PACKAGES = os.environ.get("FATHOM_BENCH_SEARCH_R1_PACKAGES", "")
BASELINE = UPSTREAM if UPSTREAM_FILE else REFERENCE
CONTENDER = """
import asyncio, sys
from pathlib import Path
import uvloop
from fathom.services.retrieval.http.launch import ServeOptions, serve_until_signal
corpus, index, model, models, port, cache = sys.argv[1:]
launch = ServeOptions(Path(corpus), Path(index), retriever_model=model, model_dir=Path(models), port=int(port), cache=int(cache))
uvloop.run(serve_until_signal(launch, lambda line: None))
"""


@dataclass
class Measured:
    """Hold the figures of one server."""

    rates: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    memory_mb: float = 0.0


async def run() -> None:
    """Needs the encoder's weights, which are fetched from a package at first use."""
    for size in SIZES:
        with tempfile.TemporaryDirectory() as name:
            await compare(Path(name), size)


async def compare(folder: Path, count: int) -> None:
    """All servers on one corpus, in turn."""
    queries = questions()
    make(folder, count)
    reference = [sys.executable, "-m", "tests.bench.retrieval.reference_retriever", *paths(folder), "{port}"]
    corpus, index, _, models = paths(folder)
    upstream = [sys.executable, "-m", "tests.bench.retrieval.upstream_server", UPSTREAM_FILE, corpus, index, models]
    recreated = {REFERENCE: [*reference, "upstream"], OWN: [*reference, "own"]}
    servers = {
        **({UPSTREAM: [*upstream, "{port}"]} if UPSTREAM_FILE else recreated),
        FATHOM: [sys.executable, "-c", CONTENDER, *paths(folder), "{port}", "0"],
    }
    results = {name: Measured() for name in servers}
    async with AsyncExitStack() as stack:
        started: dict[str, tuple[int, int]] = {}
        for name, command in servers.items():
            began = time.perf_counter()
            started[name] = await stack.enter_async_context(server(command))
            print(f"{name}: serves after {time.perf_counter() - began:.1f} s", flush=True)
        answers = {name: await lists(port, queries[:200]) for name, (port, _) in started.items()}
        for turn in range(ROUNDS):
            part = queries[turn * len(queries) // ROUNDS : (turn + 1) * len(queries) // ROUNDS]
            for name, (port, pid) in started.items():
                await measure_round(port, pid, part, results[name])
                print(f"round {turn + 1}, {name}: {results[name].rates[-1]:.1f} queries/s", flush=True)
    report(results, count)
    same = sum(a == b for a, b in zip(answers[BASELINE], answers[FATHOM], strict=True))
    print(f"result lists that are identical: {same} of {len(answers[FATHOM])}", flush=True)


async def measure_round(port: int, pid: int, queries: Sequence[str], measured: Measured) -> None:
    """Put load on one server, and add its processor time and memory to what was measured."""
    before = cpu_s(pid)
    await load(port, queries, measured)
    measured.cpu_s += cpu_s(pid) - before
    measured.memory_mb = max(measured.memory_mb, memory_mb(pid))


def report(results: dict[str, Measured], count: int) -> None:
    baseline, title = results[BASELINE], f"{count:,} passages, {CLIENTS} clients"
    head = f"{title:<34}{'queries/s':>10}{'/ first':>12}{'p50 ms':>9}{'p99 ms':>9}{'CPU ms/query':>14}"
    print(head + f"{'first /':>12}{'MB':>8}")
    for name, measured in results.items():
        rate, times = statistics.median(measured.rates), sorted(measured.times)
        ratio = statistics.median(mine / its for mine, its in zip(measured.rates, baseline.rates, strict=True))
        p50, p99 = (times[int(share * (len(times) - 1))] * 1e3 for share in (0.5, 0.99))
        cpu = measured.cpu_s / len(times) * 1e3
        saved = baseline.cpu_s / len(baseline.times) * 1e3 / cpu
        figures = f"{rate:>10.0f}{ratio:>12.1f}{p50:>9.0f}{p99:>9.0f}{cpu:>14.1f}{saved:>12.1f}"
        print(f"{name:<34}{figures}{measured.memory_mb:>8.0f}")


def questions() -> list[str]:
    """Real questions where the shared data are, else made ones; each comes once, so that no cache could help."""
    if first := [row["question"] for row in read_shared("nq_open/NQ-open.dev.jsonl")]:
        return [f"{text} {suffix}".strip() for suffix in ("", "please", "today", "exactly") for text in first]
    return [f"what is number {number} known for" for number in range(15_000)]


def passages() -> list[str]:
    """The texts that are encoded: beginnings of real passages where the shared data are, else made ones."""
    if found := [row["text"][:PASSAGE_CHARS] for row in islice(read_shared("qed_nq/corpus.jsonl"), CENTRES)]:
        return found
    return [f"Passage {at} tells of thing {at % CENTRES} and of year {1500 + at}." for at in range(CENTRES)]


def read_shared(name: str) -> Iterator[dict[str, Any]]:
    """Yield rows of a file of the shared data; none where they are not."""
    for folder in (ROOT.parent / "shared", ROOT.parent.parent / "shared"):
        if (path := folder / "data" / name).exists():
            with path.open(encoding="utf-8") as file:
                yield from map(json.loads, file)
            return


def neighbours(centres: NDArray[np.float32], count: int, path: Path, seed: int = 0) -> NDArray[np.float32]:
    """Unit vectors [count, dim] near the centres, in turn, in a file that is memory-mapped."""
    random = np.random.default_rng(seed)
    stored = np.lib.format.open_memmap(path, "w+", np.float32, (count, centres.shape[1]))
    for start in range(0, count, CHUNK):
        vectors = centres[np.arange(start, min(start + CHUNK, count)) % len(centres)]
        vectors += 0.03 * random.standard_normal(vectors.shape, dtype=np.float32)
        stored[start : start + CHUNK] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return stored


def make(folder: Path, count: int) -> None:
    """A corpus and its flat index: each passage is a neighbour of one that is encoded."""
    texts = passages()
    stored = neighbours(Encoders(MODELS)(MODEL).encode(texts, "passage"), count, folder / "made.npy")
    dense.write_index(stored, "flat", folder / "made.faiss")
    (folder / "made.npy").unlink()
    with (folder / "corpus.jsonl").open("w") as file:
        for at in range(count):
            contents = f'"Passage {at}"\n{texts[at % len(texts)]} {"Word. " * 60}'
            file.write(json.dumps({"id": str(at), "contents": contents}) + "\n")


def paths(folder: Path) -> list[str]:
    return [str(folder / "corpus.jsonl"), str(folder / "made.faiss"), MODEL, str(MODELS)]


@asynccontextmanager
async def server(command: Sequence[str]) -> AsyncIterator[tuple[int, int]]:
    """A server that has answered once; its port and process id."""
    async with AsyncExitStack() as stack:
        port = stack.enter_context(reserved_port())
        words = [str(port) if word == "{port}" else word for word in command]
        folders = [str(ROOT / "libs"), str(ROOT), *([UPSTREAM_PACKAGES] if UPSTREAM_PACKAGES else [])]
        # Search-R1's server tells its progress by a bar per request.
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "TQDM_DISABLE": "1"}
        process = await asyncio.create_subprocess_exec(*words, cwd=ROOT, env=environ)
        try:
            deadline = time.monotonic() + STARTS_WITHIN_S
            while True:
                if process.returncode is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{words[:3]} does not serve")
                try:
                    async with connect_raw(port) as ask:
                        await ask("warm up")
                    break
                except OSError:
                    await asyncio.sleep(0.2)
            yield port, process.pid
        finally:
            process.terminate()
            await process.wait()


@asynccontextmanager
async def connect_raw(port: int) -> AsyncIterator[Any]:
    """Yield a function that asks one query over one connection; as little client as possible: it shares the processors."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def ask(query: str) -> Any:
        body = json.dumps({"queries": [query], "topk": TOPK, "return_scores": True}).encode()
        head = f"POST /retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answered = await reader.readuntil(b"\r\n\r\n")
        length = int(answered.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        data = await reader.readexactly(length)
        if b" 200 " not in answered.split(b"\r\n")[0]:
            raise RuntimeError(data.decode())
        return data

    try:
        yield ask
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def load(port: int, queries: Sequence[str], measured: Measured) -> None:
    """``CLIENTS`` clients for ``SECONDS``; queries that were under way at the end count no more."""
    left, stop = iter(queries), time.perf_counter() + SECONDS
    done = 0

    async def client() -> None:
        nonlocal done
        async with connect_raw(port) as ask:
            for query in left:
                started = time.perf_counter()
                await ask(query)
                if (ended := time.perf_counter()) > stop:
                    return
                measured.times.append(ended - started)
                done += 1

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    measured.rates.append(done / (min(time.perf_counter(), stop) - began))


async def lists(port: int, queries: Sequence[str]) -> list[list[str]]:
    """Ids per query, asked by several clients at once, so that batches form."""
    left, found = iter(enumerate(queries)), {}

    async def client() -> None:
        async with connect_raw(port) as ask:
            for at, query in left:
                hits = json.loads(await ask(query))["result"][0]
                found[at] = [hit["document"]["id"] for hit in hits]

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return [found[at] for at in range(len(queries))]


def cpu_s(pid: int) -> float:
    """Processor time of a process so far: what a busy machine disturbs least."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
