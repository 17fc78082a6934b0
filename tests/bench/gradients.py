"""Largest difference between gradients of one mini-batch, however it is cut: into passes, over ranks, by sequence.

The baseline of every line is one pass over all rows on one rank. Gradients are those of the policy (clipped loss,
entropy) and of the value function, in float32; a difference is shown beside the largest gradient.
"""

from __future__ import annotations

import asyncio
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.unit.trainers.ranks import as_ranks
from tests.unit.trainers.test_learners import batch, settings
from trainers.config import TrainConfig
from trainers.learners.fsdp import rank, world
from trainers.learners.workers import ActorWorker, CriticWorker
from trainers.workers import deal

SHARES = tuple(f"{role}.ulysses_sequence_parallel_size=2" for role in ("actor", "critic"))
ALONE = {
    "1 row per pass": ("actor.ppo_micro_batch_size_per_gpu=1", "critic.ppo_micro_batch_size_per_gpu=1"),
    "2 rows per pass": ("actor.ppo_micro_batch_size_per_gpu=2", "critic.ppo_micro_batch_size_per_gpu=2"),
    "all rows in one pass, again": (),
    "24 tokens per pass": tuple(
        f"{role}.{setting}"
        for role in ("actor", "critic")
        for setting in ("use_dynamic_bsz=true", "ppo_max_token_len_per_gpu=24")
    ),
    "activations recomputed": ("model.enable_gradient_checkpointing=true",),
}
TOGETHER = {
    "2 ranks, copies": ("trainer.strategy=replicate",),
    "2 ranks, shards (FSDP2)": (),
    "2 ranks, shards, 1 row per pass": ALONE["1 row per pass"],
    "sequence parallel 2, copies": (*SHARES, "trainer.strategy=replicate"),
    "sequence parallel 2, shards": SHARES,
}
Gradients = dict[str, torch.Tensor]


async def run() -> None:
    """Needs torch and transformers; starts two processes."""
    await asyncio.to_thread(compare)


def compare() -> None:
    torch.set_num_threads(1)
    whole = gradients(given())
    found = {name: gradients(given(*overrides)) for name, overrides in ALONE.items()}
    with tempfile.TemporaryDirectory() as folder:
        found |= as_ranks(2, Path(folder), of_ranks)[0]
    print(f"{'largest difference (largest gradient)':<40}{'policy':>22}{'values':>22}")
    for name, other in found.items():
        cells = "".join(
            f"{difference(whole[role], other[role]):>12.1e} ({whole[role].abs().max():.1e})" for role in whole
        )
        print(f"{name:<40}{cells}")


def difference(left: torch.Tensor, right: torch.Tensor) -> float:
    return float((left - right).abs().max())


def given(*overrides: str) -> TrainConfig:
    return settings("actor.entropy_coeff=0.01", "actor.optim.grad_clip=1e9", "critic.optim.grad_clip=1e9", *overrides)


def of_ranks() -> dict[str, Gradients]:
    return {name: gradients(given(*overrides)) for name, overrides in TOGETHER.items()}


def gradients(config: TrainConfig) -> Gradients:
    """What an update steps along: gradients of all parameters, read where the optimiser reads them."""
    actor, critic = ActorWorker(config), CriticWorker(config)
    data = batch()
    own = data[deal(data, world() // actor.sharing)[rank() // actor.sharing]]
    own = own.with_tensors(old_log_probs=actor.compute_log_prob(own).tensor("old_log_probs") + 0.1)
    found = {}
    for role, learner, update in (
        ("policy", actor.learner, lambda: actor.update_policy(own)),
        ("values", critic.learner, lambda: critic.update_critic(own)),
    ):
        optimizer: Any = learner.stepper.optimizer
        seen: list[torch.Tensor] = []
        optimizer.register_step_pre_hook(partial(note, seen))
        update()
        found[role] = seen[0]
    return found


def note(seen: list[torch.Tensor], optimizer: torch.optim.Optimizer, *_: object) -> None:
    seen.append(flat(optimizer))


def flat(optimizer: torch.optim.Optimizer) -> torch.Tensor:
    from torch.distributed.tensor import DTensor

    parts = [parameter.grad for group in optimizer.param_groups for parameter in group["params"]]
    return torch.cat([(part.full_tensor() if isinstance(part, DTensor) else part).flatten() for part in parts])
