"""Masked sums, means and whitening, shared with the reward service (``fathom.domain.process_reward.masked``)."""

from fathom.domain.process_reward.masked import (
    BLOCK,
    EPS,
    at_last,
    decay_sum,
    decayed_sums,
    last_cells,
    masked_mean,
    masked_sum,
    masked_variance,
    pack,
    packed_places,
    reverse_cumsum,
    unpack,
    whiten,
)

__all__ = [
    "BLOCK",
    "EPS",
    "at_last",
    "decay_sum",
    "decayed_sums",
    "last_cells",
    "masked_mean",
    "masked_sum",
    "masked_variance",
    "pack",
    "packed_places",
    "reverse_cumsum",
    "unpack",
    "whiten",
]
