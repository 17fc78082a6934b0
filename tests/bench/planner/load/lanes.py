"""Calls of one tool by people, by evaluations and by a flood of trainings: latency, use of idle places, fairness.

The gates of the planner are the real ones; the tool sleeps, in simulated time, so that the figures depend on the
admission alone and are the same on each machine.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from collections import Counter
from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from fathom.core.call import Call, Lane, calling
from fathom.services.planner.metrics import Metrics
from fathom.services.planner.model.waits import Waits
from fathom.services.planner.tools.gates import Gates
from tests.support.clock import SimulatedLoop

PLACES, CALL_S = 8, 1.0
# Every two seconds a question with two calls; ten times as many trainings as places.
EVERY_S, QUESTIONS, TRAININGS, RUNS_PER_TENANT = 2.0, 400, 80, 8


class Tool:
    """An upstream that says how many calls it had at once, at most."""

    def __init__(self) -> None:
        metrics = Metrics.register(CollectorRegistry())
        self.gates = Gates(PLACES, {}, metrics.waiting, metrics.wait_seconds)
        self.running = self.most = 0
        self.calls: Counter[str] = Counter()

    async def call(self, run: str) -> None:
        async with self.gates.hold("tool", run, Waits()):
            self.running += 1
            self.most = max(self.most, self.running)
            # Half to one and a half times the average, so that calls do not end together.
            await asyncio.sleep(CALL_S * random.uniform(0.5, 1.5))
            self.running -= 1
            self.calls[run] += 1


async def train(tool: Tool, run: str, tenant: str) -> None:
    with calling(Call.new(lane=Lane.TRAINING, tenant=tenant)):
        while True:
            await tool.call(run)


async def ask_questions(tool: Tool) -> list[float]:
    """Return the seconds that each of the questions took."""
    loop = asyncio.get_running_loop()

    async def ask(number: int) -> float:
        await asyncio.sleep(number * EVERY_S)
        started = loop.time()
        with calling(Call.new(tenant="people")):
            for _ in range(2):
                await tool.call(f"question {number}")
        return loop.time() - started

    return list(await asyncio.gather(*(ask(number) for number in range(QUESTIONS))))


async def measure(trainings: int, *, has_people: bool) -> tuple[Tool, list[float], float]:
    """Return the tool, the seconds of the questions, and how long it all took."""
    random.seed(7)
    tool, loop = Tool(), asyncio.get_running_loop()
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


async def compare() -> None:
    _, alone, _ = await measure(0, has_people=True)
    tool, beside, _ = await measure(TRAININGS, has_people=True)
    idle, _, seconds = await measure(TRAININGS, has_people=False)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        before, after = find_percentile(alone, share), find_percentile(beside, share)
        print(
            f"two calls, {name}: alone {before:.2f} s, beside {TRAININGS} trainings {after:.2f} s: {after / before:.2f}"
        )
    runs = [count for run, count in tool.calls.items() if run.startswith("training")]
    print(f"fairness over {len(runs)} runs (Jain) {compute_jain(runs):.3f}, calls at once {tool.most} of {PLACES}")
    used = idle.calls.total() * CALL_S / (PLACES * seconds)
    print(f"training's share of places without people {used:.2f}; mean question {statistics.mean(beside):.2f} s")


async def run() -> None:
    def simulate() -> None:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            runner.run(compare())

    # In a thread: this one's loop has real time.
    await asyncio.to_thread(simulate)
