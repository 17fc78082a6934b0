"""PRIME's pure functions: advantages of several reward sources, losses of the reward model, its accuracies.

Shapes: n samples per prompt, G groups, B = G * n rows in group order, T response tokens; ``mask`` [B, T] is 1
on valid response tokens. ``q`` = log phi - log ref per token, 0 off the mask. Names are those of the public
recipe; where it has a defect the correct thing is done and the docstring says so. Needs torch only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from fathom.errors import InvalidField
from trainers.masked import at_last, last_cells, reverse_cumsum, whiten

NORM_EPS = 1e-6
BonMode = Literal["none", "bon_acc", "bon_rm"]


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
    returns = torch.where(mask.bool(), reverse_cumsum(summed), 0.0)
    return whiten(returns, mask), returns


def source_advantage(name: str, values: Tensor, mask: Tensor, n_samples: int) -> Tensor:
    """One source's advantage [B, T] float32, 0 where the source has no cell."""
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
    cells, rewards = cells.to(torch.float32), rewards.to(torch.float32)
    row_means = rewards.sum(dim=-1) / cells.sum(dim=-1)
    baseline = row_means.view(-1, n_samples).mean(dim=-1).repeat_interleave(n_samples)
    return (rewards - baseline.unsqueeze(-1)) * (n_samples / (n_samples - 1)) * cells


def implicit_rewards(
    q: Tensor, mask: Tensor, *, beta: float = 0.05, lam: float = 0.0, outcome: Tensor | None = None
) -> Tensor:
    """Process rewards r [B, T] of ``q``: beta * q, or for ``lam`` > 0 the recursion r = beta q + lam r'.

    With ``outcome`` [B] (only with ``lam``) the last valid token's term is set so that each row's terms sum to
    its outcome. No gradient. Source: arXiv 2412.01981 for q; the recursion is the recipe's.
    """
    kept = mask.bool()
    rewards = torch.where(kept, beta * q.detach(), 0.0).to(torch.float32)
    if lam == 0.0:
        return rewards
    if outcome is not None:
        last = at_last(torch.ones(len(mask)), mask).bool()
        before = torch.where(last, 0.0, rewards).sum(dim=-1)
        rewards = torch.where(last, (outcome.to(torch.float32) - before).unsqueeze(-1), rewards)
    found, carried = torch.zeros_like(rewards), torch.zeros(len(rewards))
    for column in range(rewards.shape[1] - 1, -1, -1):
        carried = rewards[:, column] + lam * carried
        found[:, column] = carried
    return torch.where(kept, found, 0.0)


def token_level_scores(
    rewards: Tensor, mask: Tensor, *, granularity: Literal["token", "whole"], include_last_token: bool = False
) -> Tensor:
    """Where the process rewards [B, T] are paid: on each token, or as their sum on the last valid one.

    The recipe's ``token`` leaves the last valid token at 0; ``include_last_token`` pays it too, as the paper's
    own code does. The recipe's ``whole`` writes a vector into one cell and fails; here it is the sum. Raises
    ``InvalidField("prime_granularity")``.
    """
    rewards = torch.where(mask.bool(), rewards, 0.0)
    if granularity == "whole":
        return at_last(rewards.sum(dim=-1), mask)
    if granularity != "token":
        raise InvalidField("prime_granularity", f"{granularity!r} is not one of token, whole")
    if include_last_token:
        return rewards
    return rewards.scatter(-1, last_cells(mask).unsqueeze(-1), 0.0)


def prime_norm(scores: Tensor, norm: Literal["batch_norm", "none"], largest: Tensor | None = None) -> Tensor:
    """``batch_norm``: scores [B, T] / (max |sum from each token on| + 1e-6), which bounds every return by 1.

    ``largest`` is that maximum over all ranks where a batch is split (``norm_scope: global``); the recipe takes
    each rank's own. Raises ``InvalidField("prime_norm")``.
    """
    if norm == "none":
        return scores
    if norm != "batch_norm":
        raise InvalidField("prime_norm", f"{norm!r} is not one of batch_norm, none")
    return scores / ((largest_return(scores) if largest is None else largest) + NORM_EPS)


def largest_return(scores: Tensor) -> Tensor:
    """Scalar: the largest absolute sum from any token on."""
    return reverse_cumsum(scores).abs().max()


