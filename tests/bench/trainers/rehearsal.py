"""Two trainings on two Ray nodes, undisturbed, and again while each part that they need is killed in turn.

``REHEARSAL_STEPS`` is the number of steps of each training (200). Stack, nats-server, S3 server, and nodes with disks of
their own are real; learners save a checkpoint after every step. Ends with an error when weights or metrics differ from
those of the undisturbed trainings, or when more than the step under way had to be done again; both are said of each part.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fathom.services.local import Endpoints, LocalSettings, LocalStack
from fathom.trainers.rollouts.publisher import CLAIM
from fathom.transport.store import ObjectStore, open_store
from tests.bench.chaos.chaos import HOME, SERVICES, environment, lay_out
from tests.bench.trainers.rehearsal_parts import OPEN, START_S, Driver, RayNodes, find_below, kill, s3_store, start_node
from tests.support.waiting import eventually

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "train" / "grpo.yaml"
ALGORITHMS = {"a": "grpo", "b": "ppo"}
"""Algorithm by training; the second takes its episodes from the durable queue."""
SMALL = (
    "model.hidden=16", "model.layers=1", "data.train_batch_size=2", "rollout.n=8",
    "actor.ppo_mini_batch_size=2", "trainer.test_freq=0", "trainer.val_before_train=false", "trainer.loggers=[jsonl]",
    "trainer.save_freq=1", "trainer.keep_checkpoints=2", "collapse.enable=false", "rollout.record=false",
)  # fmt: skip
OF_PPO = ("critic.ppo_mini_batch_size=2", "rollout.transport=queue")
ON_NODES, IN_DRIVER = ("trainer.world_size=2",), ("trainer.use_ray=false", "trainer.world_size=1")
# The second training has one rank on each node.
PLACES = (3, 1)
ATTEMPTS = 12
# Far longer than a caller waits who wants an answer.
STORE_AWAY_S = 20.0
# Of each step, on a machine much slower than ours; a step takes seconds.
STEP_WITHIN_S = 60.0
# What depends on the clock, or on how often weights were published.
TIMED = ("timing_s/", "perf/", "rollout/wait_s", "rollout/begun_anew")
# The sampler's log-probabilities are rounded by what else was sampled at the moment; no loss reads them.
ROUNDED, ROUNDING = "mismatch/", 1e-6


@dataclass
class Strike:
    """A part that is killed when the first training has finished ``step``, and what came of it."""

    part: str
    step: int
    at: dict[str, int] = field(default_factory=dict)
    """Finished steps by training when it was killed."""
    seconds: float = 0.0
    """Until both trainings had finished a further step."""
    again: dict[str, str] = field(default_factory=dict)
    """Steps done again by training: their number, and what was built anew for it."""
    differing: int = 0
    """Metrics that are not those of the undisturbed training, in the steps from this strike to the next."""


@dataclass
class Result:
    """Record what a pair of trainings ended with, by training."""

    weights: dict[str, str]
    lines: dict[str, dict[int, dict[str, float]]]
    seconds: float
    attempts: dict[str, int]


class Rehearsal:
    """The stack, the store, the nodes; plays pairs of trainings on them.

    Without nodes each driver is its training's only learner, which costs a third of the processes.
    """

    def __init__(self, folder: Path, steps: int, has_nodes: bool = True, store_away_s: float = STORE_AWAY_S) -> None:
        self.folder, self.steps, self.has_nodes, self.store_away_s = folder, steps, has_nodes, store_away_s
        self.within_s = START_S + STEP_WITHIN_S * steps
        self.drivers: dict[str, Driver] = {}

    async def enter(self, contexts: AsyncExitStack) -> None:
        """Start everything that trainings need, until ``contexts`` is closed."""
        contexts.enter_context(environment({**SERVICES, "OMP_NUM_THREADS": "1"}))
        if not (self.folder / "home").exists():
            lay_out(self.folder / "home", HOME)
        url, self.s3 = await contexts.enter_async_context(s3_store(self.folder))
        settings = LocalSettings(
            home=self.folder / "home", processes=True, gateway_port=0, store=url,
            models={"rules": {"engine": "rules"}}, ready_timeout_s=300,
        )  # fmt: skip
        self.stack = LocalStack(settings)
        self.endpoints: Endpoints = await contexts.enter_async_context(self.stack.running())
        self.store: ObjectStore = open_store(url)
        contexts.push_async_callback(self.store.close)
        if self.has_nodes:
            self.ray = await contexts.enter_async_context(RayNodes(self.folder, PLACES).running())

    def make_driver(self, run: str, training: str, model: str) -> Driver:
        """Return the driver of a training, whose disk is another one in every attempt."""
        algorithm = ALGORITHMS[training]
        name = f"{run}-{training}"

        def arguments(attempt: int) -> Sequence[str]:
            return (
                algorithm, "--config", str(EXAMPLE), *SMALL, *(OF_PPO if algorithm == "ppo" else ()),
                *(ON_NODES if self.has_nodes else IN_DRIVER),
                f"model.name={model}", f"trainer.total_training_steps={self.steps}",
                f"trainer.output={self.folder}/disk/{name}.{attempt}/{name}",
            )  # fmt: skip

        environ = {
            "FATHOM_RUNTIME_ENDPOINTS": json.dumps(dict(self.endpoints.services)),
            "FATHOM_RUNTIME_STORE_URL": self.endpoints.store, "TMPDIR": str(self.folder / "disk"), **OPEN,
        }  # fmt: skip
        if self.has_nodes:
            environ["RAY_ADDRESS"] = self.ray.address
        return Driver(name, self.folder, arguments, environ)

    async def play(self, run: str, strikes: Sequence[Strike] = ()) -> Result:
        """Train the pair to its end, with the strikes; raises what a training ended with."""
        self.drivers = {training: self.make_driver(run, training, f"{run}-{training}") for training in ALGORITHMS}
        started = time.monotonic()
        async with asyncio.timeout(self.within_s), asyncio.TaskGroup() as group:
            for driver in self.drivers.values():
                group.create_task(driver.train(ATTEMPTS))
            for strike in strikes:
                await self.strike(strike)
        lines = {name: {int(one["step"]): one for one in driver.read_lines()} for name, driver in self.drivers.items()}
        weights = {name: await read_weights(self.store, f"{run}-{name}") for name in self.drivers}
        attempts = {name: driver.attempts for name, driver in self.drivers.items()}
        return Result(weights, lines, time.monotonic() - started, attempts)

    def list_parts(self) -> list[str]:
        """Return the names of all parts that are there to be killed."""
        return [part for part in PARTS if self.has_nodes or part not in OF_NODES]

    def steps_of(self, training: str) -> int:
        lines = self.drivers[training].read_lines()
        return int(lines[-1]["step"]) if lines else 0

    async def strike(self, strike: Strike) -> None:
        """Kill a part once a training is there, bring it back, and wait for a further step of both."""
        await eventually(
            lambda: any(self.steps_of(name) >= strike.step for name in self.drivers),
            within_s=self.within_s,
            every_s=0.2,
        )
        before = {name: (len(driver.read_lines()), driver.attempts, driver.count_rebuilds())
                  for name, driver in self.drivers.items()}  # fmt: skip
        strike.at = {name: self.steps_of(name) for name in self.drivers}
        started = time.monotonic()
        for part in self.list_parts() if strike.part == ALL else (strike.part,):
            await PARTS[part](self)
        for name, driver in self.drivers.items():
            await eventually(
                lambda driver=driver, name=name: driver.status == 0 or len(driver.read_lines()) > before[name][0],  # type: ignore[arg-type]
                within_s=self.within_s, every_s=0.2,
            )  # fmt: skip
            lines, attempts, rebuilds = before[name]
            further = driver.read_lines()[lines:]
            # The step under way when its driver or a learner was lost, and finished ones that come again.
            interrupted = driver.attempts > attempts or driver.count_rebuilds() > rebuilds
            repeated = strike.at[name] + 1 - int(further[0]["step"]) if further else 0
            strike.again[name] = f"{int(interrupted) + repeated}" + ("" if not interrupted else (
                " (driver)" if driver.attempts > attempts else " (learners)"))  # fmt: skip
        strike.seconds = time.monotonic() - started


async def read_weights(store: ObjectStore, model: str) -> str:
    """Return the names of the newest version's files with the checksums of their contents."""
    keys = [key.split("/") for key in await store.keys(f"weights/{model}/")]
    newest = max(int(parts[2]) for parts in keys)
    # Names begin with checksums; manifests have dates.
    files = [parts[3] for parts in keys if int(parts[2]) == newest and parts[3] != CLAIM]
    return ", ".join(sorted(name for name in files if not name.startswith("manifest-")))


