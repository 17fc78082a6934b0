"""Rollouts with long-tailed tools: asynchronous with a strict bound on age against a barrier per step.

The trainer's own client, pool and batches over a simulated planner: each episode sleeps through four turns, whose
generation takes a fixed time and whose tool a lognormal one (sigma 1.6: a few calls are a hundred times as long as
the median, as search backends are); the learner sleeps through its step. Baselines in the same run: the barrier
mode of the same client, and the ideal, in which nothing waits but for the slower of sampling and learning.

Times are scaled down by a constant; ratios are what counts. The first steps, in which nothing is ahead yet, do
not count. ``age`` is in versions, over every trained sample.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from fathom.store import open_store
from tests.unit.trainers.scripted_planner import ScriptedClients, ScriptedPlanner
from trainers.config import load_config
from trainers.data_proto import DataProto
from trainers.rollouts import PlannerRollouts
from trainers.rollouts.bridge import Bridge
from trainers.rollouts.publisher import Publisher

STEPS, FILL, GROUPS, SAMPLES, TURNS = 12, 4, 16, 4, 4
GENERATE_S, TOOL_S, SIGMA, LONGEST_S = 0.01, 0.02, 1.6, 4.0
LEARN_S = 0.25


@dataclass
class Tools:
    """Durations of episodes, drawn by name and attempt: all modes meet the same distribution."""

    seed: int
    drawn: list[float] = field(default_factory=list)

    def __call__(self, uid: str, sample: int) -> float:
        chooser = random.Random(f"{self.seed}-{uid}-{sample}-{len(self.drawn)}")
        tools = [min(LONGEST_S, TOOL_S * chooser.lognormvariate(0.0, SIGMA)) for _ in range(TURNS)]
        self.drawn.append(TURNS * GENERATE_S + sum(tools))
        return self.drawn[-1]


@dataclass(frozen=True)
class Measured:
    """Seconds per step, the largest age, groups that were begun anew per step, and seconds per step spent waiting."""

    step_s: float
    age: int
    begun_anew: float
    wait_s: float


def prompts(batch: int) -> DataProto:
    rows = range(batch * GROUPS, (batch + 1) * GROUPS)
    arrays = {"uid": [f"p{row}" for row in rows], "question": [f"question {row}" for row in rows]}
    return DataProto.from_dict({}, arrays, {"n": SAMPLES, "seed": 1, "step": batch + 1})


def measure(seed: int, staleness: int, learn_s: float) -> Measured:
    """One training of ``STEPS`` steps."""
    overrides = [f"rollout.n={SAMPLES}", "rollout.timeout_s=600"]
    if staleness:
        overrides += ["rollout.mode=async", f"rollout.staleness={staleness}", "rollout.group_versions=weighted"]
        overrides += ["rollout.importance_cap=2.0"]
    planner = ScriptedPlanner(Tools(seed))
    with Bridge() as bridge:
        publisher = Publisher(cast(Any, ScriptedClients(planner)), open_store("memory://"), "sim", version=1)

        async def publish(write: Any) -> int:
            planner.version += 1
            publisher.version = planner.version
            return planner.version

        cast(Any, publisher).publish = publish
        source = PlannerRollouts(load_config(overrides=overrides), publisher.clients, publisher, bridge)
        for batch in range(source.ahead):
            source.submit(prompts(batch))
        oldest, anew, waited, started = 0, 0.0, 0.0, 0.0
        for step in range(FILL + STEPS):
            if step == FILL:
                anew, waited, started = 0.0, 0.0, time.perf_counter()
            data = source.generate(prompts(step + source.ahead))
            oldest = max(oldest, int((publisher.version - data.array("version_min")).max()))
            anew += data.meta_info["metrics"]["rollout/begun_anew"]
            waited += data.meta_info["metrics"]["rollout/wait_s"]
            time.sleep(learn_s)
            source.publish(no_weights)
        seconds = time.perf_counter() - started
        source.close()
    return Measured(seconds / STEPS, oldest, anew / STEPS, waited / STEPS)


def no_weights(folder: Path) -> None:
    """The simulated policy takes none."""


async def run() -> None:
    """About two minutes."""
    print(
        f"{GROUPS} groups of {SAMPLES}, {TURNS} tool calls each, median {TOOL_S * 1e3:g} ms, learner {LEARN_S * 1e3:g} ms"
    )
    barrier = [await asyncio.to_thread(measure, seed, 0, LEARN_S) for seed in (1, 2)]
    base = statistics.median(one.step_s for one in barrier)
    print(f"  barrier      {base * 1e3:7.1f} ms/step  1.00x  age {max(one.age for one in barrier)}")
    for staleness in (1, 2, 4):
        found = [await asyncio.to_thread(measure, seed, staleness, LEARN_S) for seed in (1, 2)]
        seconds, age = statistics.median(one.step_s for one in found), max(one.age for one in found)
        anew = statistics.mean(one.begun_anew for one in found)
        print(
            f"  staleness {staleness}  {seconds * 1e3:7.1f} ms/step  {base / seconds:.2f}x  age {age} (bound {staleness})"
            f"  {anew:.2f} groups begun anew per step"
        )
    await overlap()


async def overlap() -> None:
    """How near a step comes to the slower of sampling and learning, which is the least that it can take."""
    staleness = 4
    sampling = (await asyncio.to_thread(measure, 5, staleness, 0.0)).step_s
    for share in (1.0, 2.0):
        learn_s = share * sampling
        together = await asyncio.to_thread(measure, 5, staleness, learn_s)
        print(
            f"  overlap, staleness {staleness}: sampling alone {sampling * 1e3:.0f} ms/step, learning {learn_s * 1e3:.0f} ms,"
            f" together {together.step_s * 1e3:.0f} ms, of which {together.wait_s * 1e3:.0f} waiting:"
            f" {max(sampling, learn_s) / together.step_s:.2f} of the ideal"
        )
