"""A thousand random conversations with tools per exact engine: log-probabilities of the sampling against ScoreTokens.

The model is a tiny one whose text often has several tokenisations, so that decoding and encoding would not give the
sampled ids back. What vLLM sampled is scored by ``transformers`` as well. ``BENCH_CONVERSATIONS`` changes the number.
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
from tests.integration.policy.identity import Agreement, agreement, conversations
from tests.integration.policy.scribe import scribe

COUNT, AT_ONCE = int(os.environ.get("BENCH_CONVERSATIONS", "1000")), 16


async def run() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    names = ["transformers", *(["vllm"] if importlib.util.find_spec("vllm") else [])]
    print(f"{'sampled by':<14}{'scored by':<14}{'talks':>7}{'sampled':>9}{'max diff':>10}{'mean diff':>11}"
          f"{'ambiguous':>11}{'talks/s':>9}")  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        folder = scribe(Path(temporary) / "scribe")
        async with AsyncExitStack() as stack:
            engines = {name: (await CONTENDERS[name](stack, folder, Path(temporary))).engine for name in names}
            for name, engine in engines.items():
                started = time.perf_counter()
                trajectories = await conversations(engine, COUNT, AT_ONCE)
                rate = COUNT / (time.perf_counter() - started)
                for scorer in dict.fromkeys((name, "transformers")):
                    show(name, scorer, await agreement(engines[scorer], trajectories), rate)


def show(name: str, scorer: str, found: Agreement, rate: float) -> None:
    print(f"{name:<14}{scorer:<14}{found.conversations:>7}{found.sampled:>9}{found.greatest:>10.1e}{found.mean:>11.1e}"
          f"{found.ambiguous:>11}{rate:>9.1f}")  # fmt: skip
