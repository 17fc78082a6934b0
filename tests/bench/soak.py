"""Mixed traffic for a long time at one stack: are memory and descriptors flat?

People's questions with Python, training episodes and their groups, lists and reads, one after the other and at once.
``SOAK_S`` is its time in seconds (600). Memory and descriptors of the processes that last (services, bus, supervisor of
the sandbox) are sampled; flat means that the slope over the second half, which has warm caches, is below ``GROWTH`` of
the level within an hour.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients import Clients, connect
from fathom.core.errors import FathomError
from fathom.services.local import LocalSettings, LocalStack
from tests.bench.chaos.chaos import HOME, lay_out
from tests.bench.chaos.model import CountingModel
from tests.bench.chaos.traffic import Account, People, Trainer
from tests.integration.stack.scripted_model import entry

PERSON_EVERY_S, SAMPLE_EVERY_S, LIST_EVERY_S = 3.0, 2.0, 5.0
# A line in five minutes: a run that is ended early still says how memory went.
SHOW_EVERY = 150
# A process whose memory grows by less than a tenth within an hour lives as long as a pod does between two upgrades.
GROWTH = 0.1
HOUR_S = 3_600.0


@dataclass(frozen=True)
class Sample:
    """Memory of the processes in MiB and the number of open descriptors, at a time in seconds."""

    at: float
    memory_mib: float
    descriptors: int


def list_processes(root: int) -> list[int]:
    """Return a process and all below it."""
    parents: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            # The name in brackets may hold anything: what follows the last bracket is state and parent.
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        parents.setdefault(parent, []).append(int(process.name))
    found, index = [root], 0
    while index < len(found):
        found += parents.get(found[index], [])
        index += 1
    return found


def measure(since: float, processes: Sequence[int]) -> Sample:
    """Measure processes."""
    pages = descriptors = 0
    for pid in processes:
        try:
            # Proportional figures would be truer of what processes share, and cost a walk over all their pages.
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:  # it has just ended
            continue
    return Sample(time.monotonic() - since, pages * resource.getpagesize() / 2**20, descriptors)


def compute_growth(times: Sequence[float], levels: Sequence[float]) -> float:
    """Return the slope of levels over times within an hour, as a share of their median."""
    line = statistics.linear_regression(times, levels)
    return line.slope * HOUR_S / statistics.median(levels)


async def sample(samples: list[Sample]) -> None:
    """Measure until cancelled."""
    since = time.monotonic()
    # Those that last. Kernels come and go with the traffic, and their number says nothing about leaks.
    processes = list_processes(os.getpid())
    while True:
        samples.append(await asyncio.to_thread(measure, since, processes))
        if len(samples) % SHOW_EVERY == 1:
            now = samples[-1]
            print(f"  {now.at:6.0f} s {now.memory_mib:8.0f} MiB {now.descriptors:6d} descriptors", flush=True)
        await asyncio.sleep(SAMPLE_EVERY_S)


async def read_often(clients: Clients, refused: list[FathomError]) -> None:
    """List and read runs until cancelled, and leave a stream of events unread.

    What a loaded machine refuses goes to ``refused``: an hour of measuring must not end for one late reply.
    """
    while True:
        await asyncio.sleep(LIST_EVERY_S)
        try:
            found = (await clients.planner.list_runs(pb.ListRunsRequest(page_size=50))).runs
            for one in found[:3]:
                await clients.planner.get_run(pb.GetRunRequest(run_id=one.run_id))
                async with aclosing(clients.planner.watch_run(pb.WatchRunRequest(run_id=one.run_id))) as events:
                    await anext(events)
        except FathomError as error:
            refused.append(error)


async def soak(clients: Clients, account: Account, seconds: float) -> tuple[list[Sample], list[FathomError]]:
    """Return what was measured while the traffic went on, and the reads that were refused."""
    trainer, people, samples = Trainer(clients, account), People(clients, account), list[Sample]()
    refused = list[FathomError]()
    async with asyncio.TaskGroup() as traffic:
        beside = [
            traffic.create_task(people.come(PERSON_EVERY_S)),
            traffic.create_task(read_often(clients, refused)),
            traffic.create_task(sample(samples)),
            # A target that it never reaches: the time ends it.
            traffic.create_task(trainer.train(10**9)),
        ]
        await asyncio.sleep(seconds)
        for task in beside:
            task.cancel()
    await people.leave()
    return samples, refused


def report(samples: Sequence[Sample], account: Account) -> bool:
    """Print the figures; return whether memory and descriptors are flat and nothing went wrong."""
    half = samples[len(samples) // 2 :]
    times = [one.at for one in half]
    growths = {
        "memory": compute_growth(times, [one.memory_mib for one in half]),
        "descriptors": compute_growth(times, [float(one.descriptors) for one in half]),
    }
    first, last = samples[0], samples[-1]
    print(f"{last.at:.0f} s: memory {first.memory_mib:.0f} -> {half[0].memory_mib:.0f} -> {last.memory_mib:.0f} MiB,")
    print(f"descriptors {first.descriptors} -> {half[0].descriptors} -> {last.descriptors}")
    print("growth within an hour, by the second half: ", end="")
    print(", ".join(f"{name} {growth:+.1%}" for name, growth in growths.items()))
    print(account.describe())
    return account.is_within_bounds() and all(growth <= GROWTH for growth in growths.values())


async def run() -> None:
    """Needs the bundled data under ``.fathom`` (``make data``)."""
    account, model = Account(), CountingModel()
    with tempfile.TemporaryDirectory() as folder:
        async with model.running() as address:
            home = lay_out(Path(folder) / "home", HOME)
            models = {"rules": {"engine": "rules"}, "scripted": entry(address)}
            async with LocalStack(LocalSettings(home=home, gateway_port=0, models=models)).running() as endpoints:
                clients = connect(endpoints.services)
                samples, refused = await soak(clients, account, float(os.environ.get("SOAK_S", "600")))
                await clients.close()
    print(f"reads refused {len(refused)}{f': {refused[0]}' if refused else ''}")
    if not report(samples, account):
        raise SystemExit("not flat, or a bound is broken")
