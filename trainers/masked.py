"""Sums, means and whitening over masks; their home is :mod:`fathom.implicit.masked`, which reward shares."""

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
