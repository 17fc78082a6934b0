"""Sums, means and whitening over masks; their home is :mod:`fathom.implicit.masked`, which reward shares."""

from fathom.implicit.masked import (
    EPS,
    at_last,
    last_cells,
    masked_mean,
    masked_sum,
    masked_variance,
    reverse_cumsum,
    whiten,
)

__all__ = [
    "EPS",
    "at_last",
    "last_cells",
    "masked_mean",
    "masked_sum",
    "masked_variance",
    "reverse_cumsum",
    "whiten",
]
