"""Values at days, statistics and growth over windows, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fathom.services.sandbox.inside.finance import steps
from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from tests.unit.sandbox.finance.series import make_daily, make_line, make_monthly, year

# Monday to Friday, and the Monday after.
DAILY = make_daily([10, 20, 30, 40, 50, 60])
# As gold in the early seventies: a daily series with values of quarters at its begin.
SPARSE = make_line(
    {"1972-01-03": 43, "1972-04-03": 48, "1972-07-03": 62} | {f"1980-01-{day:02}": 500 for day in range(7, 12)}
)


def test_a_day_without_a_value_has_the_last_one_before_it() -> None:
    assert steps.at(DAILY, year("2020-03-08")).value == 50
    assert steps.at(DAILY, year("2020-03-09")).value == 60


def test_a_day_behind_the_last_one_of_a_daily_line_is_refused_and_the_end_of_a_period_is_not() -> None:
    with pytest.raises(InvalidArgument, match="p: x has no value for 2020-03-11: it ends on 2020-03-09"):
        steps.at(DAILY, year("2020-03-11"))
    assert steps.at(DAILY, steps.end(year("2020-03-11"))).value == 60
    with pytest.raises(InvalidArgument, match="it ends on 2020-03-09"):
        steps.at(DAILY, steps.end(year("2020-03-31")))


def test_a_day_before_the_first_one_is_refused() -> None:
    with pytest.raises(
        InvalidArgument, match="p: x has no value for 2019-01-01 to 2019-12-31: it begins on 2020-03-02"
    ):
        steps.at(DAILY, year("2019"))


def test_a_year_of_months_has_its_last_value() -> None:
    found = steps.at(make_monthly([float(month) for month in range(1, 15)]), year("2020"))
    assert (found.value, str(found.day.date())) == (12, "2020-12-31")


def test_a_day_within_a_month_has_the_value_of_the_month() -> None:
    assert steps.at(make_monthly([1, 2, 3]), year("2020-02-10")).value == 2


def test_a_hole_in_a_daily_line_is_refused_with_the_days_around_it() -> None:
    with pytest.raises(
        InvalidArgument,
        match="p: x has no value for 1972-05-01 to 1972-05-31: around it are those of 1972-04-03 and 1972-07-03",
    ):
        steps.at(SPARSE, year("1972-05"))
    assert steps.at(SPARSE, year("1972")).value == 62


def test_statistics_of_a_window() -> None:
    window = steps.within(DAILY, steps.period("2020-03-03", "2020-03-05"))
    functions = (
        steps.first,
        steps.last,
        steps.maximum,
        steps.minimum,
        steps.mean,
        steps.median,
        steps.total,
        steps.std,
        steps.count,
    )
    assert [one(window).value for one in functions] == [20, 40, 40, 20, 30, 30, 90, 10, 3]
    assert str(steps.maximum(window).day.date()) == "2020-03-05"


def test_a_summary_of_a_price_has_its_return_and_its_deepest_fall() -> None:
    window = steps.within(DAILY, steps.period("2020-03-03", "2020-03-05"))
    assert [one.value for one in steps.summary(window).members.values()] == [20, 40, 40, 20, 30, 300, 0]
    # Of an index of months nobody asks for it, and a price below 0 has none.
    months = steps.summary(make_monthly([20, 40, 30]))
    below = steps.summary(replace(DAILY, values=DAILY.values - 20))
    assert [*months.members] == [*below.members] == ["first", "last", "max", "min", "mean"]


def test_a_single_value_has_no_deviation() -> None:
    assert steps.std(steps.within(DAILY, year("2020-03-03"))).value is None


def test_the_largest_values_and_members() -> None:
    assert list(steps.top(DAILY, 2).members) == ["2020-03-09", "2020-03-06"]
    assert [one.value for one in steps.bottom(DAILY, 2).members.values()] == [10, 20]
    group = steps.each(make_daily([1, 2], name="a"), make_daily([1, 3], name="b"), make_daily([1, 1], name="c"))
    ranked = steps.rank(steps.ret(group))
    assert list(ranked.members) == ["b", "a", "c"]
    assert (steps.item(ranked, 1).value, steps.item(ranked, 0).value, steps.size(ranked).value) == (200, 0, 3)
    with pytest.raises(InvalidArgument, match="n: is 4, and the group has 3 members"):
        steps.item(ranked, 4)


def test_members_without_a_value_rank_last() -> None:
    group = steps.each(make_daily([1, 2], name="a"), make_daily([5, 9], name="b"))
    assert list(steps.rank(steps.first_if(group, "above", 4)).members) == ["b", "a"]


def test_compound_growth_counts_years_of_days() -> None:
    found = steps.cagr(make_monthly([100.0] * 24 + [121.0], start="2019-12-31"))
    assert found.value == pytest.approx((1.21 ** (365.25 / 731) - 1) * 100)
    assert "2.00 years" in found.notes[0][0]
    assert "less than a year, projected to one" in steps.cagr(make_monthly([100, 110])).notes[0][0]


def test_a_change_is_in_the_lines_own_unit() -> None:
    assert (steps.change(DAILY).value, steps.change(DAILY).unit) == (50, "USD")


def test_a_high_is_recovered_behind_the_window_when_it_is_met_again() -> None:
    line = make_daily([10, 8, 9, 10, 12])
    found = steps.recovery(steps.within(line, steps.period(None, "2020-03-03")))
    assert (found.value, str(found.day.date()), str(found.first.date())) == (3, "2020-03-05", "2020-03-02")
    never = steps.recovery(make_daily([10, 8, 9]))
    assert (never.value, never.day) == (None, None)


def test_observations_ahead_and_back() -> None:
    day = year("2020-03-04")
    assert (steps.ahead(DAILY, day, 2).value, steps.ahead(DAILY, day, -1).value) == (50, 20)
    with pytest.raises(InvalidArgument, match="n: is 4, and x has 3 values after 2020-03-04"):
        steps.ahead(DAILY, day, 4)


def test_a_percentile_counts_values_at_the_level() -> None:
    assert steps.percentile(DAILY, 30).value == 50


def test_the_mean_of_a_group_of_points_is_one_over_its_members() -> None:
    group = steps.at(steps.each(*(make_daily([0, value], name=str(value)) for value in (2, 4, 9))), year("2020-03-03"))
    assert steps.mean(group).value == 5
    assert steps.median(group).value == 4
    # Of lines it is one of each.
    lines = steps.mean(steps.each(make_daily([1, 2], name="a"), make_daily([3, 4], name="b")))
    assert [one.value for one in lines.members.values()] == [1.5, 3.5]
