"""Functions of formulas, by the names that the prompt gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fathom.services.planner.answering.verification.typed.spans import (
    list_unit_ends,
    number_units,
    parse_span,
    select_days,
)
from fathom.services.planner.answering.verification.typed.values import (
    PLAIN,
    Column,
    Form,
    FormulaError,
    Scalar,
    Truths,
    Unit,
    Value,
    find_factor,
    require_column,
    require_number,
    require_scalar,
    require_text,
    require_truths,
)

PERCENT = Unit(Form.PERCENT)
DAYS_A_YEAR = 365.25
# Observations a year of daily, weekly, monthly, quarterly and annual data; markets are open on about 252 days.
FREQUENCIES = (252, 52, 12, 4, 1)
# Fewer changes give no deviation worth the name.
FEWEST = 3
# Days by which the day a year before may be missed: a year of weeks, or a holiday.
NEAREST = 10
# "About the same": neither is larger by more than a tenth.
ABOUT = 0.1
# The day that NumPy counts from, as an ordinal number of Python's.
EPOCH = 719_163
REDUCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "last": lambda values: values[-1],
    "first": lambda values: values[0],
    "mean": np.mean,
    "median": np.median,
    "sum": np.sum,
    "highest": np.max,
    "lowest": np.min,
}


def cut(value: Value, period: Value = "all") -> Column:
    """Return the part of a column within a period."""
    column = require_column(value)
    return column.keep(select_days(column.days, parse_span(require_text(period))))


def reduce(how: str, value: Value, period: Value = "all") -> Scalar:
    """Return one value of a column, in its unit."""
    column = cut(value, period)
    return Scalar(float(REDUCTIONS[how](column.values)), column.unit)


def within(value: Value, period: Value) -> Value:
    """Return the part of a column, or of a condition over dates, within a period."""
    if isinstance(value, Truths):
        mask = select_days(value.days, parse_span(require_text(period)))
        if not mask.any():
            raise FormulaError("there is no value in this period")
        return replace(value, days=value.days[mask], values=value.values[mask])
    return cut(value, period)


def per(value: Value, unit: Value, how: Value = "last") -> Column:
    """Return one value for each calendar unit of a column, dated by the unit's last day.

    So columns go together whatever day their source dates them by.
    """
    column = require_column(value)
    if how not in REDUCTIONS:
        raise FormulaError(f"{how!r} is none of {', '.join(REDUCTIONS)}")
    numbers = number_units(column.days, require_text(unit))
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    ends: Any = np.append(starts[1:], len(numbers))
    reduction = REDUCTIONS[str(how)]
    found = [float(reduction(column.values[start:end])) for start, end in zip(starts, ends, strict=True)]
    return replace(column, days=list_unit_ends(numbers[starts], require_text(unit)), values=np.array(found))


def find_bases(column: Column, base: str) -> tuple[Any, Any]:
    """Return the places of values and of those that each is compared with: the one before, or a year before."""
    places = np.arange(len(column.days))
    if base == "previous":
        return places[1:], places[:-1]
    if base != "year":
        raise FormulaError(f"{base!r} is none of previous, year")
    wanted = column.days - np.timedelta64(365, "D")
    found = np.clip(np.searchsorted(column.days, wanted), 1, len(column.days) - 1) if len(places) > 1 else places
    closer = np.abs(column.days[found - 1] - wanted) <= np.abs(column.days[found] - wanted)
    found = np.where(closer, found - 1, found)
    near = np.abs(column.days[found] - wanted) <= np.timedelta64(NEAREST, "D")
    return places[near], found[near]


def list_changes(value: Value, base: Value = "previous") -> Column:
    """Return the change of each value of a column, in its unit."""
    column = require_column(value)
    places, before = find_bases(column, require_text(base))
    if not len(places):
        raise FormulaError("there is nothing to compare with")
    return Column(column.days[places], column.values[places] - column.values[before], make_difference_unit(column.unit))


def list_growths(value: Value, base: Value = "previous") -> Column:
    """Return the relative change of each value of a column, in per cent."""
    column = require_column(value)
    places, before = find_bases(column, require_text(base))
    if not len(places) or (column.values[before] <= 0).any():
        raise FormulaError("there is nothing positive to compare with")
    return Column(column.days[places], (column.values[places] / column.values[before] - 1) * 100, PERCENT)


def make_difference_unit(unit: Unit) -> Unit:
    return Unit(Form.POINTS) if unit.form is Form.PERCENT else Unit(Form.DIFFERENCE, unit.series)


def take_course(value: Value, period: Value) -> Column:
    """Return a column within a period with the last value before it as its base, where there is one."""
    column = require_column(value)
    inside = np.flatnonzero(select_days(column.days, parse_span(require_text(period))))
    if not len(inside):
        raise FormulaError("there is no value in this period")
    start = max(0, inside[0] - 1)
    course = replace(column, days=column.days[start : inside[-1] + 1], values=column.values[start : inside[-1] + 1])
    if len(course.days) < 2:
        raise FormulaError("one value has no change")
    return course


def change(value: Value, period: Value, until: Value = "") -> Scalar:
    """Return the change over a period, or from the last value of one to that of another, in the column's unit."""
    first, last, _ = find_ends(value, period, until)
    return Scalar(last - first, make_difference_unit(require_column(value).unit))


