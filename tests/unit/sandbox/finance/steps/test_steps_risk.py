"""Risk in steps: by hand, and equal to the measures of ``finance``."""

from __future__ import annotations

import pytest

from fathom.services.sandbox.inside import finance
from fathom.services.sandbox.inside.finance import steps
from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from tests.unit.sandbox.finance.published import make_wave
from tests.unit.sandbox.finance.series import make_daily, make_line, make_monthly, year

WAVE, MARKET = (steps.line(make_wave(), name) for name in ("wave", "market"))


def test_the_deepest_fall_and_the_largest_rise_have_their_days() -> None:
    line = make_daily([10, 20, 5, 15, 12])
    fall, rise = steps.drawdown(line), steps.rise(line)
    assert (fall.value, str(fall.first.date()), str(fall.day.date())) == (-75, "2020-03-03", "2020-03-04")
    assert (rise.value, str(rise.first.date()), str(rise.day.date())) == (
        pytest.approx(200),
        "2020-03-04",
        "2020-03-05",
    )


def test_without_a_fall_there_is_no_day() -> None:
    found = steps.drawdown(make_daily([1, 2, 3]))
    assert (found.value, found.day) == (0, None)
    with pytest.raises(InvalidArgument, match="line: x is -1 on 2020-03-03"):
        steps.drawdown(make_daily([1, -1]))


def test_volatility_by_hand_and_by_month() -> None:
    # Moves of 10, -10, 10 and -10 %: a sample variance of 4/3 of 0.01.
    line = make_daily([100, 110, 99, 108.9, 98.01])
    assert steps.vol(line).value == pytest.approx((0.01 * 4 / 3 * 252) ** 0.5 * 100)
    months = make_monthly([100, 110, 99, 108.9, 98.01])
    assert steps.vol(months, "month").value == pytest.approx((0.01 * 4 / 3 * 12) ** 0.5 * 100)
    assert "by month, times the root of 12 a year" in steps.vol(months, "month").notes[0][0]


def test_ratios_are_those_of_finance() -> None:
    frame = make_wave()[["wave"]]
    window = steps.within(WAVE, year("2019"))
    assert steps.vol(window).value == pytest.approx(finance.volatility(frame, "2019", "2019") * 100)
    assert steps.sharpe(window, 2).value == pytest.approx(finance.sharpe(frame, 2, "%", "2019", "2019"))
    assert steps.sortino(window).value == pytest.approx(finance.sortino(frame, 0, "", "2019", "2019"))
    slope = finance.beta(frame, make_wave()[["market"]], start="2019", end="2019")["beta"].iloc[0]
    assert steps.beta(window, MARKET).value == pytest.approx(slope)
    both = finance.correlation(make_wave(), start="2019", end="2019").iloc[0, 1]
    assert steps.corr(window, MARKET).value == pytest.approx(both)


def test_from_a_day_the_first_move_is_that_of_the_day_after() -> None:
    line = make_daily([1, 100, 110, 99, 108.9, 98.01])
    window = steps.between(line, year("2020-03-03"), year("2020-03-09"))
    assert steps.vol(window).value == pytest.approx((0.01 * 4 / 3 * 252) ** 0.5 * 100)


def test_values_of_quarters_at_the_begin_of_a_daily_line_count_four_a_year() -> None:
    quarters = dict(
        zip(
            ("1972-01-03", "1972-04-03", "1972-07-03", "1972-10-02", "1973-01-01"),
            (100, 110, 99, 108.9, 98.01),
            strict=True,
        )
    )
    line = make_line(quarters | {f"1980-01-{day:02}": 500 for day in range(7, 20)})
    found = steps.vol(steps.within(line, steps.period("1972", "1973-01")))
    assert found.value == pytest.approx((0.01 * 4 / 3 * 4) ** 0.5 * 100)
    assert "by observation, times the root of 4" in found.notes[0][0]


def test_the_volatility_of_a_rate_is_in_basis_points() -> None:
    found = steps.vol(make_monthly([1.0, 1.1, 1.0, 1.1, 1.0], unit="%", kind="rate"))
    assert (found.value, found.unit) == (pytest.approx((0.01 * 4 / 3 * 12) ** 0.5 * 100), "basis points")


def test_a_rate_has_no_sharpe_ratio_and_few_moves_no_risk() -> None:
    with pytest.raises(InvalidArgument, match="line: x is a rate or a change"):
        steps.sharpe(make_monthly([1, 2, 3, 4], unit="%", kind="rate"))
    with pytest.raises(InvalidArgument, match="line: x has 2 moves by day in the window, fewer than 3"):
        steps.vol(make_daily([1, 2, 3]))


def test_a_group_is_correlated_in_pairs_or_with_a_line() -> None:
    group = steps.each(WAVE, MARKET)
    assert list(steps.corr(group).members) == ["wave / market"]
    assert steps.corr(group, "month").members["wave / market"].value == steps.corr(WAVE, MARKET, "month").value
    assert steps.corr(group, WAVE).members["wave"].value == pytest.approx(1)


def test_levels_are_correlated_in_both_windows() -> None:
    one, other = make_monthly([9, 1, 2, 3, 4], name="a"), make_monthly([0, 2, 4, 6, 8], name="b")
    assert steps.levels_corr(steps.within(one, steps.period("2020-02", None)), other).value == pytest.approx(1)


def test_a_beta_of_rates_is_of_differences() -> None:
    a = make_monthly([1, 3, 2, 5], unit="%", kind="rate", name="a")
    market = make_monthly([1.0, 2.0, 1.5, 3.0], unit="%", kind="rate", name="m")
    found = steps.beta(a, market)
    assert found.value == pytest.approx(2)
    assert "differences" in found.notes[-1][0]
