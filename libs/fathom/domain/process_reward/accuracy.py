"""Ranking accuracy: how well summed rewards order a group's answers by outcome.

Shapes: n samples per prompt, B rows in group order, T tokens. Needs torch only.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.domain.process_reward.masked import row_sums

# Guards the division of a group without any difference, whose result is replaced by 0.5.
EPS = 1e-6


def compute_dpo_accuracy(scores: Tensor, acc: Tensor, mask: Tensor, n_samples: int) -> Tensor:
    """Return the fraction of a group's pairs that the summed ``scores`` order as ``acc`` does.

    A scalar in [0, 1]: pairs are weighted by |difference|, then averaged over groups. ``scores`` and ``mask`` [B, T],
    ``acc`` [B]; a group without any difference counts 0.5. A tie of the scores counts as "not greater".
    """
    check_groups(mask, n_samples)
    # Each pair once, in one direction.
    first, second = torch.triu_indices(n_samples, n_samples, offset=1)
    sums, outcomes = row_sums(scores, mask).view(-1, n_samples), acc.view(-1, n_samples)
    wanted = outcomes[:, first] - outcomes[:, second]
    agrees = ((sums[:, first] - sums[:, second]) > 0) == (wanted > 0)
    weight = wanted.abs()
    total = weight.sum(dim=-1)
    found = (weight * agrees).sum(dim=-1) / total.clamp(min=EPS)
    return torch.where(total > 0, found, 0.5).mean()


def compute_dpo_abs_accuracy(scores: Tensor, acc: Tensor, mask: Tensor) -> Tensor:
    """Return the fraction of rows whose summed ``scores`` have the sign of 2 ``acc`` - 1, a scalar."""
    return (torch.sign(row_sums(scores, mask)) == torch.sign(2 * acc - 1)).to(torch.float32).mean()


def check_groups(mask: Tensor, n_samples: int) -> None:
    """Raise ``InvalidField`` for groups of one, and for rows that do not form whole groups."""
    if n_samples < 2:
        raise InvalidField("n_samples", "must be at least 2: a group of one has no baseline")
    if mask.dim() != 2 or mask.shape[0] % n_samples:
        raise InvalidField("mask", f"of shape {list(mask.shape)} is not [B, T] with whole groups of {n_samples}")
