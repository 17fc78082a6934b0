"""Training and people's questions under faults: each service killed, stalled or cut off, the bus restarted, the store
taken away, its disk full or slow, the volume full of all that is written, deliveries repeated out of order, clocks two
days apart, the model's connections broken.

Half of the steps are played on a store that is a folder, whose disk fails, and half on one that is an S3 service, which
errs, hangs and breaks off; ``CHAOS_STORES`` names one of them (``folder`` or ``s3``). ``CHAOS_STEPS`` is the number of
steps in samples after which it ends (10,000), when all faults have been made twice on each store; ``CHAOS_PAUSE_S`` is the
pause between two; ``CHAOS_FAULTS`` names the only ones, divided by commas, to be made once each. Ends with an error when something is lost, made twice or spoilt, or more than 1 % of people's runs fail.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fathom.clients import connect
from fathom.services.local import LocalSettings, LocalStack
from fathom.transport.bus import open_bus
from fathom.transport.store import open_store
from tests.bench.chaos.disks import Disk, failing_s3, own_volume
from tests.bench.chaos.faults import Faults, skewed_clocks
from tests.bench.chaos.model import CountingModel
from tests.bench.chaos.traffic import PERSON_EVERY_S, ROUNDS, Account, People, Trainer, check_effects
from tests.integration.stack.scripted_model import entry

HOME = Path(".fathom")
STORES = ("folder", "s3")
# What is shown of the services' logs where a plan does not end.
LAST_WARNINGS, LONGEST_LINE = 40, 300
# Each fault meets different work each time.
CYCLES = 2
# Leases as in the tests: a worker's deliveries come again while the next fault is made, and not long after it.
SERVICES = {"FATHOM_PLANNER_HEARTBEAT_S": "0.5", "FATHOM_RUNTIME_ACK_WAIT_S": "8"}


@dataclass(frozen=True)
class Plan:
    """Hold for how long faults are made, and which: ``names`` once each; none makes all of them over and over."""

    steps: int = 10_000
    pause_s: float = 2.0
    rounds: int = ROUNDS
    names: tuple[str, ...] = ()
    cycles: int = 0
    """The least number of rounds of all faults, however soon the steps are played."""
    limit_s: float = 5_400.0
    on_s3: bool = False
    has_volume: bool = False
    """True where the home is a volume of its own."""
    ready_s: float = 300.0
    """Longest start of the stack: a machine that does much else takes minutes for what takes seconds alone."""


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables inside the block, for the services that are started in it."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def lay_out(home: Path, data: Path) -> Path:
    """Return a new home with the bundled data of another one."""
    (home / "data").mkdir(parents=True)
    for name in ("tables", "corpus"):
        (home / "data" / name).symlink_to((data / "data" / name).resolve())
    (home / "models").symlink_to((data / "models").resolve())
    return home


async def hurt(home: Path, plan: Plan, account: Account) -> Faults:
    """Play the plan in a home with data; note what came of what was asked in the account, and return the faults."""
    model, disk = CountingModel(), Disk(home)
    async with AsyncExitStack() as contexts:
        clocks = contexts.enter_context(skewed_clocks(home))
        contexts.enter_context(environment({**SERVICES, **clocks, **disk.environment}))
        url, proxy = await contexts.enter_async_context(failing_s3(home)) if plan.on_s3 else ("", None)
        models = {"rules": {"engine": "rules"}, "scripted": entry(await contexts.enter_async_context(model.running()))}
        settings = LocalSettings(
            home=home, processes=True, gateway_port=0, models=models, store=url, ready_timeout_s=plan.ready_s
        )
        stack = LocalStack(settings)
        endpoints = await contexts.enter_async_context(stack.running())
        clients, store = connect(endpoints.services), open_store(endpoints.store)
        contexts.push_async_callback(clients.close)
        bus = await open_bus(endpoints.nats, store)
        contexts.push_async_callback(bus.close)
        trainer, people = Trainer(clients, account, plan.rounds), People(clients, account)
        faults = Faults(stack, home, bus, trainer, people, disk, proxy, plan.has_volume)
        model.is_faulty = True
        try:
            async with asyncio.timeout(plan.limit_s):
                await play(plan, trainer, people, faults)
                model.is_faulty = False
                await stack.until_serving(plan.ready_s)
                await people.leave()
        except TimeoutError as error:
            made, open_rollouts = dict(faults.made), ", ".join(trainer.open)
            state = f"{account.describe()}\nmade: {made}\nopen: {open_rollouts}; {people.count_open()} questions"
            raise TimeoutError(f"not done after {plan.limit_s:.0f} s\n{state}\n{read_warnings(home)}") from error
        await check_effects(clients, store, account, people.asked)
    faults.made["model's connection broken"] = model.broken
    faults.made["model's reply late"] = model.stalled
    return faults


def read_warnings(home: Path) -> str:
    """Return the last warnings of a home's services, a line each."""
    lines = [
        line
        for log in sorted((home / "logs").glob("*.log"))
        for line in log.read_text(errors="replace").splitlines()
        if '"level": "warning"' in line or '"level": "error"' in line
    ]
    return "\n".join(line[:LONGEST_LINE] for line in lines[-LAST_WARNINGS:])


async def play(plan: Plan, trainer: Trainer, people: People, faults: Faults) -> None:
    """Train to the end of the plan, beside people and faults."""
    async with asyncio.TaskGroup() as beside:
        coming = beside.create_task(people.come(PERSON_EVERY_S))
        failing = beside.create_task(faults.make(plan.names, plan.pause_s))
        await trainer.train(lambda: trainer.account.steps >= plan.steps and faults.cycles >= plan.cycles)
        if plan.names:
            await failing
        coming.cancel()
        failing.cancel()


async def run() -> None:
    """Needs the bundled data under ``.fathom`` (``make data``)."""
    steps, pause_s = int(os.environ.get("CHAOS_STEPS", "10000")), float(os.environ.get("CHAOS_PAUSE_S", "2"))
    names = tuple(name for name in os.environ.get("CHAOS_FAULTS", "").split(",") if name)
    stores = [name for name in STORES if os.environ.get("CHAOS_STORES", name) == name]
    account, made, slowest_s, late = Account(), Counter[str](), 0.0, list[str]()
    started = time.monotonic()
    for number, store in enumerate(stores, 1):
        with tempfile.TemporaryDirectory() as folder, own_volume(Path(folder)) as has_volume:
            plan = Plan(
                steps * number // len(stores),
                pause_s,
                names=names,
                cycles=0 if names else CYCLES,
                on_s3=store == "s3",
                has_volume=has_volume,
            )
            faults = await hurt(lay_out(Path(folder) / "home", HOME), plan, account)
        if not has_volume:
            print("  only root can mount: its volume was never full")
        made += faults.made
        slowest_s, late = max(slowest_s, faults.slowest_s), late + faults.late
    taken = time.monotonic() - started
    print(f"{made.total()} faults in {taken:.0f} s, serving again after at most {slowest_s:.1f} s:")
    print(", ".join(f"{name} {count}" for name, count in sorted(made.items())))
    print("\n".join([*late, account.describe()]))
    if late or not account.is_within_bounds():
        raise SystemExit("a bound is broken")
