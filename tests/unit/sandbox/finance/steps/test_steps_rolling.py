"""Measures over a window that moves with the day, by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from fathom.services.sandbox.inside.finance import steps
from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from tests.unit.sandbox.finance.series import make_daily, make_line, make_monthly, year

# Moves of 10, -10, 10 and -10 %, then none.
WAVE = [100, 110, 99, 108.9, 98.01, 98.01, 98.01, 98.01]


def test_a_moving_volatility_is_that_of_the_last_returns() -> None:
    line = steps.rolling_vol(make_daily(WAVE), 4)
    assert steps.first(line).value == pytest.approx((0.01 * 4 / 3 * 252) ** 0.5 * 100)
    assert str(steps.first(line).day.date()) == "2020-03-06"
    assert steps.minimum(line).value == pytest.approx(pd.Series([-0.1, 0, 0, 0]).std() * 252**0.5 * 100)
    assert line.unit == "%"
    assert "over the last 4 days" in line.notes[0][0]
    assert "前4日" in line.notes[0][1]


def test_a_moving_measure_reaches_back_behind_the_window() -> None:
    line = steps.within(steps.rolling_vol(make_daily(WAVE), 3), year("2020-03-06"))
    assert steps.count(line).value == 1


def test_a_volatility_of_months_takes_the_returns_since_the_same_day() -> None:
    daily = make_daily([100 + at % 7 for at in range(60)])
    line = steps.rolling_vol(daily, 1, "month")
    day = pd.Timestamp("2020-05-04")
    returns = daily.values.pct_change()
    wanted = returns[(returns.index > pd.Timestamp("2020-04-04")) & (returns.index <= day)].std() * 252**0.5 * 100
    assert line.values[day] == pytest.approx(wanted)
    # The first day that is a month behind the first value.
    assert str(line.values.index[0].date()) == "2020-04-02"


def test_a_moving_return_counts_from_so_many_days_before() -> None:
    line = steps.rolling_ret(make_daily([100, 110, 121, 60.5]), 2)
    assert list(line.values) == pytest.approx([21, -45])
    assert line.kind == "move"


def test_the_end_of_a_month_counts_from_the_end_of_an_earlier_one() -> None:
    # 2018-12-31 is behind 2018-12-29, the same day three months before 2019-03-29.
    closes = {"2018-12-28": 90.0, "2018-12-31": 100.0, "2019-02-28": 105.0, "2019-03-28": 108.0, "2019-03-29": 120.0}
    line = steps.rolling_ret(make_line(closes), 3, "month")
    assert line.values[pd.Timestamp("2019-03-29")] == pytest.approx(20)
    assert line.values[pd.Timestamp("2019-03-28")] == pytest.approx(20)
    # Three months before it there is no value.
    assert pd.Timestamp("2019-02-28") not in line.values.index


def test_a_moving_return_of_months_and_of_years_by_months() -> None:
    months = make_monthly([100 + at for at in range(14)])
    assert steps.first(steps.rolling_ret(months, 3, "month")).value == pytest.approx(3)
    assert list(steps.rolling_ret(months, 1, "year").values) == pytest.approx([12, (113 / 101 - 1) * 100])


@pytest.mark.parametrize("measure", [steps.rolling_vol, steps.rolling_ret])
def test_a_rate_has_no_moving_return(measure: object) -> None:
    assert callable(measure)
    with pytest.raises(InvalidArgument, match="is a rate or a change"):
        measure(make_monthly([1, 2, 3, 4], unit="%", kind="rate"), 2, "month")


def test_two_returns_have_no_deviation() -> None:
    with pytest.raises(InvalidArgument, match="n: is 2: a deviation needs 3 returns"):
        steps.rolling_vol(make_daily(WAVE), 2)


def test_a_length_beyond_the_data_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="x has 8 values from 2020-03-02 to 2020-03-11, too few"):
        steps.rolling_vol(make_daily(WAVE), 30)
