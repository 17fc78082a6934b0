"""A training that is killed, with a barrier and sampling ahead of time: nothing is lost, nothing is trained on twice.

With a barrier, exact means the same bits as without the kill. Ahead of time the order in which episodes end decides
what a step learns from, so exact means: each prompt of each epoch is in the training once, none is older than the
bound, and the record of the steps, replayed in one go, ends in the same bits.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import Trajectory
from fathom.trainers.algorithms.context import TrainingContext
from fathom.trainers.algorithms.grpo import GRPO
from fathom.trainers.algorithms.ppo import RayPPOTrainer
from fathom.trainers.checkpoints import StoreCheckpoints
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.jobs import assembly
from fathom.trainers.jobs.registry import load_settings
from fathom.trainers.learners.models import load_tokenizer
from fathom.trainers.rollouts.recording import Recording, split
from fathom.trainers.rollouts.replayed import ReplayedRollouts
from fathom.transport.store import open_store
from tests.support.clock import SimulatedLoopThread
from tests.unit.trainers.jobs.test_resume import KillingStore
from tests.unit.trainers.rollouts.scripted_planner import ScriptedPlanner
from tests.unit.trainers.rollouts.test_rollouts import source

ROWS, SIZE, EPOCHS, BOUND = 6, 2, 2, 2
STEPS_PER_EPOCH = ROWS // SIZE
STEPS = EPOCHS * STEPS_PER_EPOCH
AHEAD = ["rollout.mode=async", f"rollout.staleness={BOUND}", "rollout.group_versions=weighted",
         "rollout.importance_cap=2.0"]  # fmt: skip


class Killed(BaseException):
    """Stand in for the end of a process."""


class Planner(ScriptedPlanner):
    """Its episodes follow from the question, their durations have a long tail."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        super().__init__(lambda uid, sample: rng.lognormvariate(0.0, 1.5))

    async def played_out(self, request: pb.RolloutRequest, task: int, sample: int) -> Trajectory:
        item = await super().played_out(request, task, sample)
        item.token_ids[0] = 10 + zlib.crc32(request.tasks[task].question.encode()) % 30
        return item


def training(root: Path, mode: str, bridge: Any, seed: int, kill: Callable[[str], None], replay: bool) -> RayPPOTrainer:
    """GRPO on a tiny model over a scripted planner, with checkpoints and a record of batches under ``root``."""
    words = [f"w{number}" for number in range(100)]
    config = load_settings("grpo", [], [
        "model.path=tiny", "model.hidden=8", "model.layers=1", f"model.vocabulary={words}", "rollout.n=2",
        f"data.train_batch_size={SIZE}", f"actor.ppo_mini_batch_size={SIZE}", "actor.optim.lr=0.01",
        f"trainer.total_epochs={EPOCHS}", "trainer.save_freq=1", "trainer.test_freq=0", "trainer.val_before_train=false",
        *(AHEAD if mode == "async" else []),
    ])  # fmt: skip
    url = (root / "store").resolve().as_uri()
    store: Any = open_store(url)
    recording = Recording(store, "rollouts")
    if replay:
        rollouts: Any = ReplayedRollouts(recording, bridge, BOUND if mode == "async" else 0)
        kept = None
    else:
        rollouts = source(Planner(seed), bridge, config, recording)
        killing = KillingStore(store, 0)
        cast(Any, killing).put = put_until(store, kill)
        kept = StoreCheckpoints(cast(Any, killing), url, "toy", 2, bridge.call)
    rows = [{"data_source": "toy", "question": f"question {row}", "reward_model": {}} for row in range(ROWS)]
    context = TrainingContext(rollouts, Prompts(rows, seed=3), None, kept)
    return assembly.build_trainer(GRPO(config), load_tokenizer(config.model), context)


def put_until(store: Any, kill: Callable[[str], None]) -> Any:
    async def put(key: str, *arguments: Any) -> Any:
        stored = await store.put(key, *arguments)
        kill(key)
        return stored

    return put


def train_model(
    root: Path, mode: str, seed: int = 1, kill: Callable[[str], None] = lambda key: None, *, replay: bool = False
) -> dict[str, torch.Tensor]:
    """Train to the end and return the parameters."""
    torch.set_num_threads(1)
    with SimulatedLoopThread() as bridge:
        trainer = training(root, mode, bridge, seed, kill, replay)
        trainer.fit()
        actor: Any = trainer.actor
        return {name: value.clone() for name, value in actor.worker.learner.model.state_dict().items()}


def at(step: int, end: Callable[[], None]) -> Callable[[str], None]:
    """Ends the process when the first file of this step's checkpoint is there, and its manifest is not."""

    def kill(key: str) -> None:
        if f"/{step:08d}/" in key:
            end()

    return kill


def raise_killed() -> None:
    raise Killed


def sigkill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_for_good(root: Path, mode: str, step: int) -> None:
    train_model(root, mode, 1, at(step, sigkill))


def given_out(root: Path) -> list[str]:
    """Prompts of all steps as recorded."""
    import asyncio
    import json

    async def read() -> list[str]:
        store = open_store((root / "store").resolve().as_uri())
        found = []
        for item in await store.list("rollouts/step-"):
            header = json.loads(next(split(item.key, await store.get(item.key))))
            found += [one["uid"] for one in header["groups"]]
        return found

    return asyncio.run(read())


def exact(root: Path, mode: str, ended: dict[str, torch.Tensor]) -> None:
    """Every prompt of every epoch once, and the record ends in the same bits."""
    assert sorted(given_out(root)) == sorted(f"{step}-{place}" for step in range(STEPS) for place in range(SIZE))
    replayed = train_model(root, mode, replay=True)
    assert all(torch.equal(value, replayed[name]) for name, value in ended.items())


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("step", [STEPS_PER_EPOCH, STEPS_PER_EPOCH + 1, STEPS - 1])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_killed_training_is_exact(tmp_path: Path, mode: str, step: int) -> None:
    """Killed while a step's checkpoint is written: it goes on within an epoch, at its boundary, and near the end."""
    with pytest.raises(Killed):
        train_model(tmp_path / "broken", mode, 1, at(step, raise_killed))
    ended = train_model(tmp_path / "broken", mode, seed=2)
    exact(tmp_path / "broken", mode, ended)
    if mode == "sync":
        assert same(ended, train_model(tmp_path / "straight", mode)), "the same bits as without the kill"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_training_that_ends_by_sigkill_is_exact(tmp_path: Path, mode: str) -> None:
    spawned = multiprocessing.get_context("spawn").Process(target=killed_for_good, args=(tmp_path, mode, 4))
    spawned.start()
    spawned.join(300)
    assert spawned.exitcode == -signal.SIGKILL
    exact(tmp_path, mode, train_model(tmp_path, mode, seed=2))
