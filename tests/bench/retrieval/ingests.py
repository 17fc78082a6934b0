"""Measure what it costs to add a hundred passages to corpora of different sizes: an ingest should cost what it brings.

For each size a corpus is built at once and then grown, by words alone and by words and vectors (made ones, as in
``retrieval_growth``). Wall time and processor time of one ingest are medians over ``INGESTS`` of them, which join the
small segments that they leave; the corpora take turns, so that a busy machine disturbs all alike.
``FATHOM_BENCH_PASSAGES`` (default 1000,10000,100000) gives the sizes.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np

from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.engine import Engine
from fathom.transport.store.folder import FolderStore
from tests.bench.retrieval.retrieval_growth import CENTRES, DIM, Made, items, passages

SIZES = tuple(int(size) for size in os.environ.get("FATHOM_BENCH_PASSAGES", "1000,10000,100000").split(","))
INGESTS, BROUGHT = 15, 100


async def run() -> None:
    """Corpora of all sizes, with words alone and with vectors."""
    for encoder in ("", "made"):
        await compare(encoder)


async def compare(encoder: str) -> None:
    """Build all sizes, then add to each in turn."""
    random = np.random.default_rng(0).standard_normal((CENTRES, DIM), dtype=np.float32)
    centres = random / np.linalg.norm(random, axis=1, keepdims=True)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engines = {}
        for size in SIZES:
            engines[size] = engine = Engine(
                Config(
                    corpus_dir=None, corpus_name="made", index_dir=folder / str(size), refresh_s=0,
                    recipe=Recipe(encoder=encoder),
                ),
                FolderStore(folder / f"store-{size}"),
            )  # fmt: skip
            engine.encoders.add(Made(centres))
            await engine.start()
            stack.push_async_callback(engine.close)
            await engine.ingest("made", items(size))
        # Behind all that the corpora have, so that every passage is new.
        fresh = passages(max(SIZES) + (INGESTS + 1) * BROUGHT)
        for _ in range(max(SIZES)):
            next(fresh)
        walls: dict[int, list[float]] = {size: [] for size in SIZES}
        processor: dict[int, list[float]] = {size: [] for size in SIZES}
        for turn in range(INGESTS + 1):
            brought = [next(fresh) for _ in range(BROUGHT)]
            for size, engine in engines.items():
                wall, cpu = time.perf_counter(), time.process_time()
                await engine.ingest("made", give(brought))
                if turn:  # the first one imports and opens
                    walls[size].append(time.perf_counter() - wall)
                    processor[size].append(time.process_time() - cpu)
        print(f"{BROUGHT} passages added, {'words and vectors' if encoder else 'words'}, medians of {INGESTS}")
        print(f"{'passages':>10}{'ms':>8}{'/ first':>9}{'CPU ms':>8}{'/ first':>9}{'most CPU ms':>13}{'segments':>10}")
        for size, engine in engines.items():
            ratios = [mine / first for mine, first in zip(walls[size], walls[SIZES[0]], strict=True)]
            shares = [mine / first for mine, first in zip(processor[size], processor[SIZES[0]], strict=True)]
            head = await engine.corpora.open_head("made")
            assert head is not None
            print(
                f"{size:>10,}{statistics.median(walls[size]) * 1e3:>8.0f}{statistics.median(ratios):>9.2f}"
                f"{statistics.median(processor[size]) * 1e3:>8.0f}{statistics.median(shares):>9.2f}"
                f"{max(processor[size]) * 1e3:>13.0f}{len(head.manifest.segments):>10}",
                flush=True,
            )


async def give(documents):  # type: ignore[no-untyped-def]
    """Yield documents as an ingest takes them."""
    for document in documents:
        yield document
