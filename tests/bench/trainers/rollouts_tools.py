"""Rollouts with real long-tailed tools: ahead of time with a bound on age, against a barrier per step.

Everything is real but the learner, which sleeps through its step: policy samples with exact ids, planner plays, each
episode's Python session waits for as long as its call says, reward grades, and weights are published after
every step. The model says four calls, each of which it chooses among many by sampling; their times are lognormal
(sigma 1.6, as in ``python -m tests.bench rollouts``, whose time is simulated). All modes meet the same times, drawn by
the seeds of the episodes; a group that is begun anew meets its own again.

With ``TOOL_KIND=work`` nothing waits on purpose: the model searches the bundled documents or computes bootstrap
intervals, each as likely, or answers. What a call takes is what retrieval and the session take for it beside all
others; numbers of draws are lognormal. These tools need the processors on which everything else runs, too.

Samples per second are those of the trained groups; the first steps, in which nothing is ahead yet, do not count.
``TOOL_STEPS`` is the number of steps that do (12), ``TOOL_AGES`` the ages between commas (1,2,4).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from fathom.clients import Clients, connect
from fathom.core.call import Lane
from fathom.domain.smollm2 import smollm2_folder
from fathom.services.local import Endpoints, LocalSettings, LocalStack
from fathom.trainers.batch import DataProto
from fathom.trainers.config import load_config
from fathom.trainers.rollouts import PlannerRollouts
from fathom.trainers.rollouts.loop_thread import LoopThread
from fathom.trainers.rollouts.publisher import Publisher
from fathom.trainers.store_files import StoredFiles, StoreFolder
from fathom.transport.store import ObjectStore, open_store
from tests.bench.chaos.chaos import HOME, lay_out
from tests.support.training.reciter import add_speeches, write_reciter

# Sessions of the sandbox for one tenant.
PLACES = 12
SAMPLES, GROUPS, TURNS = 3, 4, 4
FILL = 4
MEDIAN_S, SIGMA, LONGEST_S = 0.2, 1.6, 12.0
# About what the episodes of a step take when all places are busy.
LEARN_S = 2.0
# Of each turn: so many that a step meets the whole tail.
TIMES = 200
NAME = "long-tailed"
# Of a step's working calls: draws of the median one, about 0.05 s alone, and of the longest.
DRAWS, MOST_DRAWS = 1_000, 60_000
# Share of the working model's replies that are answers, so that most episodes have two or three calls.
ANSWERS = 0.25
SUBJECTS = ("inflation", "unemployment", "the central bank", "a merger", "oil prices", "an airline", "exports", "wages")
PLACES_OF_NEWS = ("Australia", "the United States", "Asia", "Sydney", "New Zealand", "Europe", "Japan", "Melbourne")
# Of the session's own calls, which choose the next turn's.
MARK = "turn="
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    f"{{% set parts = messages[-1]['content'].split('{MARK}') %}}"
    "{{ parts[-1][:1] if parts | length > 1 else '0' }}{% endif %}"
)


@dataclass(frozen=True)
class Measured:
    """Hold what a mode came to: samples per second, the largest age, groups begun anew and seconds waited, per step."""

    rate: float
    age: int
    begun_anew: float
    wait_s: float
    calls: float
    """Tool calls per episode."""


def write_call(turn: int, seconds: float) -> str:
    cell = f"import time\ntime.sleep({seconds:.3f})\nprint('{MARK}{turn + 1}')"
    call = {"name": "python", "arguments": {"intent": "wait", "code": cell}}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


def write_tool_call(name: str, **arguments: str) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': {'intent': 'find out', **arguments}})}\n</tool_call>"


def make_work() -> dict[str, list[str]]:
    """Return searches, calculations of long-tailed length, and answers, any of which is said in any turn."""
    chooser = random.Random(1)
    searches = [
        write_tool_call("search", query=f"{subject} in {place}") for subject in SUBJECTS for place in PLACES_OF_NEWS
    ]
    cells = []
    for number in range(len(searches)):
        draws = min(MOST_DRAWS, int(DRAWS * chooser.lognormvariate(0.0, SIGMA)))
        cells.append(
            f"changes = np.random.default_rng({number}).normal(0.0, 0.01, 252)\n"
            f"means = [np.random.default_rng(draw).choice(changes, 252).mean() for draw in range({draws})]\n"
            "print(np.percentile(means, [5, 95]))"
        )
    calls = [*searches, *(write_tool_call("python", code=cell) for cell in cells)]
    answers = [f"I have found it, {number}." for number in range(int(len(calls) * ANSWERS / (1 - ANSWERS)))]
    return {"0": [*calls, *answers]}


def make_waits() -> dict[str, list[str]]:
    """Return calls of long-tailed times by the turn in which they are said."""
    chooser = random.Random(1)
    times = [min(LONGEST_S, MEDIAN_S * chooser.lognormvariate(0.0, SIGMA)) for _ in range(TIMES * TURNS)]
    # A thousandth apart at least, since each text is a token of its own.
    speeches = {
        str(turn): list(dict.fromkeys(write_call(turn, seconds) for seconds in times[turn::TURNS]))
        for turn in range(TURNS)
    }
    return {**speeches, str(TURNS): ["I have waited."]}


# By kind of tools; each makes the model's replies, by how the prompt's end numbers the turn.
SPEECHES = {"wait": make_waits, "work": make_work}


def write_model(folder: Path, kind: str) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(str(smollm2_folder(HOME / "models")), local_files_only=True)
    # SmolLM2's own ends every prompt alike; the end is all that this model reads.
    tokenizer.chat_template = TEMPLATE
    speeches = SPEECHES[kind]()
    add_speeches(tokenizer, [text for texts in speeches.values() for text in texts])
    write_reciter(folder, tokenizer, {f"\n{turn}": texts for turn, texts in speeches.items()})


def upload(folder: Path, target: StoreFolder) -> StoredFiles:
    return target.upload(folder)


def make_prompts(mode: str, batch: int, is_ahead: bool) -> DataProto:
    """Return a batch of prompts, whose episodes have the same seeds in every mode."""
    rows = range(batch * GROUPS, (batch + 1) * GROUPS)
    arrays: dict[str, list[Any]] = {
        "uid": [f"{mode}-{row}" for row in rows],
        "question": [f"Wait, number {row}." for row in rows],
        "reward_model": [{"ground_truth": {"target": ["x"]}} for _ in rows],
    }
    # Ahead of time a group's place counts from the first batch on, at the barrier from its own.
    seed = 1 if is_ahead else 1 + batch * GROUPS * SAMPLES
    return DataProto.from_dict({}, arrays, {"n": SAMPLES, "seed": seed, "step": batch + 1})


def measure(loop: LoopThread, clients: Clients, publisher: Publisher, folder: Path, staleness: int, steps: int) -> Measured:  # fmt: skip
    """Return what a training of so many steps came to; a staleness of 0 is the barrier."""
    overrides = [
        f"model.name={NAME}", f"rollout.n={SAMPLES}", "rollout.protocol=research", "rollout.tools=[python,search]",
        f"rollout.max_turns={TURNS + 1}", "rollout.max_tokens=8", "rollout.timeout_s=600", "reward.grader=em",
        f"rollout.concurrency={PLACES}",
    ]  # fmt: skip
    if staleness:
        overrides += ["rollout.mode=async", f"rollout.staleness={staleness}", "rollout.group_versions=weighted"]
        overrides += ["rollout.importance_cap=2.0"]
    source = PlannerRollouts(load_config(overrides=overrides), clients, publisher, loop)
    mode = f"age{staleness}"
    # A version of this mode's own: no sample is older than its first batch.
    source.publish(partial(upload, folder))
    for batch in range(source.ahead):
        source.submit(make_prompts(mode, batch, True))
    oldest, anew, waited, calls, started = 0, 0.0, 0.0, [0.0], 0.0
    for step in range(FILL + steps):
        if step == FILL:
            anew, waited, calls, started = 0.0, 0.0, [], time.monotonic()
        data = source.generate(make_prompts(mode, step + source.ahead, bool(staleness)))
        metrics = data.meta_info["metrics"]
        oldest = max(oldest, int(metrics["rollout/age/max"]))
        anew, waited = anew + metrics["rollout/begun_anew"], waited + metrics["rollout/wait_s"]
        calls.append(metrics["rollout/tool_calls/mean"])
        # The loop of requests is another thread's, which goes on meanwhile as it does beside a learner.
        time.sleep(LEARN_S)
        source.publish(partial(upload, folder))
    seconds = time.monotonic() - started
    source.close()
    return Measured(steps * GROUPS * SAMPLES / seconds, oldest, anew / steps, waited / steps, statistics.fmean(calls))


def compare(endpoints: Endpoints, folder: Path, ages: Sequence[int], steps: int) -> None:
    """Print samples per second of the barrier, and of each age against it."""
    with LoopThread() as loop:

        async def open_services() -> tuple[Clients, ObjectStore]:
            return connect(endpoints.services, lane=Lane.TRAINING), open_store(endpoints.store)

        clients, store = loop.call(open_services())
        publisher = Publisher(clients, store, endpoints.store, NAME)
        base = 0.0
        for staleness in (0, *ages):
            found = measure(loop, clients, publisher, folder, staleness, steps)
            base = base or found.rate
            name = f"age {staleness}" if staleness else "barrier"
            print(
                f"  {name:8} {found.rate:6.2f} samples/s  {found.rate / base:.2f}x  oldest {found.age}"
                f"  waited {found.wait_s:.1f} s a step  {found.begun_anew:.2f} groups begun anew per step"
                f"  {found.calls:.2f} calls per episode",
                flush=True,
            )
        loop.call(clients.close())
        loop.call(store.close())


async def run() -> None:
    """Needs the bundled data under ``.fathom`` (``make data``)."""
    steps, kind = int(os.environ.get("TOOL_STEPS", "12")), os.environ.get("TOOL_KIND", "wait")
    ages = [int(age) for age in os.environ.get("TOOL_AGES", "1,2,4").split(",")]
    tools = f"{TURNS} calls each, median {MEDIAN_S:g} s" if kind == "wait" else "searches and calculations"
    print(
        f"{GROUPS} groups of {SAMPLES} on {PLACES} sessions, {tools}, learner"
        f" {LEARN_S:g} s, {steps} steps; load {os.getloadavg()[0]:.0f}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "model"
        write_model(model, kind)
        settings = LocalSettings(
            home=lay_out(folder / "home", HOME), gateway_port=0, models={"rules": {"engine": "rules"}},
            ready_timeout_s=300,
        )  # fmt: skip
        async with LocalStack(settings).running() as endpoints:
            await asyncio.to_thread(compare, endpoints, model, ages, steps)
    print(f"  load {os.getloadavg()[0]:.0f} at the end")
