"""Lines of sheets, periods, groups, and the value from which a return counts."""

from __future__ import annotations

import pandas as pd
import pytest

from fathom.services.sandbox.inside.finance import steps
from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from tests.unit.sandbox.finance.published import make_rate, make_wave
from tests.unit.sandbox.finance.series import make_daily, make_line, make_monthly, year


def test_a_column_of_a_sheet_is_a_line_with_its_unit_and_kind() -> None:
    rate = steps.line(make_rate([1.0, 2.0, 3.0]), "fedfunds", "federal funds")
    assert (rate.name, rate.unit, rate.kind) == ("federal funds", "%", "rate")
    assert steps.line(make_wave(), "wave").kind == "price"
    months = make_rate([1.0, 2.0, 3.0], unit="Bil. of $")
    assert steps.line(months, "fedfunds").kind == "level"


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(InvalidArgument, match="column: 'gold' is none of wave, market"):
        steps.line(make_wave(), "gold")


def test_a_period_ends_on_the_last_day_of_its_end() -> None:
    found = steps.period("2020-02", "2020-03")
    assert (str(found.start.date()), str(found.end.date())) == ("2020-02-01", "2020-03-31")
    assert steps.period(None, "2020").start is None
    with pytest.raises(InvalidArgument, match="start: 2021-01-01 is after the end, 2020-12-31"):
        steps.period("2021", "2020")


def test_a_window_without_values_names_the_days_that_there_are() -> None:
    with pytest.raises(
        InvalidArgument,
        match="x has no value from 2030-01-01 to 2030-12-31; it has values from 2020-03-02 to 2020-03-04",
    ):
        steps.mean(steps.within(make_daily([1, 2, 3]), year("2030")))


def test_functions_of_a_line_work_on_each_member_of_a_group() -> None:
    group = steps.each(make_daily([1, 2], name="a"), make_daily([2, 8], name="b"), make_daily([5, 5], name="a"))
    assert {name: one.value for name, one in steps.ret(group).members.items()} == {"a": 100, "b": 300, "a (3)": 0}
    sums = steps.plus(steps.first(group), steps.last(group))
    assert [one.value for one in sums.members.values()] == [3, 10, 10]


def test_groups_of_different_size_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="groups of different size, 1 and 2 members"):
        steps.plus(steps.each(1), steps.each(1, 2))


def test_a_point_where_a_line_belongs_is_named() -> None:
    with pytest.raises(InvalidArgument, match="line: must be a line, not a point"):
        steps.ret(steps.first(make_daily([1, 2])))


def test_a_line_never_changes() -> None:
    given = make_monthly([1, 2, 3])
    before = given.values.copy()
    steps.ret(steps.within(steps.moves(given, "month"), year("2020")))
    pd.testing.assert_series_equal(given.values, before)


def test_a_line_with_a_single_value_in_its_window_has_no_return() -> None:
    with pytest.raises(InvalidArgument, match="x has the single value of 2020-01-31 in the window"):
        steps.ret(steps.within(make_monthly([1, 2, 3]), year("2020-01")))


def test_a_window_long_before_the_data_counts_from_their_first_value_and_says_so() -> None:
    found = steps.ret(steps.within(make_daily([1, 2, 3]), year("2020")))
    assert found.value == pytest.approx(200)
    gaps = [note.english for note in found.notes if note.is_gap]
    assert gaps == [
        "x has values from 2020-03-02 on, not from 2020-01-01",
        "x has values up to 2020-03-04, not up to 2020-12-31",
    ]


def test_a_window_right_before_the_data_is_refused() -> None:
    # Its first days would be missing, and no note would say so.
    with pytest.raises(InvalidArgument, match="x begins on 2020-03-02, not before the start, 2020-03-01"):
        steps.ret(steps.within(make_daily([1, 2, 3]), year("2020-03")))


def test_a_step_with_an_unknown_word_names_the_words() -> None:
    with pytest.raises(InvalidArgument, match="freq: must be one of day, week, month, quarter, year, not 'hour'"):
        steps.moves(make_line({"2020-01-01": 1.0}), "hour")
