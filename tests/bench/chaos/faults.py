"""Inject faults into a running stack, one after the other, each undone before the next."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fathom.core.call import Lane, current_origin
from fathom.core.errors import FathomError
from fathom.services.local import ORDER, LocalStack
from fathom.transport.bus.base import Bus
from fathom.transport.bus.streams import rollout_subject, run_subject
from tests.bench.chaos.disks import DISK, ERRORS, FULL, HALF, HANGS, SLOW, Disk, Proxy, fill_volume
from tests.bench.chaos.traffic import TASKS, People, Trainer

STALL_S, STORE_AWAY_S, DISK_S = 4.0, 4.0, 6.0
# A service that cannot serve again within this has not come back.
RECOVERY_S = 120.0
Fault = tuple[str, Callable[[], Awaitable[None]]]
STALLED = ("policy", "datafetch", "sandbox", "planner", "nats")
# Python imports it before anything else: the clocks of single services are a day off.
SITE = """
import sys, time
OFFSETS = {"fathom.services.planner": 86400.0, "fathom.services.policy": -86400.0, "fathom.services.memory": -86400.0}
for name, offset in OFFSETS.items():
    if name in sys.orig_argv:
        true_time = time.time
        time.time = lambda: true_time() + offset
        break
"""


@contextmanager
def skewed_clocks(folder: Path) -> Iterator[Mapping[str, str]]:
    """Yield the environment of services whose clocks disagree by two days, and whose disk can fail."""
    (folder / "sitecustomize.py").write_text(SITE + DISK)
    yield {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


@dataclass
class Faults:
    """Faults of a stack in its home, and how often each was made."""

    stack: LocalStack
    home: Path
    bus: Bus
    trainer: Trainer
    people: People
    disk: Disk
    proxy: Proxy | None = None
    """Before the object store, where that is an S3 service."""
    has_volume: bool = False
    """True where the home is a volume of its own, which can be full."""
    made: Counter[str] = field(default_factory=Counter)
    cycles: int = 0
    """The number of times that all of them were made."""
    slowest_s: float = 0.0
    """Longest time until all services served again."""
    late: list[str] = field(default_factory=list)
    """Faults after which services did not serve again in time."""

    def list_all(self) -> list[Fault]:
        """Return all faults by name, in the order in which they are made."""
        kills = [(f"kill -9 {name}", partial(self._kill, name)) for name in ("nats", *ORDER)]
        stalls = [(f"stall {name}", partial(self._stall, name)) for name in STALLED]
        others = [*self._list_store_faults(), ("duplicate and reorder", self._repeat_deliveries)]
        # Alternating, so that a short bench has of each kind.
        mixed = itertools.chain.from_iterable(itertools.zip_longest(kills, others * 2, stalls))
        return [fault for fault in mixed if fault is not None]

    def _list_store_faults(self) -> list[Fault]:
        """Return the faults of what is stored: of the whole volume, and of the object store or the disk below it."""
        volume: list[Fault] = [("volume full", partial(fill_volume, self.home, DISK_S))] if self.has_volume else []
        if self.proxy is not None:
            return [(name, partial(self.proxy.fail, name, DISK_S)) for name in (ERRORS, HANGS, HALF)] + volume
        disk = [(f"disk {fault}", partial(self.disk.fail, fault, DISK_S)) for fault in (FULL, SLOW)]
        return [("store away", self._take_store_away), *disk, *volume]

    async def make(self, names: tuple[str, ...], pause_s: float) -> None:
        """Make the faults with these names once each; for none, all of them over and over, until cancelled."""
        every = self.list_all()
        if names:
            return await self._make_each([(name, dict(every)[name]) for name in names], pause_s)
        while True:
            await self._make_each(every, pause_s)
            self.cycles += 1
            account = self.trainer.account
            print(f"  {self.made.total()} faults, {account.steps} steps, {account.people} questions", flush=True)

    async def _make_each(self, chosen: Sequence[Fault], pause_s: float) -> None:
        """Make these faults, one after the other."""
        for name, make in chosen:
            started = time.monotonic()
            await make()
            await self._until_serving(name)
            self.made[name] += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - started)
            await asyncio.sleep(pause_s)

    async def _until_serving(self, name: str) -> None:
        """Wait until all services serve again; note a fault after which that takes too long, and go on waiting."""
        while True:
            try:
                return await self.stack.until_serving(RECOVERY_S)
            except TimeoutError:
                self.late.append(f"{name}: not serving again within {RECOVERY_S:.0f} s")
                print(f"  {self.late[-1]}", flush=True)

    async def _kill(self, name: str) -> None:
        os.kill(self.stack.pids()[name], signal.SIGKILL)

    async def _stall(self, name: str) -> None:
        pid = self.stack.pids()[name]
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(STALL_S)
        finally:
            os.kill(pid, signal.SIGCONT)

    async def _take_store_away(self) -> None:
        """Replace the folder of the object store by a file: whoever reads or writes an object gets an error."""
        store, away = self.home / "store", self.home / "store.away"
        store.rename(away)
        try:
            store.write_text("")
            await asyncio.sleep(STORE_AWAY_S)
        finally:
            store.unlink()
            away.rename(store)

    async def _repeat_deliveries(self) -> None:
        """Queue the latest runs and rollouts once more, the newest first, as further messages."""
        tasks = [f"{name}:{number}" for name in self.trainer.open for number in range(TASKS)]
        async for subject, name in list_copies(list(self.people.begun)[-8:], tasks):
            try:
                again = f"again-{name}-{self.made.total()}"
                await self.bus.publish(subject, name.encode(), message_id=again, headers=current_origin())
            except FathomError:
                continue  # the bus is on its way back: the next copy may arrive


async def list_copies(runs: list[str], tasks: list[str]) -> AsyncIterator[tuple[str, str]]:
    """Yield subject and text of the messages of runs and of tasks of rollouts, the newest first."""
    for run in reversed(runs):
        yield run_subject(Lane.INTERACTIVE), f"{run}:0"
    for task in reversed(tasks):
        yield rollout_subject(Lane.TRAINING), task
