"""People's calls of one tool, and their generations of one model, beside a flood of trainings.

Latency, use of idle places, fairness. The gates of the planner and the admission of policy are the real ones; tool and
model sleep, in simulated time, so that the figures depend on the admission alone and are the same on each machine.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from prometheus_client import CollectorRegistry

from fathom.core.admission import Claimant
from fathom.core.call import Call, Lane, calling
from fathom.services.planner.metrics import Metrics
from fathom.services.planner.model.waits import Waits
from fathom.services.planner.tools.gates import Gates
from fathom.services.policy.config import RulesModel
from fathom.services.policy.serving.loaded_model import create_admission
from tests.support.clock import SimulatedLoop

PLACES, CALL_S = 8, 1.0
# Every two seconds a question; ten times as many trainings as places.
EVERY_S, QUESTIONS, TRAININGS, RUNS_PER_TENANT = 2.0, 400, 80, 8
# Between two calls, whatever comes between: a tool's call between two replies.
BETWEEN_S = 0.2


class Upstream(ABC):
    """An upstream that counts its calls; a question calls it ``calls_per_question`` times."""

    calls_per_question: int

    def __init__(self) -> None:
        self.running = self.most = 0
        self.calls: Counter[str] = Counter()

    @abstractmethod
    def hold(self, run: str) -> AbstractAsyncContextManager[None]:
        """Return the block in which a call of a run holds its place."""

    async def call(self, run: str) -> None:
        async with self.hold(run):
            self.running += 1
            self.most = max(self.most, self.running)
            # Half to one and a half times the average, so that calls do not end together.
            await asyncio.sleep(CALL_S * random.uniform(0.5, 1.5))
            self.running -= 1
            self.calls[run] += 1


class Tool(Upstream):
    """A tool of the planner."""

    calls_per_question = 2

    def __init__(self) -> None:
        super().__init__()
        metrics = Metrics.register(CollectorRegistry())
        self.gates = Gates(PLACES, {}, metrics.waiting, metrics.wait_seconds)

    def hold(self, run: str) -> AbstractAsyncContextManager[None]:
        return self.gates.hold("tool", run, Waits())


class Model(Upstream):
    """A model of policy."""

    calls_per_question = 6

    def __init__(self) -> None:
        super().__init__()
        self.admission = create_admission("model", RulesModel(running=PLACES, waiting=TRAININGS + QUESTIONS))

    def hold(self, run: str) -> AbstractAsyncContextManager[None]:
        return self.admission.admit(Claimant.current())


async def train(tool: Upstream, run: str, tenant: str) -> None:
    with calling(Call.new(lane=Lane.TRAINING, tenant=tenant)):
        while True:
            await tool.call(run)


async def ask_questions(tool: Upstream) -> list[float]:
    """Return the seconds that each of the questions took."""
    loop = asyncio.get_running_loop()

    async def ask(number: int) -> float:
        await asyncio.sleep(number * EVERY_S)
        started = loop.time()
        with calling(Call.new(tenant="people")):
            for _ in range(tool.calls_per_question):
                await tool.call(f"question {number}")
                await asyncio.sleep(BETWEEN_S)
        return loop.time() - started

    return list(await asyncio.gather(*(ask(number) for number in range(QUESTIONS))))


async def measure(kind: type[Upstream], trainings: int, *, has_people: bool) -> tuple[Upstream, list[float], float]:
    """Return the upstream, the seconds of the questions, and how long it all took."""
    random.seed(7)
    tool, loop = kind(), asyncio.get_running_loop()
    started = loop.time()
    flood = [
        asyncio.create_task(train(tool, f"training {number}", f"tenant {number // RUNS_PER_TENANT}"))
        for number in range(trainings)
    ]
    taken = await ask_questions(tool) if has_people else []
    if not has_people:
        await asyncio.sleep(QUESTIONS * EVERY_S)
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    return tool, taken, loop.time() - started


def find_percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def compute_jain(values: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 when all are equal, 1/n when one has everything."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


async def compare(kind: type[Upstream]) -> None:
    _, alone, _ = await measure(kind, 0, has_people=True)
    tool, beside, beside_s = await measure(kind, TRAININGS, has_people=True)
    idle, _, idle_s = await measure(kind, TRAININGS, has_people=False)
    what = f"{kind.__name__.lower()}, {tool.calls_per_question} calls"
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        before, after = find_percentile(alone, share), find_percentile(beside, share)
        print(f"{what}, {name}: alone {before:.2f} s, beside {TRAININGS} trainings {after:.2f} s: {after / before:.2f}")
    runs = [count for run, count in tool.calls.items() if run.startswith("training")]
    print(f"fairness over {len(runs)} runs (Jain) {compute_jain(runs):.3f}, calls at once {tool.most} of {PLACES}")
    people = QUESTIONS * tool.calls_per_question * CALL_S
    used = idle.calls.total() * CALL_S / (PLACES * idle_s)
    left = sum(runs) * CALL_S / (PLACES * beside_s - people)
    print(f"training's share of the places that people leave: {left:.2f} beside them, {used:.2f} without people")


async def run() -> None:
    def simulate() -> None:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            for kind in (Tool, Model):
                runner.run(compare(kind))

    # In a thread: this one's loop has real time.
    await asyncio.to_thread(simulate)
