"""Advantage estimators.

Shapes: G groups, N samples per group, B = G * N rows with row g * N + n, T response tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.trainers.objectives.masked import decay_sum, pack, packed_places, unpack, whiten


def group_advantages(rewards: Tensor, *, norm_by_std: bool = True, eps: float = 1e-6) -> Tensor:
    """Compute GRPO's group-relative advantages: A = (R - mean) / (std + eps) within each group, std unbiased.

    ``rewards`` [G, N] float; returns [G, N] float32. Without ``norm_by_std`` only the mean is subtracted (Dr. GRPO,
    arXiv 2503.20783). A group of one keeps its reward; equal rewards give 0. Source: arXiv 2402.03300. Raises
    ``InvalidField("rewards")`` for another shape or a non-finite reward, naming its row.
    """
    rewards = check_groups(rewards)
    # A single sample has no spread to be compared with, and its unbiased deviation would be 0 / 0. The reward itself is
    # REINFORCE without a baseline, as in verl.
    if rewards.shape[1] == 1:
        return rewards / (1.0 + eps) if norm_by_std else rewards
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    # eps keeps groups of equal rewards at 0 / eps = 0. It is far below the deviation of any group whose rewards differ,
    # so that it does not shrink their advantages; a larger one would.
    return centred / (rewards.std(dim=1, keepdim=True) + eps) if norm_by_std else centred


def rloo_advantages(rewards: Tensor) -> Tensor:
    """Compute leave-one-out advantages: A = R - mean of the others = n / (n - 1) * (R - mean).

    ``rewards`` [G, N] float, N at least 2; returns [G, N] float32. Source: arXiv 2402.14740. Raises
    ``InvalidField("rewards")`` for another shape, a non-finite reward, or groups of one, which have no baseline.
    """
    rewards = check_groups(rewards)
    samples = rewards.shape[1]
    if samples < 2:
        raise InvalidField("rewards", "groups of one have no other sample for a leave-one-out baseline")
    # The mean of the others, written with the mean of all: one pass for the whole group instead of one per sample.
    return (rewards - rewards.mean(dim=1, keepdim=True)) * (samples / (samples - 1))


def overlong_penalty(lengths: Tensor, longest: float, buffer: float) -> Tensor:
    """Compute DAPO's soft overlong punishment, from 0 to -1, of ``lengths`` [B] in tokens; float32.

    0 up to L = ``longest`` - ``buffer``; (L - |y|) / ``buffer`` up to ``longest``; -1 beyond. Source: arXiv 2503.14476,
    eq. 13. Raises ``InvalidField("buffer")`` unless it is above 0 and at most ``longest``.
    """
    if not 0 < buffer <= longest:
        raise InvalidField("buffer", f"must be above 0 and at most {longest}, not {buffer}")
    # A step from right to cut off would punish a good long answer for a few tokens: the ramp says what is wanted.
    return ((longest - buffer - lengths.to(torch.float32)) / buffer).clamp(-1.0, 0.0)


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
    # Packing moves each row's model tokens to the front, so that "next" below is the next model token. An observation
    # between two turns would otherwise bootstrap from a value that was never trained.
    places = packed_places(mask)
    own, value = pack(rewards, places), pack(values, places)
    # The episode ends after the last model token: the value that follows is 0.
    following = torch.nn.functional.pad(value[:, 1:], (0, 1))
    summed = decay_sum(own + gamma * following - value, gamma * lam)
    advantages = unpack(summed, places).to(torch.float32)
    # Returns are the critic's target and keep the scale of the rewards; only the advantages are whitened.
    returns = torch.where(kept, unpack(summed + value, places), 0.0).to(torch.float32)
    return whiten(advantages, mask), returns


def broadcast(advantages: Tensor, mask: Tensor) -> Tensor:
    """Broadcast advantages [G, N] over the tokens of ``mask`` [G * N, T]: one value per row, 0 outside the mask."""
    if advantages.numel() != mask.shape[0]:
        raise InvalidField("advantages", f"are {advantages.numel()} for {mask.shape[0]} rows")
    # Every token of a row has the same advantage: only the outcome was rewarded, and nothing says which token earned
    # it.
    return advantages.reshape(-1, 1).to(torch.float32) * mask.to(torch.float32)


def check_groups(rewards: Tensor) -> Tensor:
    """Return the rewards as float32.

    Raises ``InvalidField("rewards")`` for a shape other than [G, N] or a non-finite one.
    """
    if rewards.dim() != 2:
        raise InvalidField("rewards", f"must have shape [G, N], not {list(rewards.shape)}")
    # One NaN would spread over its group's mean to all of its rows, and from the loss to all weights.
    if not bool(torch.isfinite(rewards).all()):
        row, column = (~torch.isfinite(rewards)).nonzero()[0].tolist()
        raise InvalidField("rewards", f"row {row}, sample {column} is {rewards[row, column].item()}")
    return rewards.to(torch.float32)
