"""Two hours' worth of mixed traffic at one stack: do memory, descriptors and threads of any process grow?

The traffic (``traffic.py``) is made as fast as the machine bears it; ``SOAK_HOURS`` plays
fewer, ``SOAK_LIMIT_S`` ends it after so many seconds (1,800). Each process
that lasts is sampled from outside; what it holds inside is asked at the beginning, after each quarter, and at the end.
Growth is that over the second half of the traffic, by a robust regression with an interval, per hour of traffic. A bounded
cache that fills is no leak: what has grown inside is listed with its class, so that its bound can be looked up, and the
blocks of the bus's streams are filled before the traffic (``bus_memory`` shows that the bus stays so). With
``SOAK_TRACE`` the name of a service, also where its memory was allocated. Ends with an error when a process grows.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from fathom.clients import connect
from fathom.services.local import ORDER, LocalSettings, LocalStack
from fathom.transport.bus import open_bus
from fathom.transport.bus.base import Bus, StreamState
from fathom.transport.store import open_store
from tests.bench.chaos.chaos import HOME, environment, lay_out
from tests.bench.chaos.traffic import Trainer
from tests.bench.soak.bus_memory import fill_blocks
from tests.bench.soak.inside import FOLDER, TRACE
from tests.bench.soak.processes import (
    SUPERVISOR_NAME,
    Sample,
    ask_held,
    count_below,
    list_descriptors,
    list_lasting,
    measure,
)
from tests.bench.soak.slopes import compute_growth
from tests.bench.soak.traffic import HOURS, REQUEST_S, ROUNDS, Department, Played, SearchingModel
from tests.integration.stack.scripted_model import entry

SAMPLE_EVERY_S, READY_S = 3.0, 300.0
# Asked at the beginning, and again after each.
QUARTERS = 4
# The first half fills the caches: what is kept for ten minutes is so for ten of these minutes too.
WARM = 0.5
# What a process may gain within an hour of traffic: it then lives as long as a pod does between two upgrades.
GROWTH = 0.1
FIGURES = {"RSS MiB": "rss_mib", "descriptors": "descriptors", "threads": "threads"}
SHOWN = 8


@dataclass
class Seen:
    """Record samples of the processes, with the hours of traffic at which they were taken, and what they held."""

    hours: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    samples: dict[str, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    held: dict[str, list[Path]] = field(default_factory=lambda: defaultdict(list))
    descriptors: dict[str, list[Mapping[str, int]]] = field(default_factory=lambda: defaultdict(list))
    kernels: list[int] = field(default_factory=list)
    """Processes below the sandbox's supervisor at once."""
    streams: list[Mapping[str, StreamState]] = field(default_factory=list)
    """The contents of the bus at each look."""


async def watch(processes: Mapping[str, int], bus: Bus, folder: Path, played: Played, seen: Seen) -> None:
    """Sample until cancelled, and ask what the processes hold at each quarter of the traffic."""
    since, quarter = time.monotonic(), 0
    while True:
        for name, pid in processes.items():
            if sample := await asyncio.to_thread(measure, pid, since):
                seen.samples[name].append(sample)
                seen.hours[name].append(played.hours)
        seen.kernels.append(await asyncio.to_thread(count_below, processes[SUPERVISOR_NAME]))
        if played.hours >= played.planned_hours * quarter / QUARTERS:
            await ask_all(processes, bus, folder, seen)
            show(played, seen)
            quarter += 1
        await asyncio.sleep(SAMPLE_EVERY_S)


async def ask_all(processes: Mapping[str, int], bus: Bus, folder: Path, seen: Seen) -> None:
    """Note what each process holds inside, its descriptors by kind, and what the bus holds."""
    seen.streams.append(await bus.states())
    for name, pid in processes.items():
        seen.descriptors[name].append(list_descriptors(pid))
    # What is no service of ours, or runs without the environment, is seen from outside alone.
    asked = [name for name in processes if name in ORDER]
    files = await asyncio.gather(*(ask_held(processes[name], name, folder) for name in asked))
    for name, file in zip(asked, files, strict=True):
        if file is None:
            print(f"  {name} does not say what it holds", flush=True)
        else:
            seen.held[name].append(file)


def show(played: Played, seen: Seen) -> None:
    """Print a line: a run that is ended early still says how memory went."""
    last = {name: samples[-1] for name, samples in seen.samples.items()}
    at = max(one.at for one in last.values())
    sizes = ", ".join(f"{name} {one.rss_mib:.0f}" for name, one in last.items())
    print(f"  {at:.0f} s, {played.hours:.2f} h of traffic, MiB: {sizes}", flush=True)


def report_growth(seen: Seen, warm_hours: float) -> list[str]:
    """Print growth per hour of traffic after those that warm up; return what grows or may."""
    growing = []
    print(f"{'per hour of traffic':<24}" + "".join(f"{figure:>38}" for figure in FIGURES) + f"{'PSS MiB':>16}")
    for name, samples in seen.samples.items():
        warm = [(at, one) for at, one in zip(seen.hours[name], samples, strict=True) if at >= warm_hours]
        line = f"{name:<24}"
        for figure, attribute in FIGURES.items():
            levels = [float(getattr(one, attribute)) for _, one in warm]
            found = compute_growth([at for at, _ in warm], levels)
            line += f"{levels[0]:>9.0f} -> {levels[-1]:<6.0f}{found.share:+.1%} [{found.low:+.1%}, {found.high:+.1%}]"
            if not found.is_flat(GROWTH):
                verdict = "grows" if found.is_growing(GROWTH) else "undecided"
                interval = f"{found.share:+.1%} [{found.low:+.1%}, {found.high:+.1%}]"
                growing.append(f"{name}: {figure} {interval} per hour: {verdict}")
        print(f"{line}{warm[0][1].pss_mib:>9.0f} -> {warm[-1][1].pss_mib:.0f}")
    return growing