async def kill_rank(rehearsal: Rehearsal) -> None:
    """Kill a learner's rank, on the second node if there is one."""

    def find_ranks() -> list[int]:
        return [pid for node in reversed(rehearsal.ray.nodes) for pid in find_below(node, "ray::Rank")]

    kill((await eventually(find_ranks, within_s=START_S))[0])


async def kill_node(rehearsal: Rehearsal) -> None:
    """Kill the raylet of the second node, which ends everything there, and start the node again."""
    node = rehearsal.ray.nodes[1]
    for pid in find_below(node, "raylet/raylet"):
        kill(pid)
    assert node.process is not None
    await node.process.wait()
    await start_node(node)


async def kill_store(rehearsal: Rehearsal) -> None:
    """Kill the S3 server, and start it again over its folder after some seconds."""
    await rehearsal.s3.stop()
    await asyncio.sleep(rehearsal.store_away_s)
    await rehearsal.s3.start()


async def kill_driver(rehearsal: Rehearsal) -> None:
    """Kill the driver of the training that is ahead, of those that have not ended."""
    running = [name for name, driver in rehearsal.drivers.items() if driver.status != 0]
    machine = rehearsal.drivers[max(running, key=rehearsal.steps_of)].machine if running else None
    # Of one that has ended and is about to begin again, the process id may be somebody else's by now.
    if machine is not None and machine.process is not None and machine.process.returncode is None:
        kill(machine.pid)


