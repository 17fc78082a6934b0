"""Selection of the groups to train on. Shapes: G groups of n samples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fathom.core.errors import InvalidField


@dataclass(frozen=True)
class Filtered:
    """Selected rows [B'] int64 in group order, with shares over all groups for logging."""

    rows: Tensor
    pass_rate: float
    too_easy: float
    too_hard: float
    truncated: float
    filled_with_failing: int
    """Number of selected groups that do not pass the filter."""


def prioritised_groups(
    scores: Tensor,
    lengths: Tensor,
    *,
    keep_groups: int,
    max_response_length: int,
    lower: float = 0.2,
    upper: float = 0.8,
    filter_accuracy: bool = True,
    filter_truncate: bool = True,
    stable_sort: bool = True,
) -> Filtered:
    """Select ``keep_groups`` groups with PRIME's filter: groups that pass come first, then the others.

    ``scores`` and ``lengths`` [G, n] (outcomes; numbers of valid response tokens). A group passes when its mean score
    is in [``lower``, ``upper``], both inclusive, and its longest response has fewer than ``max_response_length`` - 1
    tokens. Each kind keeps the batch order; without ``stable_sort`` its order is undefined, as in the public recipe.
    Failing groups fill up missing ones. Raises ``InvalidField("keep_groups")`` when there are fewer groups.

    Source: arXiv 2502.01456, section 3.
    """
    groups, samples = scores.shape
    if not 1 <= keep_groups <= groups:
        raise InvalidField("keep_groups", f"is {keep_groups}; there are {groups}")
    means, longest = scores.to(torch.float32).mean(dim=1), lengths.max(dim=1).values
    easy, hard = means > upper, means < lower
    # One token less than the limit already counts as truncated, as in the public recipe.
    cut = longest >= max_response_length - 1
    passing = torch.ones(groups, dtype=torch.bool)
    if filter_accuracy:
        passing &= ~(easy | hard)
    if filter_truncate:
        passing &= ~cut
    # Failing groups fill up, instead of a smaller batch: the number of optimiser steps per batch, and with several
    # ranks the equal share of each, depend on its size.
    kept = torch.argsort(passing.to(torch.int64), descending=True, stable=stable_sort)[:keep_groups]
    chosen = (kept.unsqueeze(-1) * samples + torch.arange(samples)).reshape(-1)
    return Filtered(
        rows=chosen,
        pass_rate=share(passing),
        too_easy=share(easy),
        too_hard=share(hard),
        truncated=share(cut),
        filled_with_failing=int((~passing[kept]).sum()),
    )


def share(flags: Tensor) -> float:
    """Return the share of True values, 0 to 1."""
    return float(flags.to(torch.float32).mean())
