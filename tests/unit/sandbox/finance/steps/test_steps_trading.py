"""Rules of trading over hand-made prices."""

from __future__ import annotations

import pandas as pd
import pytest

from fathom.services.sandbox.inside.finance import steps as f
from fathom.services.sandbox.inside.finance.errors import InvalidArgument

DAYS = pd.date_range("2020-01-06", periods=7, freq="B")
PRICES = pd.DataFrame({"date": DAYS, "x": [10.0, 11.0, 12.0, 15.0, 12.0, 9.0, 12.0]})


def test_the_averages_of_one_day_decide_on_the_next() -> None:
    # The one-day average is above the two-day one on days 2 to 4 and on the last: held from 11 on day 2 to 12 on day 5.
    point = f.crossover(f.line(PRICES, "x"), 1, 2)
    assert point.value == pytest.approx((12 / 11 - 1) * 100)
    assert (point.unit, point.first, point.day) == ("%", DAYS[0], DAYS[-1])
    assert "holding throughout: 20.00%" in point.notes[-1][0]
    assert "一直持有：20.00%" in point.notes[-1][1]


def test_values_before_the_window_count_for_the_averages() -> None:
    line = f.within(f.line(PRICES, "x"), f.period("2020-01-08", "2020-01-09"))
    # Held on both days: the last price was above the average of two on the 7th and on the 8th.
    assert f.crossover(line, 1, 2).value == pytest.approx((15 / 11 - 1) * 100)


def test_without_lengths_the_best_usual_pair_is_taken_and_said() -> None:
    prices = pd.Series(range(100, 160), pd.date_range("2020-01-01", periods=60, freq="D"), dtype=float).to_frame("x")
    point = f.crossover(f.line(prices, "x"))
    # In a steady rise the pair that is known first gains most: 5 and 10, from the tenth value on.
    assert point.value == pytest.approx((159 / 109 - 1) * 100)
    assert (
        "last 5 values is above that of the last 10, the best of 6 usual pairs, chosen with hindsight"
        in (point.notes[-1][0])
    )


def test_the_members_of_a_group_are_traded_one_by_one() -> None:
    both = f.each(f.line(PRICES, "x", "a"), f.line(PRICES.assign(x=PRICES["x"] * 2), "x", "b"))
    assert [one.value for one in f.crossover(both, 1, 2).members.values()] == pytest.approx([100 / 11, 100 / 11])


@pytest.mark.parametrize(
    ("lengths", "field"), [((5, 5), "short"), ((2,), "long"), ((1, 8), "long"), ((0, 2), "short"), ((), "line")]
)
def test_lengths_that_cannot_be_compared_are_refused(lengths: tuple[int, ...], field: str) -> None:
    with pytest.raises(InvalidArgument, match=field):
        f.crossover(f.line(PRICES, "x"), *lengths)
