"""Views of different statistics and periods: those that cannot both be true, and those that can."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fathom.services.planner.model.memory import View
from fathom.services.planner.remembering.comparing import DIRECTION, Statistic, excludes, split_measure

YEAR = View("US", "unemployment/max", "2020-01-01", "2020-12-31", 13.2, "%", "")
APRIL = replace(YEAR, measure="unemployment/", first="2020-04-01", last="2020-04-30", value=14.7)
DECADE = View("HD", "close_adj/return", "2010-01-01", "2019-12-31", 856.4, "%", "", tolerance=0.05)
RATE = replace(DECADE, measure="close_adj/cagr", value=25.3)


@pytest.mark.parametrize(
    ("measure", "quantity", "statistic"),
    [
        ("close_adj/", "close_adj", Statistic.READING),
        ("close_adj/max;euros", "close_adj;euros", Statistic.HIGHEST),
        ("close_adj/cagr", "close_adj/return", Statistic.YEARLY),
        ("close_adj/return;euros", "close_adj/return;euros", Statistic.READING),
        ("real gdp/lowest", "real gdp", Statistic.LOWEST),
    ],
)
def test_a_measure_is_a_quantity_and_its_statistic(measure: str, quantity: str, statistic: Statistic) -> None:
    assert split_measure(measure) == (quantity, statistic)


@pytest.mark.parametrize(
    "other",
    [
        APRIL,
        replace(APRIL, measure="unemployment/max"),
        replace(APRIL, measure="unemployment/mean"),
        # A larger extreme of a part, and the same of the whole.
        replace(YEAR, value=14.7),
    ],
)
def test_nothing_within_a_period_is_beyond_its_extreme(other: View) -> None:
    assert excludes(YEAR, other)
    assert excludes(other, YEAR)


@pytest.mark.parametrize(
    "other",
    [
        replace(APRIL, value=13.3),
        replace(APRIL, value=4.0),
        replace(APRIL, first="2021-04-01", last="2021-04-30"),
        replace(APRIL, first="", last=""),
        replace(APRIL, entity="FR"),
        replace(APRIL, measure="unemployment/;seasonally adjusted"),
        replace(APRIL, unit="points"),
        replace(APRIL, unit=DIRECTION, value=1.0),
        replace(APRIL, measure="unemployment/count"),
    ],
)
def test_what_is_within_an_extreme_or_of_something_else_agrees(other: View) -> None:
    assert not excludes(YEAR, other)
    assert not excludes(other, YEAR)


def test_an_open_end_of_an_extreme_reaches_far() -> None:
    assert excludes(replace(YEAR, first="2000-01-01", last=""), APRIL)
    assert not excludes(replace(YEAR, first="2021-01-01", last=""), APRIL)
    assert not excludes(replace(YEAR, first="", last=""), APRIL)


def test_a_low_bounds_from_below() -> None:
    low = replace(YEAR, measure="unemployment/min", value=5.0)
    assert excludes(low, replace(APRIL, value=3.5))
    assert not excludes(low, APRIL)


@pytest.mark.parametrize(("total", "is_wrong"), [(856.4, False), (850.0, False), (180.0, True), (-50.0, True)])
def test_a_rate_per_year_is_compared_with_its_total(total: float, is_wrong: bool) -> None:
    assert excludes(replace(DECADE, value=total), RATE) is is_wrong
    assert excludes(RATE, replace(DECADE, value=total)) is is_wrong


def test_a_rate_of_another_period_or_of_an_amount_is_not_compared_with_a_total() -> None:
    assert not excludes(replace(DECADE, value=10.0, last="2012-12-31"), RATE)
    assert not excludes(replace(DECADE, value=10.0, unit="USD"), replace(RATE, unit="USD"))


@pytest.mark.parametrize(("value", "is_wrong"), [(70.0, True), (2.0, False)])
def test_about_unchanged_excludes_a_large_change_alone(value: float, is_wrong: bool) -> None:
    flat = replace(DECADE, value=0.0, unit=DIRECTION)
    assert excludes(flat, replace(DECADE, value=value)) is is_wrong
    assert not excludes(flat, replace(DECADE, value=1.0, unit=DIRECTION))
