"""Which groups of a batch are trained on. Shapes: G groups of n samples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fathom.errors import InvalidField


@dataclass(frozen=True)
class Filtered:
    """``rows`` [B'] int64, the rows to keep in group order; the rest are shares of all groups, for the log."""

    rows: Tensor
    pass_rate: float
    too_easy: float
    too_hard: float
    truncated: float
    filled_with_failing: int
    """Groups that are kept though they do not pass."""


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
    """PRIME's filter: groups that pass come first, then the others; ``keep_groups`` of all stay.

    ``scores`` and ``lengths`` [G, n] (outcomes; valid response tokens). A group passes when its mean score is in
    [``lower``, ``upper``], both inclusive, and its longest response has fewer than ``max_response_length`` - 1
    tokens. Order within each kind is that of the batch; without ``stable_sort`` it is whatever the sort leaves, as
    in the recipe. Nothing fails for too few groups: failing ones fill the rest. Raises
    ``InvalidField("keep_groups")`` when there are not so many.
    Source: arXiv 2502.01456, section 3.
    """
    groups, samples = scores.shape
    if not 1 <= keep_groups <= groups:
        raise InvalidField("keep_groups", f"is {keep_groups}; there are {groups}")
    means, longest = scores.to(torch.float32).mean(dim=1), lengths.max(dim=1).values
    easy, hard = means > upper, means < lower
    cut = longest >= max_response_length - 1
    passing = torch.ones(groups, dtype=torch.bool)
    if filter_accuracy:
        passing &= ~(easy | hard)
    if filter_truncate:
        passing &= ~cut
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
    """How many of ``flags`` are True, 0 to 1."""
    return float(flags.to(torch.float32).mean())


def informative_groups(outcomes: Tensor) -> Tensor:
    """[G] bool: groups whose binary ``outcomes`` [G, n] are not all equal (DAPO, arXiv 2503.14476).

    Give the outcome, not a shaped score: shaping makes groups survive that all fail, and GRPO would blow up
    their tiny differences.
    """
    return (outcomes != outcomes[:, :1]).any(dim=1)