def kill_service(name: str) -> Callable[[Rehearsal], Awaitable[None]]:
    async def strike(rehearsal: Rehearsal) -> None:
        kill(rehearsal.stack.pids()[name])

    return strike


PARTS: dict[str, Callable[[Rehearsal], Awaitable[None]]] = {
    "driver": kill_driver,
    "learner's rank": kill_rank,
    "policy": kill_service("policy"),
    "planner": kill_service("planner"),
    "reward": kill_service("reward"),
    "nats-server": kill_service("nats"),
    "S3 server": kill_store,
    "Ray node": kill_node,
}
OF_NODES = frozenset({"learner's rank", "Ray node"})
ALL = "all at once"


def plan_strikes(steps: int, parts: Sequence[str] = (*PARTS, ALL), begun: int = 0) -> list[Strike]:
    """Spread one strike per part evenly over the steps that are left."""
    left = steps - begun
    return [Strike(part, begun + left * (place + 1) // (len(parts) + 1)) for place, part in enumerate(parts)]


def find_differences(quiet: Result, struck: Result, strikes: Sequence[Strike] = ()) -> list[str]:
    """Name what the two pairs of trainings do not have in common: weights, or a metric of a step.

    Each strike is told how many of the metrics it has in its steps.
    """
    found = [f"{name}: weights" for name in quiet.weights if quiet.weights[name] != struck.weights[name]]
    for name, lines in quiet.lines.items():
        for step, metrics in lines.items():
            other = struck.lines[name].get(step, {})
            differing = [
                f"{name}, step {step}: {metric} {value!r} and {other.get(metric)!r}"
                for metric, value in metrics.items()
                if not metric.startswith(TIMED) and not is_equal(metric, value, other.get(metric))
            ]
            before = [strike for strike in strikes if strike.at.get(name, step) < step]
            if before:
                before[-1].differing += len(differing)
            found += differing
    return found


def list_broken_bounds(strikes: Sequence[Strike], differences: Sequence[str]) -> list[str]:
    """Say of each part whose kill lost more than the step under way or changed a metric, and of what else differs."""
    found = [
        f"{strike.part}: {training} did {lost} steps again"
        for strike in strikes
        for training, lost in strike.again.items()
        if int(lost.split()[0]) > 1
    ]
    found += [f"{strike.part}: {strike.differing} metrics differ after it" for strike in strikes if strike.differing]
    return [*found, *differences]


def is_equal(metric: str, value: float, other: float | None) -> bool:
    """Return whether a metric is the same, to the bit unless it is about the sampler's rounding."""
    if metric.startswith(ROUNDED) and other is not None:
        return abs(value - other) <= ROUNDING
    return value == other


async def rehearse(rehearsal: Rehearsal, strikes: Sequence[Strike], quiet: Path | None = None) -> tuple[Result, Result]:
    """Play the pair of trainings undisturbed, unless ``quiet`` has what came of it, then with the strikes."""
    steps = rehearsal.steps
    async with AsyncExitStack() as contexts:
        await rehearsal.enter(contexts)
        undisturbed = read_result(quiet, steps) if quiet is not None else None
        if undisturbed is None:
            undisturbed = await rehearsal.play("quiet")
            if quiet is not None:
                write_result(quiet, undisturbed)
        return undisturbed, await rehearsal.play("struck", strikes)


def write_result(path: Path, result: Result) -> None:
    path.write_text(json.dumps(asdict(result)), encoding="utf-8")


def read_result(path: Path, steps: int) -> Result | None:
    """Return what trainings of so many steps came to in an earlier rehearsal; None where there was none."""
    if not path.exists():
        return None
    kept = json.loads(path.read_text(encoding="utf-8"))
    kept["lines"] = {name: {int(step): one for step, one in lines.items()} for name, lines in kept["lines"].items()}
    result = Result(**kept)
    return result if all(max(lines) == steps for lines in result.lines.values()) else None


def print_strikes(strikes: Sequence[Strike]) -> None:
    """Print what came of the strikes that were made."""
    print(
        "| killed | at step of a, b | done again by a, b | seconds until both had a further step"
        " | metrics that differ until the next |\n|---|---|---|---|---|"
    )
    for one in strikes:
        if one.again:
            again = ", ".join(one.again.values())
            print(
                f"| {one.part} | {one.at['a']}, {one.at['b']} | {again} | {one.seconds:.1f} | {one.differing} |",
                flush=True,
            )


def count_steps(place: Path) -> int:
    """Return how many steps the struck trainings of an earlier rehearsal have finished, the one that is ahead."""
    steps = [0]
    for log in place.glob("struck-*.log"):
        lines = (line for line in log.read_text(errors="replace").splitlines() if line.startswith('{"step": '))
        steps += [int(json.loads(line)["step"]) for line in lines]
    return max(steps)


async def run(folder: str = "") -> None:
    """Needs the bundled data under ``.fathom`` (``make data``), and the right to mount.

    With a ``folder`` logs stay there, and the trainings that were undisturbed are not played again by the next
    rehearsal in it, which must be of the same source and on the same machine. ``REHEARSAL_PARTS`` names the parts to
    kill, between commas; ``REHEARSAL_RESUME`` is the place in ``folder`` of a rehearsal that was broken off, whose
    struck trainings go on from their checkpoints.
    """
    steps, named = int(os.environ.get("REHEARSAL_STEPS", "200")), os.environ.get("REHEARSAL_PARTS", "")
    broken_off = os.environ.get("REHEARSAL_RESUME", "")
    begun = count_steps(Path(folder) / broken_off) if broken_off else 0
    strikes = plan_strikes(steps, named.split(",") if named else (*PARTS, ALL), begun)
    quiet_file = Path(folder) / f"quiet-{steps}.json" if folder else None
    with ExitStack() as contexts:
        if folder:
            os.makedirs(folder, exist_ok=True)
            place = Path(folder) / broken_off if broken_off else Path(tempfile.mkdtemp(prefix="", dir=folder))
        else:
            # Sockets of Ray lie below, whose names may have about 100 characters.
            place = Path(contexts.enter_context(tempfile.TemporaryDirectory(prefix="rehearse-", dir="/tmp")))
        try:
            quiet, struck = await rehearse(Rehearsal(place, steps), strikes, quiet_file)
            differences = find_differences(quiet, struck, strikes)
        finally:
            print_strikes(strikes)
    compared = sum(len(metrics) for lines in quiet.lines.values() for metrics in lines.values())
    print(f"{steps} steps of each: {quiet.seconds:.0f} s undisturbed, {struck.seconds:.0f} s with kills;"
          f" starts of drivers {struck.attempts}; {len(differences)} differences in weights and {compared} metrics")  # fmt: skip
    if broken := list_broken_bounds(strikes, differences):
        raise SystemExit("\n".join(["a bound is broken:", *broken[:20]]))
