"""Intervals by the bootstrap (Efron 1979), over whole groups of values that are no independent evidence."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

SAMPLES, SHARE = 1_000, 0.95


def find_interval(values: Sequence[float], share: float = SHARE) -> tuple[float, float]:
    """Return the percentiles between which ``share`` of the values lie."""
    ordered, cut = sorted(values), (1 - share) / 2
    return ordered[math.floor(cut * (len(ordered) - 1))], ordered[math.ceil((1 - cut) * (len(ordered) - 1))]


def bootstrap_mean(groups: Sequence[Sequence[float]], *, seed: int = 0, samples: int = SAMPLES) -> tuple[float, float]:
    """Return the 95 % interval of the mean of all values; a group, such as the cells of a run, is drawn as a whole.

    A single group says nothing of others: its interval is everything from the least to the largest value.
    """
    sums = [(sum(group), len(group)) for group in groups if group]
    if len(sums) < 2:
        values = [value for group in groups for value in group]
        return (min(values), max(values)) if values else (math.nan, math.nan)
    draws = random.Random(seed)  # noqa: S311 - draws that can be repeated
    means = []
    for _ in range(samples):
        drawn = draws.choices(sums, k=len(sums))
        means.append(sum(total for total, _ in drawn) / sum(count for _, count in drawn))
    return find_interval(means)
