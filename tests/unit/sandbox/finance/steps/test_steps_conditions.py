"""Conditions on lines by hand; those that never hold."""

from __future__ import annotations

import pytest

from fathom.services.sandbox.inside.finance import steps
from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from tests.unit.sandbox.finance.series import make_daily, make_monthly, year

LINE = make_daily([1, 3, 3, 1, 3, 3, 3])


def test_values_beyond_a_level_are_counted_with_their_days() -> None:
    found = steps.count_if(LINE, "above", 1)
    assert (found.value, found.of, len(found.days)) == (5, 7, 5)
    counts = [steps.count_if(LINE, op, 3).value for op in ("above", "below", "at_least", "at_most")]
    assert counts == [0, 2, 5, 7]
    assert steps.share_if(make_daily([1, 2, 3, 4]), "below", 2).value == 25


def test_first_and_last_day_of_a_condition() -> None:
    assert str(steps.first_if(LINE, "above", 2).day.date()) == "2020-03-03"
    assert str(steps.last_if(LINE, "below", 2).day.date()) == "2020-03-05"


def test_what_never_holds_has_neither_value_nor_day() -> None:
    never = steps.first_if(LINE, "above", 5)
    assert (never.value, never.day, never.name) == (None, None, "x never above 5")
    nothing = steps.where(LINE, LINE, "above", 5)
    found = [one(nothing) for one in (steps.first, steps.last, steps.maximum, steps.mean, steps.total)]
    assert [(one.value, one.day) for one in found] == [(None, None)] * 5
    assert steps.count(nothing).value == 0
    assert steps.longest(LINE, "above", 5).value == 0
    assert steps.crossings(LINE, 5).members == {}


def test_a_condition_on_a_window_outside_the_data_is_refused() -> None:
    selected = steps.where(LINE, LINE, "above", 5)
    with pytest.raises(InvalidArgument, match="it has values from 2020-03-02 to 2020-03-10"):
        steps.count(steps.within(selected, year("2030")))


def test_a_value_that_never_was_is_not_computed_with() -> None:
    with pytest.raises(InvalidArgument, match="b: x never above 5 has no value"):
        steps.minus(1, steps.first_if(LINE, "above", 5))


def test_the_longest_run_has_its_ends() -> None:
    found = steps.longest(LINE, "above", 2)
    assert (found.value, str(found.first.date()), str(found.day.date())) == (3, "2020-03-06", "2020-03-10")


def test_values_on_days_on_which_another_line_is_high() -> None:
    other = make_daily([10, 0, 10, 0, 0, 0, 10], name="other")
    assert steps.where(LINE, other, "at_least", 10).values.tolist() == [1, 3, 3]
    months = steps.where(make_monthly([1, 2]), make_monthly([5, 9], start="2020-01-15"), "above", 5)
    assert months.values.tolist() == [2]


def test_crossings_of_a_level_and_of_a_line() -> None:
    found = steps.crossings(LINE, 2, "both").members
    assert {day: one.unit for day, one in found.items()} == {
        "2020-03-03": "up",
        "2020-03-05": "down",
        "2020-03-06": "up",
    }
    assert list(steps.crossings(LINE, make_daily([2] * 7), "down").members) == ["2020-03-05"]
    assert list(steps.crossings(steps.within(LINE, year("2020-03-03")), 2, "up").members) == ["2020-03-03"]


def test_touching_a_level_is_no_crossing() -> None:
    assert steps.crossings(make_daily([1, 2, 1, 3]), 2, "up").members.keys() == {"2020-03-05"}


def test_an_unknown_condition_names_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match="op: must be one of above, below, at_least, at_most, not 'over'"):
        steps.count_if(LINE, "over", 1)
