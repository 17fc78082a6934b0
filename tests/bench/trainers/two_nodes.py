"""The same training with its two ranks on one Ray node and on one node each, in turn.

Nodes are those of the rehearsal: processes of this machine, each with a disk of its own in a mount namespace. They share
its processors, so that a second node brings no power here: the ratio says what it costs, in places, messages and weights
that no longer lie on the same disk. Model, prompts, seeds and episodes per step are the same; the weights at the end are
compared. ``TWO_NODES_STEPS`` is the number of steps of each training (12), the first ``UNCOUNTED`` of which do not count.
Most of the time goes into starting Ray and the driver anew for each training, so each one says when it has ended.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from fathom.services.local import Endpoints, LocalSettings, LocalStack
from fathom.transport.store import open_store
from tests.bench.chaos.chaos import HOME, SERVICES, environment, lay_out
from tests.bench.trainers.rehearsal import EXAMPLE, read_weights
from tests.bench.trainers.rehearsal_parts import OPEN, Driver, RayNodes

PLACES: Mapping[str, Sequence[int]] = {"one node": (2,), "two nodes": (1, 1)}
"""Places for ranks, by node."""
ROUNDS, UNCOUNTED, SAMPLES_PER_STEP = 2, 2, 8 * 16
SETTINGS = (
    "trainer.world_size=2", "trainer.test_freq=0", "trainer.val_before_train=false", "trainer.save_freq=0",
    "trainer.loggers=[jsonl]", "collapse.enable=false", "rollout.record=false",
)  # fmt: skip
PHASES = {"rollouts": ("gen",), "learner": ("old_log_prob", "update_actor"), "publication": ("publish",)}
Line = dict[str, float]


async def train(folder: Path, endpoints: Endpoints, name: str, places: Sequence[int], steps: int) -> list[Line]:
    """Train on nodes with so many places; return the metrics of the steps that count."""
    place = folder / name
    place.mkdir()
    started = time.monotonic()
    async with RayNodes(place, places).running() as nodes:
        up = time.monotonic()

        def arguments(attempt: int) -> Sequence[str]:
            return (
                "grpo", "--config", str(EXAMPLE), *SETTINGS, f"model.name={name}",
                f"trainer.total_training_steps={steps}", f"trainer.output={place}/disk/{name}.{attempt}/{name}",
            )  # fmt: skip

        environ = {
            "FATHOM_RUNTIME_ENDPOINTS": json.dumps(dict(endpoints.services)),
            "FATHOM_RUNTIME_STORE_URL": endpoints.store, "RAY_ADDRESS": nodes.address,
            "TMPDIR": str(place / "disk"), **OPEN,
        }  # fmt: skip
        driver = Driver(name, place, arguments, environ)
        await driver.train(1)
    lines = driver.read_lines()
    whole, nodes_s, steps_s = time.monotonic() - started, up - started, sum(line["timing_s/step"] for line in lines)
    print(f"{name}: {whole:.0f} s, of which nodes {nodes_s:.0f}, steps {steps_s:.0f}", flush=True)
    return lines[UNCOUNTED:]


def seconds_of(lines: Sequence[Line], phases: Sequence[str]) -> float:
    """Return the median seconds of a step's phases."""
    return statistics.median(sum(line.get(f"timing_s/{phase}", 0.0) for phase in phases) for line in lines)


async def run() -> None:
    """Needs the bundled data under ``.fathom`` (``make data``), and the right to mount; a few minutes."""
    steps = int(os.environ.get("TWO_NODES_STEPS", "12"))
    found: dict[str, list[list[Line]]] = {name: [] for name in PLACES}
    weights = set()
    async with AsyncExitStack() as contexts:
        # Sockets of Ray lie below, whose names may have about 100 characters.
        folder = Path(contexts.enter_context(tempfile.TemporaryDirectory(prefix="nodes-", dir="/tmp")))
        contexts.enter_context(environment({**SERVICES, "OMP_NUM_THREADS": "1"}))
        lay_out(folder / "home", HOME)
        settings = LocalSettings(
            home=folder / "home", processes=True, gateway_port=0, models={"rules": {"engine": "rules"}},
            ready_timeout_s=300,
        )  # fmt: skip
        endpoints = await contexts.enter_async_context(LocalStack(settings).running())
        store = open_store(endpoints.store)
        contexts.push_async_callback(store.close)
        for number in range(ROUNDS):
            # In the other order every second time: the machine and the services change while they are at it.
            for kind, places in sorted(PLACES.items(), reverse=number % 2 == 1):
                name = f"n{len(places)}-{number}"
                found[kind].append(await train(folder, endpoints, name, places, steps))
                weights.add(await read_weights(store, name))
    print(f"| {steps - UNCOUNTED} steps of {SAMPLES_PER_STEP} samples | samples/s | step | {' | '.join(PHASES)} |")
    print("|---|" + "---|" * (2 + len(PHASES)))
    for kind, rounds in found.items():
        lines = [line for one in rounds for line in one]
        step, shown = seconds_of(lines, ("step",)), [f"{seconds_of(lines, names):.2f} s" for names in PHASES.values()]
        print(f"| {kind} | {SAMPLES_PER_STEP / step:.0f} | {step:.2f} s | {' | '.join(shown)} |")
    for what, names in (
        ("steps", ("step",)),
        ("learner and publication", (*PHASES["learner"], *PHASES["publication"])),
    ):
        # By rounds that stood beside each other: what else the machine does hits both.
        pairs = list(zip(found["one node"], found["two nodes"], strict=True))
        ratios = [seconds_of(two, names) / seconds_of(one, names) for one, two in pairs]
        print(
            f"{what}, time on two nodes / on one: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )
    print("the weights are " + ("equal" if len(weights) == 1 else f"{len(weights)} different ones"))