def report_held(seen: Seen) -> None:
    """Print what has grown inside each process between the first quarter and the end, and descriptors over all."""
    for name, kinds in seen.descriptors.items():
        begin, end = kinds[0], kinds[-1]
        changed = [f"{key} {begin.get(key, 0)} -> {end[key]}" for key in end if end[key] > begin.get(key, 0)]
        print(f"descriptors of {name}, before and after: {', '.join(changed) or 'no more of any kind'}")
    for name, files in seen.held.items():
        found = [json.loads(file.read_text()) for file in files]
        print(f"{name}:")
        for kind in ("malloc", "lasting", "entries", "objects", "traced"):
            begin, end = found[min(1, len(found) - 1)][kind], found[-1][kind]
            grown = sorted(((end[key] - begin.get(key, 0), key) for key in end), reverse=True)[:SHOWN]
            if kind in ("malloc", "lasting"):
                grown = [(end[key] - begin[key], key) for key in end]
            for more, key in grown:
                if more > 0 or kind in ("malloc", "lasting"):
                    course = " -> ".join(f"{one[kind].get(key, 0):,}" for one in found)
                    print(f"    {kind:<8} {key}: {course}")


def report_streams(seen: Seen) -> None:
    """Print what the bus held, stream by stream: it keeps most of it for a day, up to the limits of its streams."""
    for name in seen.streams[-1]:
        course = [found[name] for found in seen.streams if name in found]
        print(
            f"stream {name}: "
            + " -> ".join(f"{one.messages:,} messages, {one.size_bytes / 2**20:.0f} MiB" for one in course)
        )


def report_traffic(played: Played, taken_s: float, kernels: Sequence[int]) -> bool:
    """Print what was played and what became of it; return whether people and training had what they asked for."""
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(played.counts.items()))
    print(f"{played.hours:.2f} h of traffic in {taken_s:.0f} s: {counts}; kernels at once at most {max(kernels)}")
    failed = len(played.failed) / max(1, played.counts["questions"])
    print(f"questions failed {len(played.failed)} ({failed:.1%}), reads refused or late {len(played.refused)}")
    print(
        "\n".join(
            [*(f"  {line[:300]}" for line in [*played.failed[:10], *played.refused[:10]]), played.account.describe()]
        )
    )
    return failed <= 0.01 and played.account.is_within_bounds()


async def soak(home: Path, hours: float, limit_s: float) -> tuple[Played, Seen]:
    """Play so many hours' worth of traffic, or what can be in the seconds, at a stack in a home with data."""
    model, played, seen = SearchingModel(), Played(hours), Seen()
    # Python imports it before anything else of a service.
    (home / "sitecustomize.py").write_text((Path(__file__).parent / "inside.py").read_text())
    path = os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")])
    variables = {"PYTHONPATH": path, FOLDER: str(home), TRACE: os.environ.get(TRACE, "")}
    async with model.running() as address:
        models = {"rules": {"engine": "rules"}, "scripted": entry(address)}
        settings = LocalSettings(home=home, processes=True, gateway_port=0, models=models, ready_timeout_s=READY_S)
        stack = LocalStack(settings)
        with environment(variables):
            async with (
                stack.running() as endpoints,
                httpx.AsyncClient(base_url=endpoints.gateway, timeout=REQUEST_S) as gateway,
            ):
                clients, store = connect(endpoints.services), open_store(endpoints.store)
                bus = await open_bus(endpoints.nats, store)
                await fill_blocks(bus)
                trainer = Trainer(clients, played.account, ROUNDS, grader="em")
                processes = list_lasting(stack.pids())
                async with asyncio.TaskGroup() as working:
                    watching = working.create_task(watch(processes, bus, home, played, seen))
                    await Department(clients, gateway, trainer, played).work(limit_s)
                    watching.cancel()
                await ask_all(processes, bus, home, seen)
                await bus.close()
                await clients.close()
    return played, seen


async def run() -> None:
    """Needs the bundled data under ``.fathom`` (``make data``)."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        hours, limit_s = float(os.environ.get("SOAK_HOURS", HOURS)), float(os.environ.get("SOAK_LIMIT_S", "1800"))
        played, seen = await soak(lay_out(Path(folder) / "home", HOME), hours, limit_s)
        is_sound = report_traffic(played, time.monotonic() - started, seen.kernels)
        report_held(seen)
        report_streams(seen)
        growing = report_growth(seen, played.hours * WARM)
    print("\n".join(growing) or "flat: no process has more memory, descriptors or threads")
    if any(line.endswith("grows") for line in growing) or not is_sound:
        raise SystemExit("not flat, or a bound is broken")