def growth(value: Value, period: Value, until: Value = "") -> Scalar:
    """Return the relative change over a period, or between two, in per cent."""
    first, last, _ = find_ends(value, period, until)
    if first <= 0:
        raise FormulaError("there is nothing positive to compare with")
    return Scalar((last / first - 1) * 100, PERCENT)


def annual_growth(value: Value, period: Value, until: Value = "") -> Scalar:
    """Return the rate a year that makes the relative change over a period, or between two, in per cent."""
    first, last, days = find_ends(value, period, until)
    if first <= 0 or last <= 0 or days <= 0:
        raise FormulaError("there is nothing positive to compare with")
    return Scalar(((last / first) ** (DAYS_A_YEAR / days) - 1) * 100, replace(PERCENT, per="year"))


def find_ends(value: Value, period: Value, until: Value) -> tuple[float, float, float]:
    """Return the values between which a change lies, and the days between them."""
    if until:
        before, after = cut(value, period), cut(value, until)
        days = (after.days[-1] - before.days[-1]) / np.timedelta64(1, "D")
        return float(before.values[-1]), float(after.values[-1]), float(days)
    course = take_course(value, period)
    days = (course.days[-1] - course.days[0]) / np.timedelta64(1, "D")
    return float(course.values[0]), float(course.values[-1]), float(days)


def volatility(value: Value, period: Value, unit: Value = "year") -> Scalar:
    """Return the standard deviation of the relative changes of a period, for a year or for one step, in per cent."""
    course = take_course(value, period)
    steps = list_growths(course).values
    if len(steps) < FEWEST:
        raise FormulaError("too few values for a volatility")
    spread = float(steps.std(ddof=1))
    if unit == "step":
        return Scalar(spread, PERCENT)
    if unit != "year":
        raise FormulaError(f"{unit!r} is none of year, step")
    years = float((course.days[-1] - course.days[0]) / np.timedelta64(1, "D")) / DAYS_A_YEAR
    a_year = min(FREQUENCIES, key=lambda one: abs(np.log(one / (len(steps) / years))))
    return Scalar(spread * a_year**0.5, replace(PERCENT, per="year"))


def drawdown(value: Value, period: Value = "all") -> Scalar:
    """Return the deepest fall from an earlier high, as a negative number in per cent."""
    column = cut(value, period)
    if (column.values <= 0).any():
        raise FormulaError("a drawdown is one of positive values")
    return Scalar(float((column.values / np.maximum.accumulate(column.values) - 1).min()) * 100, PERCENT)


def find_day(pick: Callable[[Any], Any], value: Value, period: Value = "all") -> Scalar:
    """Return the day of the highest or the lowest value."""
    column = cut(value, period)
    return make_day(column.days[int(pick(column.values))])


def find_true_day(place: int, value: Value, period: Value = "all") -> Scalar:
    """Return the first or the last day on which a condition holds."""
    truths = require_truths(within(value, period))
    if not truths.values.any():
        raise FormulaError("the condition holds on no day")
    return make_day(truths.days[truths.values][place])


def make_day(day: Any) -> Scalar:
    return Scalar(float(day.astype(int)) + EPOCH, Unit(Form.DATE))


def parse_day(period: Value) -> Scalar:
    """Return the last day of a period."""
    return Scalar(float(parse_span(require_text(period))[1].toordinal()), Unit(Form.DATE))


