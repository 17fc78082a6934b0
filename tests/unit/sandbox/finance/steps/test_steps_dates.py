"""Days between and after days, by hand."""

from __future__ import annotations

import pytest

from fathom.services.sandbox.inside.finance import steps
from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from tests.unit.sandbox.finance.series import make_daily, year


def test_distances_between_days_in_either_order() -> None:
    one, two = year("2019-12-31"), year("2020-12-31")
    assert (steps.days(one, two).value, steps.days(two, one).value) == (366, 366)
    assert steps.months(one, two).value == 12
    assert steps.years(one, two).value == pytest.approx(366 / 365.25)


def test_a_period_counts_to_its_end_and_an_open_one_has_none() -> None:
    assert steps.days(year("2020-01"), year("2020-02")).value == 29
    with pytest.raises(InvalidArgument, match="b: is a period without an end"):
        steps.days(year("2020"), steps.period("2021", None))


def test_days_and_periods_move_by_units() -> None:
    later = steps.later(year("2020-01-31"), 1, "month")
    assert str(later.end.date()) == "2020-02-29"
    quarter = steps.earlier(year("2020-04"), 1, "quarter")
    assert (str(quarter.start.date()), str(quarter.end.date())) == ("2020-01-01", "2020-01-30")
    with pytest.raises(InvalidArgument, match="unit: must be one of day, week"):
        steps.later(year("2020"), 1, "decade")


def test_sessions_are_the_values_after_the_first_day_up_to_the_last() -> None:
    line = make_daily([1, 2, 3, 4, 5, 6])
    assert steps.sessions(line, steps.first(line), steps.last(line)).value == 5
    assert str(steps.start(year("2020")).end.date()) == "2020-01-01"
