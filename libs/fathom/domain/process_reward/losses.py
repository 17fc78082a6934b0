"""Losses of the implicit reward model: cross-entropy, detached DPO, and DPO with best-of-n weights.

Shapes: n samples per prompt, B rows in group order, T tokens; ``q`` [B, T] with gradient, 0 off ``mask``. Needs torch
only.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from fathom.domain.process_reward.masked import row_sums

BonMode = Literal["none", "bon_acc", "bon_rm"]


def compute_ce_dpo_loss_rm(q: Tensor, acc: Tensor, mask: Tensor, beta: float) -> Tensor:
    """Return the mean cross-entropy of sigmoid(beta * sum of q) against ``acc`` [B] in [0, 1], a scalar.

    ``q`` and ``mask`` [B, T].
    """
    # With logits, which stay finite where the sigmoid saturates.
    return binary_cross_entropy_with_logits(beta * row_sums(q, mask), acc.to(q.dtype))


def compute_detach_dpo_loss_rm(
    q: Tensor,
    acc: Tensor,
    group_q: Tensor,
    group_acc: Tensor,
    mask: Tensor,
    beta: float,
    *,
    bon_mode: BonMode = "none",
    bon_reduction: Literal["sum", "mean"] = "sum",
) -> Tensor:
    """Return the DPO loss of each sample against the detached mean of its group's samples with the opposite outcome.

    ``q`` and ``mask`` [B, T], ``acc`` [B]; ``group_q`` and ``group_acc`` [B, n] hold the sums of q (before the update)
    and outcomes of the whole group of each row. Loss_i = -log sigmoid(±(beta s_i - u_i)), u_i = beta * mean of the
    opposite ones, 0 without any; + for ``acc`` > 0. ``bon_acc`` and ``bon_rm`` weight it by ``bon_weights`` of outcome
    or of beta * q; those are summed as in PRIME's recipe unless ``bon_reduction`` is mean.
    """
    score, right = beta * row_sums(q, mask), acc > 0
    # Compared rather than negated, so that outcomes between 0 and 1 have opposites too.
    lower, higher = group_acc < acc.unsqueeze(-1), group_acc > acc.unsqueeze(-1)
    opposite = torch.where(right.unsqueeze(-1), lower, higher)
    counted = opposite.sum(dim=-1)
    mean = torch.where(opposite, group_q, 0.0).sum(dim=-1) / counted.clamp(min=1)
    # Detached: the gradient of a row goes through its own score alone, and batches of any cut give the same step.
    against = torch.where(counted > 0, beta * mean, 0.0).detach()
    losses = -logsigmoid((score - against) * torch.where(right, 1.0, -1.0))
    if bon_mode == "none":
        return losses.mean()
    own, others = (acc, group_acc) if bon_mode == "bon_acc" else (score.detach(), beta * group_q)
    weighted = bon_weights(own, others) * losses
    return weighted.sum() if bon_reduction == "sum" else weighted.mean()


def bon_weights(own: Tensor, others: Tensor) -> Tensor:
    """Return best-of-n weights [B]: n * (fraction of the group that is at most ``own``)^(n - 1), without gradient.

    ``own`` [B], ``others`` [B, n] the whole group of each row, itself included.
    """
    n = others.shape[-1]
    fraction = (others <= own.unsqueeze(-1)).to(torch.float32).mean(dim=-1)
    return (n * fraction ** (n - 1)).detach()
