"""Masked sums, means and whitening, re-exported from :mod:`fathom.implicit.masked`, which the reward service shares."""

from fathom.implicit.masked import (
    BLOCK,
    EPS,
    at_last,
    decayed,
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
    "decayed",
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
