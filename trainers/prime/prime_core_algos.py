"""PRIME's pure functions: advantages of several reward sources, losses of the reward model, its accuracies.

Shapes: n samples per prompt, G groups, B = G * n rows in group order, T response tokens; ``mask`` [B, T] is 1
on valid response tokens. ``q`` = log phi - log ref per token, 0 off the mask. Names are those of the public
recipe; where it has a defect the correct thing is done and the docstring says so. What the reward service shares
has its home in ``fathom.implicit`` and is given on here. Needs torch only.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fathom.errors import InvalidField
from fathom.implicit.accuracy import check_groups, compute_dpo_abs_accuracy, compute_dpo_accuracy
from fathom.implicit.losses import bon_weights, compute_ce_dpo_loss_rm, compute_detach_dpo_loss_rm
from fathom.implicit.rewards import implicit_rewards, largest_return, prime_norm, token_level_scores
from trainers.masked import at_last, reverse_cumsum, whiten

__all__ = [
    "bon_weights",
    "check_groups",
    "compute_ce_dpo_loss_rm",
    "compute_detach_dpo_loss_rm",
    "compute_dpo_abs_accuracy",
    "compute_dpo_accuracy",
    "compute_rloo_advantage_return",
    "implicit_rewards",
    "largest_return",
    "prime_norm",
    "source_advantage",
    "token_level_scores",
]


def compute_rloo_advantage_return(
    sources: Mapping[str, tuple[Tensor, float]], mask: Tensor, n_samples: int
) -> tuple[Tensor, Tensor]:
    """Leave-one-out advantages of each reward source, weighted and summed; gives whitened advantages and returns.

    ``sources`` by name: ``rm_scores`` [B, T] float on every valid token, ``acc`` [B] float placed at the last
    one; each with its coefficient, 0 switches it off. Per source with the row means x̄ over its cells:
    A = n / (n - 1) * (x - mean of x̄ over the group). Returns are the sums of A from each token on (gamma 1),
    advantages the whitened returns, both [B, T] float32 and 0 off the mask (the recipe leaves whitened padding
    non-zero). Source: arXiv 2502.01456, eq. 5. Raises ``InvalidField`` for groups of one, other shapes, values
    that are not finite, and when no source is active.
    """
    check_groups(mask, n_samples)
    parts = [
        coefficient * source_advantage(name, values, mask, n_samples)
        for name, (values, coefficient) in sources.items()
        if coefficient != 0
    ]
    if not parts:
        raise InvalidField("sources", "no reward source has a coefficient other than 0")
    summed = torch.where(mask.bool(), torch.stack(parts).sum(dim=0), 0.0)
    returns = torch.where(mask.bool(), reverse_cumsum(summed), 0.0).to(torch.float32)
    return whiten(returns, mask), returns


def source_advantage(name: str, values: Tensor, mask: Tensor, n_samples: int) -> Tensor:
    """One source's advantage [B, T] float64 (a return sums thousands of them), 0 where the source has no cell."""
    if not bool(torch.isfinite(values).all()):
        raise InvalidField(name, "has a value that is not finite")
    if values.dim() == 1:
        if values.shape[0] != mask.shape[0]:
            raise InvalidField(name, f"has {values.shape[0]} rows, the mask {mask.shape[0]}")
        cells = at_last(torch.ones_like(values), mask)
        rewards = at_last(values, mask)
    elif values.shape == mask.shape:
        cells = mask
        rewards = torch.where(mask.bool(), values, 0.0)
    else:
        raise InvalidField(name, f"has shape {list(values.shape)}, the mask {list(mask.shape)}")
    cells, rewards = cells.to(torch.float64), rewards.to(torch.float64)
    row_means = rewards.sum(dim=-1) / cells.sum(dim=-1)
    baseline = row_means.view(-1, n_samples).mean(dim=-1).repeat_interleave(n_samples)
    return (rewards - baseline.unsqueeze(-1)) * (n_samples / (n_samples - 1)) * cells
