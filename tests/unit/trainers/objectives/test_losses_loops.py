"""Advantages and losses equal loops over tokens that share no line with them, at a size beyond one block of columns."""

from __future__ import annotations

import pytest
import torch

from fathom.trainers.objectives.masked import BLOCK, decayed_sums
from tests.bench.trainers.losses import Case, cases, difference

# Longer than two blocks of the vectorised recurrence, so that its carry between blocks is on trial too.
CASES = cases(16, 2 * BLOCK + 22)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_equals_the_loop(case: Case) -> None:
    apart, largest = difference(case.ours(), case.loop())
    # Two results of zeros would agree as well.
    assert largest > 0
    assert apart < 1e-5


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0])
def test_decayed_sums_skip_what_is_off_the_mask_whatever_stands_there(factor: float) -> None:
    values = torch.tensor([[float("nan"), 1.0, float("inf"), 2.0, 4.0, 9.0]])
    mask = torch.tensor([[0, 1, 0, 1, 1, 0]])
    # From the end: 4, then 2 + factor · 4, then 1 + factor · that; what lies between is stepped over, not decayed by.
    third = 4.0
    second = 2.0 + factor * third
    assert decayed_sums(values, mask, factor).tolist() == [[0.0, 1.0 + factor * second, 0.0, second, third, 0.0]]
    assert decayed_sums(values, torch.zeros(1, 6), factor).tolist() == [[0.0] * 6]