def is_in_period(value: Value, period: Value) -> bool:
    """Return whether a day lies in a period."""
    day = require_scalar(value)
    if day.unit.form is not Form.DATE:
        raise FormulaError("a day is wanted here")
    first, last = parse_span(require_text(period))
    return first.toordinal() <= day.value <= last.toordinal()


def count(value: Value, period: Value = "all") -> Scalar:
    """Return the number of dates on which a condition holds, of a column's values, or of true members of a list."""
    if isinstance(value, tuple):
        if not all(isinstance(one, bool) for one in value):
            raise FormulaError("a list of conditions is wanted here")
        return Scalar(float(sum(one is True for one in value)))
    part = within(value, period)
    return Scalar(float(part.values.sum() if isinstance(part, Truths) else len(require_column(part).values)))


def holds_at(test: Callable[[Any], Any], value: Value, period: Value = "all") -> bool:
    """Return whether a condition holds on all, or on any, of its dates or members."""
    if isinstance(value, tuple):
        if not value or not all(isinstance(one, bool) for one in value):
            raise FormulaError("a list of conditions is wanted here")
        return bool(test(np.array(value)))
    return bool(test(require_truths(within(value, period)).values))


def list_values(unit: Unit, among: Value) -> Any:
    """Return the values of a list or of a column in a unit."""
    if isinstance(among, Column):
        return among.values * find_factor(unit, among.unit)
    if not isinstance(among, tuple) or not among:
        raise FormulaError("a list or a column is wanted here")
    return np.array([one.value * find_factor(unit, one.unit) for one in map(require_scalar, among)])


def rank(sign: int, value: Value, among: Value) -> Scalar:
    """Return the place of a value among some, itself included: 1 for the largest with ``sign`` 1."""
    own = require_scalar(value)
    ahead = sign * (list_values(own.unit, among) - own.value)
    # Values that are computed twice differ in their last digits.
    return Scalar(1.0 + float((ahead > 1e-12 * max(abs(own.value), 1e-300)).sum()))


def choose(pick: Callable[[Any], Any], *among: Value) -> Scalar:
    """Return the largest or smallest of some values."""
    listed = among[0] if len(among) == 1 and isinstance(among[0], tuple) else tuple(among)
    first = require_scalar(listed[0]) if isinstance(listed, tuple) and listed else None
    if first is None:
        raise FormulaError("there is nothing to choose from")
    return Scalar(float(pick(list_values(first.unit, listed))), first.unit)


def absolute(value: Value) -> Scalar | Column:
    found = require_number(value)
    if isinstance(found, Column):
        return replace(found, values=np.abs(found.values))
    return replace(found, value=abs(found.value))


def is_about(left: Value, right: Value) -> bool:
    """Return whether two values are about the same."""
    one, other = require_scalar(left), require_scalar(right)
    same = other.value * find_factor(one.unit, other.unit)
    return abs(one.value - same) <= ABOUT * max(abs(one.value), abs(same))


def correlation(left: Value, right: Value) -> Scalar:
    """Return the correlation of two columns over the dates that they share."""
    one, other = require_column(left), require_column(right)
    _, ours, theirs = np.intersect1d(one.days, other.days, return_indices=True)
    if len(ours) < FEWEST:
        raise FormulaError("too few dates in common")
    return Scalar(float(np.corrcoef(one.values[ours], other.values[theirs])[0, 1]), PLAIN)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    **{name: partial(reduce, name) for name in REDUCTIONS},
    "within": within,
    "per": per,
    "changes": list_changes,
    "growths": list_growths,
    "change": change,
    "growth": growth,
    "annual_growth": annual_growth,
    "volatility": volatility,
    "drawdown": drawdown,
    "day_of_highest": partial(find_day, np.argmax),
    "day_of_lowest": partial(find_day, np.argmin),
    "first_day": partial(find_true_day, 0),
    "last_day": partial(find_true_day, -1),
    "day": parse_day,
    "in_period": is_in_period,
    "count": count,
    "all": partial(holds_at, np.all),
    "any": partial(holds_at, np.any),
    "rank": partial(rank, 1),
    "rank_from_lowest": partial(rank, -1),
    "max": partial(choose, np.max),
    "min": partial(choose, np.min),
    "abs": absolute,
    "about": is_about,
    "correlation": correlation,
}
