"""Rollouts with long-tailed tools: asynchronous with a strict bound on age against a barrier per step.

The trainer's own client, pool and batches over a simulated planner with ``PLACES`` places to sample in: an episode
holds one for four turns, whose generation takes a fixed time and whose tool a lognormal one (sigma 1.6: a few calls
are a hundred times as long as the median, as search backends are); the learner sleeps through its step. All of it
runs in simulated time (``tests.support.clock``): the figures follow from the seeds, on any machine.

Baselines in the same run: the barrier mode of the same client, and the ideal step, which takes as long as the slower
of sampling alone and learning alone. Sampling alone is what one step's episodes take when every place is busy and
no episode is begun anew: the sum of their durations over the places. So waiting, idle places and groups that
got too old all count against the efficiency. The first steps, in which nothing is ahead yet, do not count. ``age``
is in versions, over every trained sample.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from fathom.trainers.batch import DataProto
from fathom.trainers.config import load_config
from fathom.trainers.rollouts import PlannerRollouts
from fathom.trainers.rollouts.publisher import Publisher
from fathom.transport.store import open_store
from tests.support.clock import SimulatedLoopThread
from tests.unit.trainers.rollouts.scripted_planner import ScriptedClients, ScriptedPlanner

STEPS, FILL, GROUPS, SAMPLES, TURNS = 40, 8, 16, 4, 4
PLACES = GROUPS * SAMPLES
GENERATE_S, TOOL_S, SIGMA, LONGEST_S = 0.01, 0.02, 1.6, 4.0
LEARN_S = 0.25
SEEDS = (1, 2, 5)


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


def sampling_alone_s() -> float:
    """Seconds of one step's episodes on busy places, none of them begun anew; the mean of many episodes."""
    tools = Tools(0)
    return statistics.fmean(tools("any", sample) for sample in range(20_000)) * GROUPS * SAMPLES / PLACES


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


def measure(seed: int, staleness: int, learn_s: float, steps: int = STEPS, ahead: int = 0) -> Measured:
    """One training of ``steps`` steps after those in which it fills up; staleness 0 is the barrier.

    ``ahead`` is the number of batches under way before their step; 0 takes ``staleness``.
    """
    overrides = [f"rollout.n={SAMPLES}", "rollout.timeout_s=600", f"rollout.concurrency={PLACES}"]
    if staleness:
        overrides += ["rollout.mode=async", f"rollout.staleness={staleness}", "rollout.group_versions=weighted"]
        overrides += ["rollout.importance_cap=2.0", f"rollout.ahead={ahead}"]
    planner = ScriptedPlanner(Tools(seed), PLACES)
    with SimulatedLoopThread() as bridge:
        publisher = Publisher(
            cast(Any, ScriptedClients(planner)), open_store("memory://"), "memory://", "sim", version=1
        )

        async def publish(write: Any, write_base: Any = None) -> int:
            planner.version += 1
            publisher.version = planner.version
            return planner.version

        cast(Any, publisher).publish = publish
        source = PlannerRollouts(load_config(overrides=overrides), publisher.clients, publisher, cast(Any, bridge))
        for batch in range(source.ahead):
            source.submit(prompts(batch))
        oldest, anew, waited, started = 0, 0.0, 0.0, 0.0
        for step in range(FILL + steps):
            if step == FILL:
                anew, waited, started = 0.0, 0.0, bridge.now()
            asked = bridge.now()
            data = source.generate(prompts(step + source.ahead))
            waited += bridge.now() - asked
            oldest = max(oldest, int((publisher.version - data.array("version_min")).max()))
            anew += data.meta_info["metrics"]["rollout/begun_anew"]
            bridge.pass_time(learn_s)
            source.publish(no_weights)  # type: ignore[arg-type]
        seconds = bridge.now() - started
        source.close()
    return Measured(seconds / steps, oldest, anew / steps, waited / steps)


def no_weights(folder: Path) -> None:
    """The simulated policy takes none."""


async def run() -> None:
    """About a minute."""
    print(
        f"{GROUPS} groups of {SAMPLES} on {PLACES} places, {TURNS} tool calls each, median {TOOL_S * 1e3:g} ms,"
        f" learner {LEARN_S * 1e3:g} ms, {STEPS} steps, {len(SEEDS)} seeds, simulated time"
    )
    barrier = [await asyncio.to_thread(measure, seed, 0, LEARN_S) for seed in SEEDS]
    base = statistics.median(one.step_s for one in barrier)
    print(f"  barrier      {base * 1e3:7.1f} ms/step  1.00x  age {max(one.age for one in barrier)}")
    for staleness in (1, 2, 4):
        found = [await asyncio.to_thread(measure, seed, staleness, LEARN_S) for seed in SEEDS]
        seconds, age = statistics.median(one.step_s for one in found), max(one.age for one in found)
        anew = statistics.mean(one.begun_anew for one in found)
        print(
            f"  staleness {staleness}  {seconds * 1e3:7.1f} ms/step  {base / seconds:.2f}x  age {age} (bound {staleness})"
            f"  {anew:.2f} groups begun anew per step"
        )
    await overlap()


async def overlap() -> None:
    """Measure how near a step comes to the slower of sampling and learning, which is the least that it can take."""
    sampling = sampling_alone_s()
    print(f"  sampling alone {sampling * 1e3:.0f} ms/step; of the ideal step, by staleness and seed:")
    for more in (0, 1):
        for share in (0.5, 1.0, 2.0):
            ideal, learn_s = max(1.0, share) * sampling, share * sampling
            shown = []
            for staleness in (1, 2, 4):
                found = [
                    await asyncio.to_thread(measure, seed, staleness, learn_s, STEPS, staleness + more)
                    for seed in SEEDS
                ]
                each = [ideal / one.step_s for one in found]
                anew = statistics.fmean(one.begun_anew for one in found)
                shown.append(f"{staleness}: {statistics.fmean(each):.2f} (least {min(each):.2f}; {anew:.1f} anew)")
            ahead = "as many batches ahead" if not more else "one more batch ahead "
            print(f"    {ahead}, learning {share:g} of sampling   {'   '.join(shown)}")
