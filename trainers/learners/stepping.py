"""Optimiser step shared by all learners: schedule, gradient reduction over ranks, clipping and state."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn import Module
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from fathom.core.errors import InvalidField
from fathom.trainers.config.learning import BatchingConfig, OptimConfig
from fathom.trainers.learners.checkpoint import LearnerState
from fathom.trainers.learners.ranks.fsdp import (
    max_over_ranks,
    sum_gradients,
    sum_over_ranks,
    world,
)
from fathom.trainers.learners.ranks.tensor import sum_shared_gradients
from fathom.trainers.objectives.mismatch import Mismatch
from fathom.trainers.objectives.policy_loss import Totals


class Stepper:
    """AdamW and its schedule for one module; gradients are summed over ranks, losses divided by all ranks' totals."""

    def __init__(self, module: Module, config: OptimConfig, total_steps: int | None) -> None:
        self.module, self.config = module, config
        # Of a model with adapters only these: moments for the frozen base would cost twice its size.
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        # torch computes with all parameters of one mesh at once where it can, and fails where there are several.
        at_once = None if len(group_by_mesh(trained)) == 1 else False
        # In one pass over the memory of weights, gradients and moments, where torch's plain loop makes a dozen: a tenth
        # of a small model's step. Shards keep the other way.
        fused = None if any(isinstance(parameter, DTensor) for parameter in trained) else True
        self.optimizer = torch.optim.AdamW(
            trained,
            lr=config.lr,
            betas=config.betas,
            weight_decay=config.weight_decay,
            foreach=at_once,
            fused=fused,
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: learning_rate(config, total_steps, step)
        )

    def step(self) -> float:
        """Apply the optimiser step and clear the gradients; return the gradient norm over all ranks, before clipping.

        The step is skipped when the norm is not finite.
        """
        trained = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        # Before clipping: the norm must be that of the whole batch, the same on every rank, or ranks would scale
        # differently and drift apart.
        sum_gradients(trained)
        sum_shared_gradients(self.module)
        norm = clip_gradients(trained, self.config.grad_clip)
        # One NaN gradient would destroy all weights and both moments. The norm is reported, so that the loop ends the
        # training.
        if math.isfinite(norm):
            self.optimizer.step()
        # Freed rather than zeroed: they are as large as the model, and are not needed until the next backward pass.
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def advance(self) -> None:
        """Advance the schedule by one training step."""
        # Once per training step, however many mini-batches and epochs it has, as verl does.
        self.schedule.step()

    @property
    def lr(self) -> float:
        """Return the learning rate of the next step."""
        return float(self.schedule.get_last_lr()[0])

    def state(self) -> LearnerState:
        """Return everything the next step depends on."""
        return LearnerState(self.module, self.optimizer, self.schedule)


def clip_gradients(parameters: Sequence[Tensor], most: float) -> float:
    """Scale gradients so that their norm over all ranks is at most ``most``; return the norm before."""
    # torch adds up and scales gradients of one mesh only.
    groups = group_by_mesh([parameter for parameter in parameters if parameter.grad is not None])
    norms = [get_total_norm([parameter.grad for parameter in group if parameter.grad is not None]) for group in groups]
    whole = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
    total = get_total_norm(whole) if len(whole) > 1 else sum(whole, start=torch.tensor(0.0))
    for group in groups:
        clip_grads_with_norm_(group, most, total)
    return float(total)


def group_by_mesh(parameters: Sequence[Tensor]) -> list[list[Tensor]]:
    """Return parameters grouped by the ranks over which they lie, which differ for layers that ranks share."""
    found: dict[Any, list[Tensor]] = {}
    for parameter in parameters:
        found.setdefault(parameter.device_mesh if isinstance(parameter, DTensor) else None, []).append(parameter)
    return list(found.values())


def learning_rate(config: OptimConfig, total_steps: int | None, step: int) -> float:
    """Return the factor of ``lr`` at a step, counted from 0: linear warm-up, then constant or cosine decay."""
    warmup = config.lr_warmup_steps
    if warmup < 0:
        # Without a known length there is no share of it: no warm-up.
        warmup = int(config.lr_warmup_steps_ratio * (total_steps or 0))
    if step < warmup:
        # Never 0: a step at rate 0 would waste a batch of episodes.
        return (step + 1) / (warmup + 1)
    if config.lr_scheduler_type == "constant" or not total_steps:
        return 1.0
    # Beyond the planned end, after a resume with fewer steps, the rate stays at its minimum instead of rising with the
    # cosine again.
    share = min(1.0, (step - warmup) / max(1, total_steps - warmup))
    return config.min_lr_ratio + (1.0 - config.min_lr_ratio) * 0.5 * (1.0 + math.cos(math.pi * share))


def totals_of_all(mask: Tensor, sharing: int = 1) -> Totals:
    """Sum the loss denominators of a mini-batch over all ranks.

    ``mask`` [B, T] holds this rank's rows, and ``sharing`` ranks hold the same rows.
    """
    own = Totals.of(mask)
    # Ranks that share sequences hold the same rows: divided, they count once.
    tokens, rows = sum_over_ranks([own.tokens / sharing, own.rows / sharing])
    return Totals(tokens, rows, own.width)


def mismatch_of_all(own: Mismatch, sharing: int = 1) -> Mismatch:
    """Combine the mismatch statistics of all ranks' rows; ``sharing`` ranks hold the same rows."""
    sums = replace(own, largest=0.0)
    # The maximum is no sum and is combined on its own.
    found = sum_over_ranks([value / sharing for value in astuple(sums)])
    return replace(Mismatch(*found), largest=max_over_ranks(own.largest))


def prompts_of_rank(batching: BatchingConfig) -> int:
    """Return this rank's prompts per mini-batch; raises ``InvalidField`` when they do not divide evenly among ranks."""
    ranks = world() // batching.sharing
    prompts = batching.ppo_mini_batch_size
    if prompts % ranks:
        raise InvalidField("ppo_mini_batch_size", f"{prompts} prompts cannot be shared by {ranks} ranks")
    return prompts // ranks


def shares_of_all(steps: Iterable[Mapping[str, float]], sharing: int = 1) -> dict[str, float]:
    """Sum metrics over ranks and average them over steps.

    Each metric is a rank's share of a mini-batch's value. ``sharing`` ranks hold the same rows, so their shares count
    once.
    """
    rows = list(steps)
    found = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
    # Sorted, so that every rank sends its metrics in one order: the reduction knows positions, not names.
    return dict(zip(sorted(found), sum_over_ranks([found[name] / sharing for name in sorted(found)]), strict=True))
