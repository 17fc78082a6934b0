"""The lookup task on the real stack: its corpus in retrieval, its model warm-started, its trainer assembled."""

from __future__ import annotations

import random
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import torch

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.clients import Clients, connect
from fathom.services.local import Endpoints, LocalSettings, LocalStack
from fathom.trainers.algorithms.context import TrainingContext
from fathom.trainers.algorithms.ppo import RayPPOTrainer
from fathom.trainers.checkpoints import StoreCheckpoints
from fathom.trainers.config import TrainConfig
from fathom.trainers.data.comparison import SYSTEM_PROMPT, records
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.interfaces import Metrics
from fathom.trainers.jobs import assembly
from fathom.trainers.jobs.registry import build_algorithm
from fathom.trainers.learners import tiny
from fathom.trainers.rollouts import PlannerRollouts
from fathom.trainers.rollouts.loop_thread import LoopThread
from fathom.trainers.rollouts.publisher import Publisher
from fathom.transport.store import open_store
from tests.support.training.lessons import warm_start
from tests.support.training.lookups import Lookup, lessons, lookups, vocabulary

CORPUS = "lookups"
# Of 48 facts, ten in words that other facts share.
HELD_OUT = 10
LESSONS, WARM_STEPS = 1500, 400
TOGETHER = 64
"""Episodes in flight: a tiny model's step costs as much for one as for all of them."""


@asynccontextmanager
async def toy_stack(home: Path, tables_dir: Path, corpus_dir: Path) -> AsyncIterator[Endpoints]:
    """Every service, with the facts of seed 7 as planner's corpus."""
    prepare(home, tables_dir, corpus_dir)
    settings = LocalSettings(
        home=home, gateway_port=0, config=home / "fathom.yaml", models={"rules": {"engine": "rules"}}
    )
    async with LocalStack(settings).running() as endpoints:
        clients = connect(endpoints.services)
        await ingest(clients, lookups())
        await clients.close()
        yield endpoints


def prepare(home: Path, tables_dir: Path, corpus_dir: Path) -> None:
    """A home with the bundled data, whose planner searches the facts."""
    (home / "data").mkdir(parents=True)
    shutil.copytree(tables_dir, home / "data" / "tables")
    shutil.copytree(corpus_dir, home / "data" / "corpus")
    (home / "fathom.yaml").write_text(
        f"planner: {{corpus: {CORPUS}, concurrent_rollouts: {TOGETHER}}}\n"
        # One thread: with two the sampler would take the learner's core.
        f"policy: {{trained: {{running: {TOGETHER}, waiting: 128, threads: 1}}}}\n"
    )


async def ingest(clients: Clients, facts: list[Lookup]) -> None:
    """The facts as documents, served."""

    async def documents() -> AsyncIterator[pb.IngestRequest]:
        for fact in facts:
            document = pb.Document(id=fact.id, title=fact.title, text=fact.text)
            yield pb.IngestRequest(request_id=f"ingest-{CORPUS}", corpus=CORPUS, document=document)

    done = await clients.retrieval.ingest(documents())
    await clients.retrieval.activate_snapshot(pb.ActivateSnapshotRequest(corpus=CORPUS, snapshot=done.snapshot))


def parts(seed: int) -> tuple[list[Lookup], list[Lookup]]:
    """(training, held out) facts."""
    facts = lookups()
    # By the seed: every seed holds out other facts.
    random.Random(seed).shuffle(facts)
    return facts[HELD_OUT:], facts[:HELD_OUT]


def warm_model(folder: Path, seed: int) -> Path:
    """A tiny model that can search and read, and mostly guesses."""
    torch.set_num_threads(1)
    words = vocabulary()
    tokenizer, model = tiny.build_tokenizer(words), tiny.build_model(words, 64, 2, seed, 256)
    training, _ = parts(seed)
    warm_start(model, tokenizer, lessons([fact.id for fact in training], LESSONS, seed), steps=WARM_STEPS, seed=seed)
    folder.mkdir(parents=True)
    tiny.save(model, tokenizer, folder)
    return folder


def overrides(folder: Path, seed: int) -> list[str]:
    """Return what every algorithm's proof has in common: 16 prompts of 8 episodes, two passes in two mini-batches."""
    batching = ("ppo_mini_batch_size=8", "ppo_micro_batch_size_per_gpu=64", "ppo_epochs=2")
    return [
        f"model.path={folder}", "model.name=toy", "data.train_batch_size=16", f"data.seed={seed}", "rollout.n=8",
        "rollout.max_turns=1", "rollout.max_tokens=6", f"rollout.system_prompt={SYSTEM_PROMPT}", "rollout.record=false",
        "reward.grader=em", "actor.optim.lr_scheduler_type=cosine", "actor.optim.min_lr_ratio=0.1",
        "actor.optim.lr=8e-4", "critic.optim.lr=2e-3", f"trainer.seed={seed}",
        *(f"{learner}.{setting}" for learner in ("actor", "critic") for setting in batching),
        "trainer.total_training_steps=8", "trainer.test_freq=0", "trainer.save_freq=0", "trainer.val_before_train=true",
        "data.oversample_factor=1.0", "reward.manager=service", "reward_model.optim.lr=5e-4",
        "reward_model.mini_batch_size=8", "reward_model.micro_batch_size_per_gpu=64",
    ]  # fmt: skip


@contextmanager
def toy_trainer(algorithm: str, config: TrainConfig, endpoints: Endpoints, seen: list[Metrics]) -> Iterator[RayPPOTrainer]:  # fmt: skip
    """The algorithm's trainer against the running services; call ``fit`` from a thread without a loop of its own."""
    training, held_out = parts(config.trainer.seed)
    with LoopThread() as loop:

        async def open_services() -> tuple[Clients, Any]:
            return connect(endpoints.services), open_store(endpoints.store)

        clients, store = loop.call(open_services())
        rollouts = PlannerRollouts(config, clients, Publisher(clients, store, endpoints.store, config.model.name), loop)
        context = TrainingContext(
            rollouts,
            Prompts(records([fact.task for fact in training], "train"), seed=config.data.seed),
            Prompts(records([fact.task for fact in held_out], "held_out"), shuffle=False),
            StoreCheckpoints(
                store, endpoints.store, f"{config.model.name}-{algorithm}-{config.trainer.seed}", call=loop.call
            ),
            lambda step, metrics: seen.append(dict(metrics)),
        )
        try:
            yield assembly.build_trainer(build_algorithm(algorithm, config), None, context)
        finally:
            loop.call(clients.close())
            loop.call(store.close())
