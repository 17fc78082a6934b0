"""Process rewards from ``q`` = log phi - log ref per token: accumulation, placement and normalisation.

Shapes: B rows, T tokens; ``mask`` [B, T] is 1 on tokens that the model sampled, at least one per row. Tokens off the
mask, such as an observation between two turns, neither earn nor discount a reward. Needs torch only.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.domain.process_reward.masked import at_last, decayed_sums, last_cells, reverse_cumsum

# PRIME's; it keeps a batch of zeros at zero.
NORM_EPS = 1e-6


def implicit_rewards(
    q: Tensor, mask: Tensor, *, beta: float = 0.05, lam: float = 0.0, outcome: Tensor | None = None
) -> Tensor:
    """Return process rewards r [B, T] of ``q``: beta * q, or for ``lam`` > 0 the recursion r = beta q + lam r'.

    With ``outcome`` [B] (only with ``lam``) the last valid token's term is set so that each row's terms sum to its
    outcome. No gradient. Source: arXiv 2412.01981 for q; the recursion is that of PRIME's recipe.
    """
    rewards = torch.where(mask.bool(), beta * q.detach(), 0.0).to(torch.float32)
    if lam == 0.0:
        return rewards
    if outcome is not None:
        last = at_last(torch.ones(len(mask), device=mask.device), mask).bool()
        # The last token takes what is left to the outcome, so that the tokens before it keep what phi gives them.
        before = torch.where(last, 0.0, rewards).sum(dim=-1)
        rewards = torch.where(last, (outcome.to(torch.float32) - before).unsqueeze(-1), rewards)
    return decayed_sums(rewards, mask, lam)


def token_level_scores(
    rewards: Tensor, mask: Tensor, *, granularity: Literal["token", "whole"], include_last_token: bool = False
) -> Tensor:
    """Place the process rewards [B, T]: on each token, or their sum on the last valid one.

    The recipe's ``token`` leaves the last valid token at 0; ``include_last_token`` rewards it too, as the paper's own
    code does. Raises ``InvalidField("prime_granularity")``.
    """
    rewards = torch.where(mask.bool(), rewards, 0.0)
    if granularity == "whole":
        # The recipe's "whole" writes a vector into one cell and fails; here it is the sum.
        return at_last(rewards.sum(dim=-1), mask)
    if granularity != "token":
        raise InvalidField("prime_granularity", f"{granularity!r} is not one of token, whole")
    if include_last_token:
        return rewards
    return rewards.scatter(-1, last_cells(mask).unsqueeze(-1), 0.0)


def prime_norm(scores: Tensor, norm: Literal["batch_norm", "none"], largest: Tensor | None = None) -> Tensor:
    """Normalise scores [B, T]: ``batch_norm`` divides by (max |sum from each token on| + 1e-6).

    That bounds every return by 1. ``largest`` is that maximum over all ranks where a batch is split (``norm_scope:
    global``); the recipe takes each rank's own. Raises ``InvalidField("prime_norm")``.
    """
    if norm == "none":
        return scores
    if norm != "batch_norm":
        raise InvalidField("prime_norm", f"{norm!r} is not one of batch_norm, none")
    return scores / ((largest_return(scores) if largest is None else largest) + NORM_EPS)


def largest_return(scores: Tensor) -> Tensor:
    """Return the largest absolute sum from any token to the end, a scalar."""
    return reverse_cumsum(scores).abs().max()
