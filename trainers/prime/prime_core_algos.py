"""Pure functions of PRIME: multi-source RLOO advantages, reward-model losses and reward-model accuracies.

Shapes: n samples per prompt, G groups, B = G * n rows in group order, T response tokens; ``mask`` [B, T] is 1 on valid
response tokens. ``q`` = log phi - log ref per token, 0 outside the mask. Names follow the public recipe; deviations
where that recipe has a defect are documented at the function. The functions shared with the reward service live in
``fathom.domain.process_reward`` and are re-exported here. Depends on torch only.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.domain.process_reward.accuracy import check_groups, compute_dpo_abs_accuracy, compute_dpo_accuracy
from fathom.domain.process_reward.losses import bon_weights, compute_ce_dpo_loss_rm, compute_detach_dpo_loss_rm
from fathom.domain.process_reward.rewards import implicit_rewards, largest_return, prime_norm, token_level_scores
from fathom.trainers.objectives.masked import at_last, reverse_cumsum, whiten

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
    """Compute RLOO advantages per reward source and return their weighted, whitened sum.

    ``sources`` maps a name to (values, coefficient): ``rm_scores`` [B, T] float has a value on every valid token,
    ``acc`` [B] float is placed on the last valid token; a coefficient of 0 disables a source. For each source with row
    means x̄ over its cells: A = n / (n - 1) * (x - mean of x̄ over the group). Returns (advantages, returns), both [B,
    T] float32 and 0 outside the mask: the returns are the reverse cumulative sums of A (gamma = 1), the advantages are
    the whitened returns.

    Source: arXiv 2502.01456, eq. 5. Raises ``InvalidField`` for groups of one, mismatched shapes, non-finite values, or
    when no source is active.
    """
    check_groups(mask, n_samples)
    parts = [
        coefficient * source_advantage(name, values, mask, n_samples)
        for name, (values, coefficient) in sources.items()
        # A source that is switched off may be absent or constant; 0 times NaN would still be NaN.
        if coefficient != 0
    ]
    if not parts:
        raise InvalidField("sources", "no reward source has a coefficient other than 0")
    summed = torch.where(mask.bool(), torch.stack(parts).sum(dim=0), 0.0)
    returns = torch.where(mask.bool(), reverse_cumsum(summed), 0.0).to(torch.float32)
    # The public recipe leaves whitened padding non-zero; here it is 0.
    return whiten(returns, mask), returns


def source_advantage(name: str, values: Tensor, mask: Tensor, n_samples: int) -> Tensor:
    """Return one source's leave-one-out advantage, [B, T] float64, 0 where the source has no cell.

    Raises ``InvalidField`` named after the source for non-finite values or a shape that does not fit the mask.
    """
    if not bool(torch.isfinite(values).all()):
        raise InvalidField(name, "has a value that is not finite")
    if values.dim() == 1:
        if values.shape[0] != mask.shape[0]:
            raise InvalidField(name, f"has {values.shape[0]} rows, the mask {mask.shape[0]}")
        # An outcome is one cell at the end: its row mean is the outcome itself, whatever the length of the response.
        cells = at_last(torch.ones_like(values), mask)
        rewards = at_last(values, mask)
    elif values.shape == mask.shape:
        cells = mask
        rewards = torch.where(mask.bool(), values, 0.0)
    else:
        raise InvalidField(name, f"has shape {list(values.shape)}, the mask {list(mask.shape)}")
    # float64: a return sums thousands of these values.
    cells, rewards = cells.to(torch.float64), rewards.to(torch.float64)
    row_means = rewards.sum(dim=-1) / cells.sum(dim=-1)
    # Means per row first: a mean over all tokens of the group would follow its longest response.
    baseline = row_means.view(-1, n_samples).mean(dim=-1).repeat_interleave(n_samples)
    return (rewards - baseline.unsqueeze(-1)) * (n_samples / (n_samples - 1)) * cells
