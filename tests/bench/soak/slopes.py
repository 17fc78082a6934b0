"""Growth of a level over the traffic played, by a regression that single peaks do not move, with its interval."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import theilslopes

CONFIDENCE = 0.95
# Samples follow one another closely and resemble each other: medians of so many parts are as good as independent.
PARTS = 24


@dataclass(frozen=True)
class Growth:
    """Growth per hour of traffic as a share of the level: the estimate and the ends of its interval."""

    level: float
    share: float
    low: float
    high: float

    def is_flat(self, bound: float) -> bool:
        """Return whether the whole interval is within the bound."""
        return self.high <= bound

    def is_growing(self, bound: float) -> bool:
        """Return whether the whole interval is beyond the bound."""
        return self.low > bound


def compute_growth(times: Sequence[float], levels: Sequence[float], parts: int = PARTS) -> Growth:
    """Return the Theil–Sen slope of the levels over times in hours, by medians of consecutive parts.

    Theil–Sen (Sen, 1968): the median of the slopes between all pairs, its interval by Kendall's statistic.
    """
    size = max(1, len(times) // parts)
    starts = range(0, len(times) - size + 1, size)
    middles = [statistics.median(times[at : at + size]) for at in starts]
    medians = [statistics.median(levels[at : at + size]) for at in starts]
    level = max(statistics.median(levels), 1e-9)
    if len(set(medians)) == 1:
        # Where two samples have the same time as well, which a stalled minute makes, the interval would be none.
        return Growth(level, 0.0, 0.0, 0.0)
    found = theilslopes(medians, middles, alpha=CONFIDENCE)
    return Growth(level, found.slope / level, found.low_slope / level, found.high_slope / level)
