"""Lines made of lines, and arithmetic, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fathom.services.sandbox.inside.finance import steps
from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.steps.values import Line
from tests.unit.sandbox.finance.series import make_daily, make_line, make_monthly


def test_values_by_period_are_dated_by_the_last_day_with_a_value() -> None:
    line = make_line({"2020-01-02": 1, "2020-01-30": 3, "2020-02-03": 8})
    found = {
        how: steps.every(line, "month", how).values.tolist()
        for how in ("last", "first", "mean", "sum", "max", "min", "count")
    }
    assert found == {
        "last": [3, 8],
        "first": [1, 8],
        "mean": [2, 8],
        "sum": [4, 8],
        "max": [3, 8],
        "min": [1, 8],
        "count": [2, 1],
    }
    assert str(steps.every(line, "month", "mean").values.index[0].date()) == "2020-01-30"


def test_moves_are_in_percent_and_steps_in_the_lines_unit() -> None:
    line = make_monthly([100, 110, 99])
    assert steps.moves(line, "month").values.tolist() == pytest.approx([10, -10])
    assert steps.steps(line, "month").values.tolist() == [10, -11]


def test_a_rate_has_steps_in_points_and_no_moves() -> None:
    rate = make_monthly([1.0, 1.5], unit="%", kind="rate")
    assert steps.steps(rate, "month").unit == "percentage points"
    with pytest.raises(InvalidArgument, match="line: x is a rate or a change, and has no percent change: use steps"):
        steps.moves(rate, "month")


def test_growth_on_the_year_before_by_month_quarter_and_year() -> None:
    months = make_monthly([100.0] * 12 + [110.0])
    assert steps.yoy(months).values.tolist() == pytest.approx([10])
    quarters = make_line(
        {"2020-03-31": 100, "2020-06-30": 102, "2020-09-30": 101, "2020-12-31": 103, "2021-03-31": 105}, kind="level"
    )
    assert steps.yoy(quarters).values.tolist() == pytest.approx([5])
    assert steps.qoq(quarters).values.iloc[0] == pytest.approx(2)
    years = make_line({"2018-12-31": 50, "2019-12-31": 60, "2020-12-31": 66}, kind="level")
    assert steps.yoy(years).values.tolist() == pytest.approx([20, 10])
    with pytest.raises(InvalidArgument, match="line: x has values by year, too few"):
        steps.qoq(years)


def test_a_line_too_short_for_a_step_is_refused() -> None:
    with pytest.raises(
        InvalidArgument, match="line: x has 2 values from 2020-01-31 to 2020-02-29, too few for this step"
    ):
        steps.yoy(make_monthly([1, 2]))


def test_growth_of_a_rate_is_its_difference() -> None:
    rate = make_monthly([1.0] * 12 + [4.0], unit="%", kind="rate")
    assert (steps.yoy(rate).values.tolist(), steps.yoy(rate).unit) == ([3.0], "percentage points")


def test_growth_at_a_yearly_rate_compounds() -> None:
    quarters = make_line({"2020-03-31": 100, "2020-06-30": 101, "2020-09-30": 101}, kind="level")
    assert steps.annualised(quarters).values.tolist() == pytest.approx([(1.01**4 - 1) * 100, 0])


def test_an_average_needs_as_many_values() -> None:
    assert steps.average(make_daily([1, 2, 6]), 2).values.tolist() == [1.5, 4]
    assert steps.rolling_max(make_daily([1, 3, 2]), 2).values.tolist() == [3, 3]
    assert steps.rolling_min(make_daily([1, 3, 2]), 2).values.tolist() == [1, 2]
    with pytest.raises(InvalidArgument, match="n: is 4, and x has 3 values"):
        steps.average(make_daily([1, 2, 3]), 4)


def test_prices_over_each_other_stay_prices() -> None:
    one, other = make_daily([100, 120], name="a"), make_daily([2, 3], name="b")
    assert steps.over(one, other).values.tolist() == [50, 40]
    assert (steps.over(one, other).kind, steps.times(one, other).kind) == ("price", "price")
    assert (steps.minus(one, other).kind, steps.minus(one, other).unit) == ("level", "USD")


def test_a_finer_line_counts_with_its_mean_and_says_so() -> None:
    daily = make_line({"2020-01-30": 1, "2020-01-31": 3, "2020-02-03": 10, "2020-02-04": 20})
    found = steps.times(daily, make_monthly([10, 100]))
    assert found.values.tolist() == [20, 1500]
    (note,) = found.notes
    assert note.english == "the finer series as the mean of each month of the coarser one"
    assert note.chinese == "较密的序列取较疏序列每月的均值"


def test_points_and_numbers_combine() -> None:
    low, high = steps.first(make_monthly([2, 5])), steps.last(make_monthly([2, 5]))
    assert steps.minus(high, low).value == 3
    assert steps.over(high, 2).value == 2.5
    assert (steps.share(low, high).value, steps.share(low, high).unit) == (40, "%")
    assert (steps.pct(low, high).value, str(steps.pct(low, high).first.date())) == (150, "2020-01-31")
    assert steps.neg(5) == -5
    assert steps.magnitude(steps.minus(low, high)).value == 3


def test_points_in_percent_differ_by_percentage_points() -> None:
    rate = make_monthly([1.0, 1.5], unit="%", kind="rate")
    assert steps.minus(steps.last(rate), steps.first(rate)).unit == "percentage points"


@pytest.mark.parametrize("operate", [steps.over, steps.share])
def test_nothing_is_divided_by_0(operate: object) -> None:
    assert callable(operate)
    with pytest.raises(InvalidArgument, match="b: is 0"):
        operate(1, 0)


def test_a_percent_change_from_below_0_to_above_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="a: is -1: a percent change from it to 2 has no meaning"):
        steps.pct(-1, 2)


def make_currency(values: list[float], name: str) -> Line:
    return replace(make_daily(values, name=name), unit="per EUR")


def test_rates_of_currencies_are_prices() -> None:
    dollars, pounds = make_currency([1.2, 1.1], "USD"), make_currency([0.8, 1.0], "GBP")
    found = steps.rate(pounds, dollars)
    assert found.values.tolist() == pytest.approx([1.5, 1.1])
    assert (found.kind, found.unit, found.name) == ("price", "USD per GBP", "GBP/USD")
    assert steps.rate(dollars, "EUR").values.tolist() == pytest.approx([1 / 1.2, 1 / 1.1])
    assert steps.rate("EUR", dollars).values.tolist() == [1.2, 1.1]


def test_a_currency_that_is_no_line_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="of: must be a line of a currency per euro or 'EUR', not 'USD'"):
        steps.rate("USD", make_currency([1, 2], "GBP"))


@pytest.mark.parametrize("unit", ["USD", "%", ""])
def test_a_price_or_a_rate_in_percent_is_no_currency(unit: str) -> None:
    dollars, other = make_currency([1.2, 1.1], "USD"), replace(make_daily([100, 101], name="gold"), unit=unit)
    shown = f"in {unit}" if unit else "without a unit"
    for name, arguments in (("of", (other, dollars)), ("quoted", (dollars, other)), ("quoted", ("EUR", other))):
        with pytest.raises(InvalidArgument, match=f"{name}: must be a line of a currency per EUR, and gold is {shown}"):
            steps.rate(*arguments)


def test_a_rate_and_an_amount_have_no_difference() -> None:
    price, rate = make_monthly([100, 110], unit="USD"), make_monthly([1.0, 1.5], unit="%", kind="rate")
    for operate in (steps.minus, steps.plus):
        with pytest.raises(InvalidArgument, match="b: is in %, which has no sum or difference with what is in USD"):
            operate(steps.last(price), steps.last(rate))
    assert steps.minus(steps.last(price), 10).value == 100
    assert steps.minus(steps.last(rate), steps.first(rate)).unit == "percentage points"