def compute_ce_dpo_loss_rm(q: Tensor, acc: Tensor, mask: Tensor, beta: float) -> Tensor:
    """Scalar: the mean cross-entropy of sigmoid(beta * sum of q) against ``acc`` [B] in [0, 1].

    ``q`` and ``mask`` [B, T]. Taken with logits, which stays finite where sigmoid saturates.
    """
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
    """Each sample against the mean of its group's samples with the opposite outcome, these without gradient.

    ``q`` and ``mask`` [B, T], ``acc`` [B]; ``group_q`` and ``group_acc`` [B, n] hold the sums of q (before the
    update) and outcomes of the whole group of each row. Loss_i = -log sigmoid(±(beta s_i - u_i)), u_i = beta *
    mean of the opposite ones, 0 without any; + for ``acc`` > 0. ``bon_acc`` and ``bon_rm`` weight it by
    ``bon_weights`` of outcome or of beta * q; those are summed as in the recipe unless ``bon_reduction`` is mean.
    """
    score, right = beta * row_sums(q, mask), acc > 0
    lower, higher = group_acc < acc.unsqueeze(-1), group_acc > acc.unsqueeze(-1)
    opposite = torch.where(right.unsqueeze(-1), lower, higher)
    counted = opposite.sum(dim=-1)
    mean = torch.where(opposite, group_q, 0.0).sum(dim=-1) / counted.clamp(min=1)
    against = torch.where(counted > 0, beta * mean, 0.0).detach()
    losses = -logsigmoid((score - against) * torch.where(right, 1.0, -1.0))
    if bon_mode == "none":
        return losses.mean()
    own, others = (acc, group_acc) if bon_mode == "bon_acc" else (score.detach(), beta * group_q)
    weighted = bon_weights(own, others) * losses
    return weighted.sum() if bon_reduction == "sum" else weighted.mean()


def bon_weights(own: Tensor, others: Tensor) -> Tensor:
    """Best-of-n weights [B]: n * (fraction of the group that is at most ``own``)^(n - 1), without gradient.

    ``own`` [B], ``others`` [B, n] the whole group of each row, itself included.
    """
    n = others.shape[-1]
    fraction = (others <= own.unsqueeze(-1)).to(torch.float32).mean(dim=-1)
    return (n * fraction ** (n - 1)).detach()


def compute_dpo_accuracy(scores: Tensor, acc: Tensor, mask: Tensor, n_samples: int) -> Tensor:
    """Scalar in [0, 1]: pairs of a group that the summed ``scores`` order as ``acc`` does, weighted by |difference|.

    ``scores`` and ``mask`` [B, T], ``acc`` [B]; a group without any difference counts 0.5; the mean over groups.
    A tie of the scores counts as "not greater".
    """
    check_groups(mask, n_samples)
    first, second = torch.triu_indices(n_samples, n_samples, offset=1)
    sums, outcomes = row_sums(scores, mask).view(-1, n_samples), acc.view(-1, n_samples)
    wanted = outcomes[:, first] - outcomes[:, second]
    agrees = ((sums[:, first] - sums[:, second]) > 0) == (wanted > 0)
    weight = wanted.abs()
    total = weight.sum(dim=-1)
    found = (weight * agrees).sum(dim=-1) / total.clamp(min=NORM_EPS)
    return torch.where(total > 0, found, 0.5).mean()


def compute_dpo_abs_accuracy(scores: Tensor, acc: Tensor, mask: Tensor) -> Tensor:
    """Scalar: rows whose summed ``scores`` have the sign of 2 ``acc`` - 1."""
    return (torch.sign(row_sums(scores, mask)) == torch.sign(2 * acc - 1)).to(torch.float32).mean()


def row_sums(values: Tensor, mask: Tensor) -> Tensor:
    """[B]: the sum of each row over its mask, with gradient."""
    return torch.where(mask.bool(), values, 0.0).sum(dim=-1)


def check_groups(mask: Tensor, n_samples: int) -> None:
    """Raises ``InvalidField`` for groups of one, and for rows that do not make whole groups."""
    if n_samples < 2:
        raise InvalidField("n_samples", "must be at least 2: a group of one has no baseline")
    if mask.dim() != 2 or mask.shape[0] % n_samples:
        raise InvalidField("mask", f"of shape {list(mask.shape)} is not [B, T] with whole groups of {n_samples}")
