"""Advantages. Shapes: G groups, N samples per group."""

from __future__ import annotations

import torch
from torch import Tensor

from fathom.errors import InvalidField


def group_advantages(rewards: Tensor, *, norm_by_std: bool = True, eps: float = 1e-6) -> Tensor:
    """GRPO's group-relative advantages: A = (R - mean) / (std + eps) within each group, std unbiased.

    ``rewards`` [G, N] float; gives [G, N] float32. Without ``norm_by_std`` the mean alone is subtracted
    (Dr. GRPO, arXiv 2503.20783). A group of one keeps its reward; equal rewards give 0. Source: arXiv
    2402.03300. Raises ``InvalidField("rewards")`` for another shape or a non-finite reward, naming its row.
    """
    if rewards.dim() != 2:
        raise InvalidField("rewards", f"must have shape [G, N], not {list(rewards.shape)}")
    if not bool(torch.isfinite(rewards).all()):
        row, column = (~torch.isfinite(rewards)).nonzero()[0].tolist()
        raise InvalidField("rewards", f"row {row}, sample {column} is {rewards[row, column].item()}")
    rewards = rewards.to(torch.float32)
    if rewards.shape[1] == 1:
        return rewards / (1.0 + eps) if norm_by_std else rewards
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    return centred / (rewards.std(dim=1, keepdim=True) + eps) if norm_by_std else centred
