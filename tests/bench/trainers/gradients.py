"""Largest difference between gradients of one mini-batch, however it is cut: into passes, over ranks, by sequence.

All of micro-batches of 1, 2 and all rows, on 1 and 2 ranks, with sequences shared by 1 and 2.

The baseline of every line is one pass over all rows on one rank. Gradients are those of the policy (clipped loss,
entropy) and of the value function, in float32; a difference is shown beside the largest gradient.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fathom.trainers.config import TrainConfig
from fathom.trainers.learners.ranks.fsdp import rank, world
from fathom.trainers.learners.ranks.groups import shard_by_group
from fathom.trainers.learners.workers import ActorWorker, CriticWorker
from tests.unit.trainers.learners.ranks import as_ranks
from tests.unit.trainers.learners.test_learners import batch, settings

SHARES = tuple(f"{role}.ulysses_sequence_parallel_size=2" for role in ("actor", "critic"))


def passes(rows: int) -> tuple[str, ...]:
    return tuple(f"{role}.ppo_micro_batch_size_per_gpu={rows}" for role in ("actor", "critic"))


CUTS = {"1 row per pass": passes(1), "2 rows per pass": passes(2), "all rows in one pass": ()}
OTHER_CUTS = {
    "24 tokens per pass": tuple(
        f"{role}.{setting}"
        for role in ("actor", "critic")
        for setting in ("use_dynamic_bsz=true", "ppo_max_token_len_per_gpu=24")
    ),
    "activations recomputed": ("model.enable_gradient_checkpointing=true",),
}
COPIES = ("trainer.strategy=replicate",)
PLACES: dict[int, dict[str, tuple[str, ...]]] = {
    1: {"1 rank": ()},
    2: {
        "2 ranks, copies": COPIES,
        "2 ranks, shards (FSDP2)": (),
        "sequence parallel 2, copies": (*SHARES, *COPIES),
        "sequence parallel 2, shards": SHARES,
    },
    4: {"2 x sequence parallel 2, copies": (*SHARES, *COPIES), "2 x sequence parallel 2, shards": SHARES},
}
Gradients = dict[str, torch.Tensor]


async def run() -> None:
    """Needs torch and transformers; starts up to four processes."""
    await asyncio.to_thread(compare)


def compare() -> None:
    torch.set_num_threads(1)
    whole = gradients(make_settings())
    with tempfile.TemporaryDirectory() as folder:
        found = of_ranks(1)
        for ranks in (2, 4):
            found |= as_ranks(ranks, Path(folder) / str(ranks), of_ranks, ranks)[0]
    print(f"{'largest difference (largest gradient)':<56}{'policy':>20}{'values':>20}")
    for name, other in found.items():
        cells = "".join(
            f"{difference(whole[role], other[role]):>10.1e} ({whole[role].abs().max():.1e})" for role in whole
        )
        print(f"{name:<56}{cells}")
    largest = max(difference(whole[role], other[role]) for other in found.values() for role in whole)
    print(f"{'of all':<56}{largest:>10.1e}")


def difference(left: torch.Tensor, right: torch.Tensor) -> float:
    return float((left - right).abs().max())


def make_settings(*overrides: str) -> TrainConfig:
    return settings("actor.entropy_coeff=0.01", "actor.optim.grad_clip=1e9", "critic.optim.grad_clip=1e9", *overrides)


def of_ranks(ranks: int) -> dict[str, Gradients]:
    """Every cut in every place that has so many ranks."""
    cuts = CUTS | (OTHER_CUTS if ranks < 4 else {})
    return {
        f"{place}; {cut}": gradients(make_settings(*where, *how))
        for place, where in PLACES[ranks].items()
        for cut, how in cuts.items()
    }


def gradients(config: TrainConfig) -> Gradients:
    """Return what an update steps along: gradients of all parameters, read where the optimiser reads them."""
    actor, critic = ActorWorker(config), CriticWorker(config)
    data = batch()
    own = data[shard_by_group(data, world() // actor.sharing)[rank() // actor.sharing]]
    own = own.with_tensors(old_log_probs=actor.compute_log_prob(own).tensor("old_log_probs") + 0.1)
    found = {}
    updates: dict[str, tuple[Any, Callable[[], object]]] = {
        "policy": (actor.learner, lambda: actor.update_policy(own)),
        "values": (critic.learner, lambda: critic.update_critic(own)),
    }
    for role, (learner, update) in updates.items():
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
