"""A thousand random conversations with tools per exact engine: log-probabilities of the sampling against ScoreTokens.

The model is a tiny one whose text often has several tokenisations, so that decoding and encoding would not give the
sampled ids back. ``BENCH_CONVERSATIONS`` changes their number.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import structlog

from tests.integration.policy.conftest import CONTENDERS
from tests.integration.policy.identity import agreement, conversations
from tests.integration.policy.scribe import scribe

COUNT, AT_ONCE = int(os.environ.get("BENCH_CONVERSATIONS", "1000")), 16


async def run() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    names = ["transformers", *(["vllm"] if importlib.util.find_spec("vllm") else [])]
    print(f"{'engine':<14}{'talks':>7}{'sampled':>9}{'max diff':>10}{'mean diff':>11}{'ambiguous':>11}{'talks/s':>9}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = scribe(Path(temporary) / "scribe")
        for name in names:
            async with AsyncExitStack() as stack:
                contender = await CONTENDERS[name](stack, folder, Path(temporary))
                started = time.perf_counter()
                trajectories = await conversations(contender.engine, COUNT, AT_ONCE)
                rate = COUNT / (time.perf_counter() - started)
                found = await agreement(contender.engine, trajectories)
            print(f"{name:<14}{found.conversations:>7}{found.sampled:>9}{found.greatest:>10.1e}{found.mean:>11.1e}"
                  f"{found.ambiguous:>11}{rate:>9.1f}")  # fmt: skip
