"""Intervals of means by the bootstrap, over groups of values."""

from __future__ import annotations

import math
import random

import pytest

from fathom.domain.intervals import bootstrap_mean, find_interval


def test_an_interval_holds_the_middle_share_of_the_values() -> None:
    assert find_interval([float(value) for value in range(1_001)][::-1]) == (25.0, 975.0)


def test_the_interval_of_many_values_is_that_of_the_normal_distribution() -> None:
    draws = random.Random(1)
    values = [draws.gauss(10.0, 2.0) for _ in range(400)]
    low, high = bootstrap_mean([[value] for value in values])
    assert low < sum(values) / len(values) < high
    # 2 * 1.96 * 2 / sqrt(400)
    assert high - low == pytest.approx(0.392, rel=0.15)
    assert bootstrap_mean([[value] for value in values]) == (low, high)


def test_values_of_one_group_are_no_independent_evidence() -> None:
    groups = [[float(number % 2)] * 20 for number in range(10)]
    narrow = bootstrap_mean([[value] for group in groups for value in group])
    wide = bootstrap_mean(groups)
    assert wide[1] - wide[0] > 3 * (narrow[1] - narrow[0])


def test_one_group_says_nothing_of_others() -> None:
    assert bootstrap_mean([[0.2, 0.9]]) == (0.2, 0.9)
    assert all(math.isnan(value) for value in bootstrap_mean([]))
