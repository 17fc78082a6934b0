"""Measure what the planner itself costs per step, and what fifty runs at once cost on the local stack.

A step's own time is what passes from one sampling to the next, less what the model and the tools took, as they
measured it themselves. The durable planner (JetStream, files with fsync) stands against the bare loop in memory.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, connect
from fathom.clients.runs import run as ask
from fathom.domain.chat.messages import Completion, Sampling, ToolSpec
from fathom.services.local import LocalSettings, LocalStack
from fathom.services.planner.engine import Engine
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import Limits, Step, Task
from fathom.services.planner.model.view import View
from fathom.services.planner.rollouts.service import NullObserver
from fathom.transport.bus import open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.store import open_store
from tests.unit.planner.house import House, Script, echo, finish

STEPS, RUNS, MODEL_S, TOOL_S = 20, 8, 0.02, 0.01
AT_ONCE, ALONE = 50, 8
LIMIT_S = 300.0
DATA = Path(".fathom/data").resolve()
QUESTIONS = (
    "What is maximum drawdown?",
    "What is CAGR?",
    "How did the share price of Apple develop from 2015 to 2020?",
    "Compare the price performance of Apple and Microsoft from 2018 to 2020",
)


@dataclass
class Clock:
    """Record when each sampling began, and what model and tools took since the one before, in seconds."""

    began: list[float] = field(default_factory=list)
    elsewhere: list[float] = field(default_factory=list)

    def sampling(self) -> None:
        self.began.append(time.perf_counter())
        self.elsewhere.append(0.0)

    def own(self) -> list[float]:
        """Milliseconds of each whole step that were neither model's nor tools'."""
        spans = zip(self.began, self.began[1:], self.elsewhere, strict=False)
        return [(after - before - elsewhere) * 1000 for before, after, elsewhere in spans]


@dataclass
class Timed:
    """A policy of ``MODEL_S`` seconds per completion."""

    script: Script
    clock: Clock

    async def generate(
        self,
        request_id: str,
        task: Task,
        view: View,
        tools: Sequence[ToolSpec],
        sampling: Sampling,
        hear: Callable[[str], None] | None = None,
    ) -> Completion:
        self.clock.sampling()
        started = time.perf_counter()
        await asyncio.sleep(MODEL_S)
        completion = await self.script.generate(request_id, task, view, tools, sampling)
        self.clock.elsewhere[-1] += time.perf_counter() - started
        return completion


class Slow:
    """The house's echo, with ``TOOL_S`` seconds of work."""

    def __init__(self, inner: object, clock: Clock) -> None:
        self._inner, self._clock = inner, clock

    async def run(self, *arguments: object) -> object:
        started = time.perf_counter()
        await asyncio.sleep(TOOL_S)
        ran = await self._inner.run(*arguments)  # type: ignore[attr-defined]
        self._clock.elsewhere[-1] += time.perf_counter() - started
        return ran

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def engine(house: House, clock: Clock) -> Engine:
    def stage(task: Task, steps: Sequence[Step], cut_short: Step | None) -> EpisodeResources:
        made = house.stage(task, steps, cut_short)
        return replace(made, tools=Slow(made.tools, clock))  # type: ignore[arg-type]

    return Engine(lambda protocol: Timed(house.policy, clock), stage)


def lines() -> list[str]:
    return [*(echo(f"find {n}") for n in range(STEPS)), finish("Done [1].")]


async def durable() -> list[float]:
    """Own milliseconds per step of a worker on a real server and a folder."""
    found: list[float] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=".")))
        nats = await stack.enter_async_context(NatsServer(folder / "nats"))
        store = open_store(f"file://{(folder / 'store').resolve()}")
        bus = await open_bus(nats.url, store)
        stack.push_async_callback(bus.close)
        await bus.declare()
        for number in range(RUNS):
            clock = Clock()
            house = House(*lines(), store=store, bus=bus, max_rounds=STEPS + 1)
            async with house.working(house.worker(lambda house=house, clock=clock: engine(house, clock))):  # type: ignore[misc]
                await house.ask(f"run_{number}")
                await house.events(f"run_{number}")
            found += clock.own()
    return found


async def bare() -> list[float]:
    """Own milliseconds per step of the loop alone: nothing recorded, nobody told."""
    found: list[float] = []
    for number in range(RUNS):
        house, clock = House(*lines()), Clock()
        limits = Limits(STEPS + 1, 1_000_000, time.monotonic() + 60)
        task = Task(f"run_{number}", "why?", "s", Sampling(), limits)
        await engine(house, clock).play(task, house.runs.worker.protocols[1], NullObserver())
        found += clock.own()
    return found


async def ask_to_end(clients: Clients, question: str) -> tuple[float, bool, int]:
    """Return seconds, whether it ended with an answer, and its rounds."""
    started, last = time.perf_counter(), None
    async for event in ask(clients, pb.RunRequest(question=question)):
        last = event
    answered = last is not None and last.finished.stop_reason == trajectory.STOP_REASON_FINISHED
    return time.perf_counter() - started, answered, len(last.finished.material) if last else 0


async def crowd() -> None:
    """Needs the bundled data under ``.fathom`` (``make data``)."""
    models = {"rules": {"engine": "rules"}}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "data").symlink_to(DATA)
        async with LocalStack(LocalSettings(home=home, gateway_port=0, models=models)).running() as endpoints:
            clients = connect(endpoints.services)
            await ask_to_end(clients, QUESTIONS[2])
            started = time.perf_counter()
            alone = [await ask_to_end(clients, QUESTIONS[n % len(QUESTIONS)]) for n in range(ALONE)]
            rate = ALONE / (time.perf_counter() - started)
            started = time.perf_counter()
            async with asyncio.timeout(LIMIT_S):
                asked = [ask_to_end(clients, QUESTIONS[n % len(QUESTIONS)]) for n in range(AT_ONCE)]
                together = await asyncio.gather(*asked, return_exceptions=True)
            wall = time.perf_counter() - started
            await clients.close()
    done = [found for found in together if not isinstance(found, BaseException) and found[1]]
    print(f"\n{'runs on the stack':<24}{'runs/s':>8}{'/ one by one':>14}{'p50 s':>8}{'max s':>8}{'lost':>6}")
    for name, found, speed in (("one by one", alone, rate), (f"{AT_ONCE} at once", done, AT_ONCE / wall)):
        seconds = [item[0] for item in found]
        lost = (ALONE if found is alone else AT_ONCE) - sum(item[1] for item in found)
        print(
            f"{name:<24}{speed:>8.2f}{speed / rate:>14.2f}{statistics.median(seconds):>8.2f}{max(seconds):>8.2f}{lost:>6}"
        )
    print(f"wall of {AT_ONCE} at once: {wall:.1f} s")


async def run() -> None:
    contenders = {"bare loop in memory": await bare(), "durable planner": await durable()}
    baseline = statistics.median(contenders["bare loop in memory"])
    work = (MODEL_S + TOOL_S) * 1000
    print(f"{'own time per step':<24}{'p50 ms':>8}{'p95 ms':>8}{'/ bare':>8}{'/ model+tool':>14}{'steps':>7}")
    for name, found in contenders.items():
        median, high = statistics.median(found), sorted(found)[int(len(found) * 0.95)]
        print(f"{name:<24}{median:>8.2f}{high:>8.2f}{median / baseline:>8.1f}{median / work:>14.2f}{len(found):>7}")
    await crowd()
