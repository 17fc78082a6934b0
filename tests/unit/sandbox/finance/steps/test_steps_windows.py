"""From which value returns count, by window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fathom.services.sandbox.inside.finance import steps
from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.steps.output import to_json
from fathom.services.sandbox.inside.finance.steps.wording import describe_result
from tests.unit.sandbox.finance.series import make_daily, make_line, make_monthly, year

# Closes around two ends of years; 2020-01-01 has none.
CLOSES = make_line(
    {"2019-12-30": 90, "2019-12-31": 100, "2020-01-02": 104, "2020-01-03": 110, "2020-12-31": 130, "2021-01-04": 143}
)


def test_over_a_year_a_price_returns_from_the_last_close_before_it() -> None:
    found = steps.ret(steps.within(CLOSES, year("2020")))
    assert found.value == pytest.approx(30)
    assert (str(found.first.date()), str(found.day.date())) == ("2019-12-31", "2020-12-31")
    assert "from the last value before the window, 2019-12-31" in found.notes[0][0]


def test_from_a_day_a_price_returns_from_its_own_value_or_the_last_before_it() -> None:
    own = steps.between(CLOSES, year("2020-01-02"), year("2020-12-31"))
    holiday = steps.between(CLOSES, year("2020-01-01"), year("2020-12-31"))
    assert steps.ret(own).value == pytest.approx((130 / 104 - 1) * 100)
    assert steps.ret(holiday).value == pytest.approx(30)


def test_between_the_ends_of_two_years_a_price_returns_from_close_to_close() -> None:
    window = steps.between(CLOSES, steps.end(year("2019")), steps.end(year("2020")))
    assert steps.ret(window).value == pytest.approx(30)


def test_levels_of_months_count_from_the_first_value_in_the_window() -> None:
    assert steps.ret(
        steps.within(make_monthly([80, 100, 110, 120]), steps.period("2020-02", "2020-04"))
    ).value == pytest.approx(20)


def test_a_rate_returns_the_difference_of_its_window_in_points() -> None:
    found = steps.ret(steps.within(make_monthly([1.0, 2.5, 4.0], unit="%", kind="rate"), year("2020")))
    assert (found.value, found.unit) == (3.0, "percentage points")


def test_behind_a_point_the_point_itself_does_not_count() -> None:
    line = make_daily([5, 1, 4, 2, 3])
    low = steps.minimum(line)
    assert steps.first(steps.after(line, low)).value == 4
    assert steps.last(steps.before(line, low)).value == 5
    assert steps.first(steps.after(line, year("2020-03-03"))).value == 1
    assert steps.last(steps.before(line, year("2020-03-03"))).value == 5
    assert steps.last(steps.before(line, steps.period(None, "2020-03-03"))).value == 1


@pytest.mark.parametrize(
    ("window", "gaps"),
    [
        (steps.period("2010", "2020"), ["x has values from 2019-12-30 on, not from 2010-01-01"]),
        (steps.period("2020", "2022"), ["x has values up to 2021-01-04, not up to 2022-12-31"]),
        (steps.period("2020", "2020"), []),
        (steps.period(None, "2020"), []),
    ],
)
def test_a_window_that_is_longer_than_the_data_says_so(window: steps.Period, gaps: list[str]) -> None:
    line = replace(CLOSES, name="x")
    found = to_json(steps.mean(steps.within(line, window)))
    assert found.get("gaps", []) == gaps
    group = to_json(steps.mean(steps.within(steps.each(line, CLOSES), window)))
    assert describe_result(group, "en")["lacking"][: len(gaps)] == gaps
    assert "convention" not in found


def test_a_later_window_of_the_same_line_has_its_own_gaps() -> None:
    line = steps.within(CLOSES, steps.period("2010", "2020"))
    assert "gaps" not in to_json(steps.mean(steps.within(line, year("2020"))))


def test_months_are_in_their_year_wherever_in_it_they_are_dated() -> None:
    months = make_monthly([1.0] * 12)
    assert "gaps" not in to_json(steps.mean(steps.within(months, year("2020"))))


def test_an_end_before_the_start_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="b: ends on 2019-12-31, before the start, 2020-01-01"):
        steps.between(CLOSES, year("2020"), year("2019"))


def test_a_point_that_never_was_is_no_end_of_a_window() -> None:
    never = steps.first_if(CLOSES, "above", 1000)
    with pytest.raises(InvalidArgument, match="a: x never above 1000 has no day"):
        steps.after(CLOSES, never)


def test_the_last_months_are_those_of_the_data() -> None:
    assert steps.count(steps.recent(make_monthly([1, 2, 3, 4, 5, 6]), 3, "month")).value == 3


def test_values_of_a_period_are_left_out() -> None:
    line = steps.without(make_monthly([1, 2, 30, 4]), year("2020-03"))
    assert steps.mean(line).value == pytest.approx(7 / 3)
    assert line.notes[-1].english == "without the values from 2020-03-01 to 2020-03-31"
    with pytest.raises(InvalidArgument, match="p: is a period with an open side"):
        steps.without(line, steps.period("2020", None))
