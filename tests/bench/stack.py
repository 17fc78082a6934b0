"""Measure how long the local stack takes to be ready, in one process and with a process per service."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from fathom.services.local import LocalSettings, LocalStack

ROUNDS = 3


async def run() -> None:
    """Needs the bundled data under ``.fathom`` (``make data``)."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for processes, taken in seconds.items():
            settings = LocalSettings(home=Path(".fathom"), processes=processes, gateway_port=0)
            started = time.perf_counter()
            async with LocalStack(settings).running():
                taken.append(time.perf_counter() - started)
    baseline = statistics.median(seconds[False])
    print(f"{'stack ready':<20}{'median s':>10}{'/ shared':>10}")
    for processes, taken in seconds.items():
        name = "process per service" if processes else "shared process"
        print(f"{name:<20}{statistics.median(taken):>10.1f}{statistics.median(taken) / baseline:>10.1f}")
