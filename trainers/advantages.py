"""Advantage estimators.

Shapes: G groups, N samples per group, B = G * N rows with row g * N + n, T response tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fathom.errors import InvalidField
from trainers.masked import decayed, decayed_sums, pack, packed_places, unpack, whiten


def group_advantages(rewards: Tensor, *, norm_by_std: bool = True, eps: float = 1e-6) -> Tensor:
    """Compute GRPO's group-relative advantages: A = (R - mean) / (std + eps) within each group, std unbiased.

    ``rewards`` [G, N] float; returns [G, N] float32. Without ``norm_by_std`` only the mean is subtracted (Dr. GRPO,
    arXiv 2503.20783). A group of one keeps its reward; equal rewards give 0. Source: arXiv 2402.03300. Raises
    ``InvalidField("rewards")`` for another shape or a non-finite reward, naming its row.
    """
    rewards = checked_groups(rewards)
    if rewards.shape[1] == 1:
        return rewards / (1.0 + eps) if norm_by_std else rewards
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    return centred / (rewards.std(dim=1, keepdim=True) + eps) if norm_by_std else centred


def rloo_advantages(rewards: Tensor) -> Tensor:
    """Compute leave-one-out advantages: A = R - mean of the others = n / (n - 1) * (R - mean).

    ``rewards`` [G, N] float, N at least 2; returns [G, N] float32. Source: arXiv 2402.14740. Raises
    ``InvalidField("rewards")`` for another shape, a non-finite reward, or groups of one, which have no baseline.
    """
    rewards = checked_groups(rewards)
    samples = rewards.shape[1]
    if samples < 2:
        raise InvalidField("rewards", "groups of one have no other sample for a leave-one-out baseline")
    return (rewards - rewards.mean(dim=1, keepdim=True)) * (samples / (samples - 1))


def component_advantages(components: dict[str, Tensor], weights: dict[str, float]) -> Tensor:
    """Compute GDPO advantages: each reward component is normalised within its group, then they are summed with weights.

    ``components`` by name, each [G, N] float; returns [G, N] float32. Raises ``InvalidField("weights.<name>")`` for a
    weight without its component.
    """
    for name in weights:
        if name not in components:
            raise InvalidField(f"weights.{name}", f"has no component; there are {', '.join(sorted(components))}")
    # Normalised before summing, so that a component with a wide range does not dominate the others.
    parts = [weight * group_advantages(components[name]) for name, weight in weights.items()]
    if not parts:
        raise InvalidField("weights", "name no component")
    return torch.stack(parts).sum(dim=0)


def gae(
    rewards: Tensor, values: Tensor, mask: Tensor, *, gamma: float = 1.0, lam: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Compute generalised advantage estimates over model tokens: delta = r + gamma V' - V, A = delta + gamma lam A'.

    ``rewards``, ``values`` and ``mask`` [B, T] float; returns whitened advantages and returns A + V, both [B, T]
    float32 and 0 outside the mask. V' and A' are those of the next *model* token: observations and padding are skipped,
    so that gamma and lam count model tokens. Source: arXiv 1506.02438, with verl's treatment of observations. Raises
    ``InvalidField("rewards")`` for a reward on a token that the model did not write.
    """
    kept = mask.bool()
    # Such a reward would be ignored silently.
    if bool((rewards[~kept] != 0).any()):
        row, column = ((rewards != 0) & ~kept).nonzero()[0].tolist()
        raise InvalidField("rewards", f"row {row} has a reward at token {column}, which the model did not write")
    places = packed_places(mask)
    own, value = pack(rewards, places), pack(values, places)
    following = torch.nn.functional.pad(value[:, 1:], (0, 1))
    summed = decayed(own + gamma * following - value, gamma * lam)
    advantages = unpack(summed, places).to(torch.float32)
    returns = torch.where(kept, unpack(summed + value, places), 0.0).to(torch.float32)
    return whiten(advantages, mask), returns


def returns_to_go(rewards: Tensor, mask: Tensor, *, gamma: float = 1.0) -> Tensor:
    """Compute REINFORCE++'s discounted return of each model token: G = r + gamma G' over model tokens.

    ``rewards`` and ``mask`` [B, T]; returns [B, T] float32, 0 outside the mask. Source: arXiv 2501.03262.
    """
    return decayed_sums(rewards.to(torch.float32), mask, gamma)


def broadcast(advantages: Tensor, mask: Tensor) -> Tensor:
    """Broadcast advantages [G, N] over the tokens of ``mask`` [G * N, T]: one value per row, 0 outside the mask."""
    if advantages.numel() != mask.shape[0]:
        raise InvalidField("advantages", f"are {advantages.numel()} for {mask.shape[0]} rows")
    return advantages.reshape(-1, 1).to(torch.float32) * mask.to(torch.float32)


def checked_groups(rewards: Tensor) -> Tensor:
    """Return the rewards as float32.

    Raises ``InvalidField("rewards")`` for a shape other than [G, N] or a non-finite one.
    """
    if rewards.dim() != 2:
        raise InvalidField("rewards", f"must have shape [G, N], not {list(rewards.shape)}")
    if not bool(torch.isfinite(rewards).all()):
        row, column = (~torch.isfinite(rewards)).nonzero()[0].tolist()
        raise InvalidField("rewards", f"row {row}, sample {column} is {rewards[row, column].item()}")
    return rewards.to(torch.float32)
