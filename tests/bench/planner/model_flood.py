"""Users' questions to a model with 8 places, alone and beside 72 training episodes at the same model.

As ``sandbox_flood``, but the model's places decide: each question needs one for most of its time. In turns with places
kept for people and without; ``FLOOD_PAIRS`` times each (1).
"""

from __future__ import annotations

import os
import statistics

from tests.bench.planner.sandbox_flood import compare

PLACES = 8
KINDS = {"places kept for people": 30.0, "none kept": 0.0}


async def run() -> None:
    """Needs the bundled data under ``.fathom`` (``make data``)."""
    ratios: dict[str, list[tuple[float, float]]] = {name: [] for name in KINDS}
    for _ in range(int(os.environ.get("FLOOD_PAIRS", "1"))):
        for name, reserve_s in KINDS.items():
            print(name)
            ratios[name].append(await compare({"running": PLACES, "reserve_s": reserve_s}))
    for name, pairs in ratios.items():
        for share, values in zip(("p50", "p99"), zip(*pairs, strict=True), strict=True):
            found = ", ".join(f"{value:.2f}" for value in values)
            print(f"{name}, {share} beside / alone: median {statistics.median(values):.2f} of {found}")
