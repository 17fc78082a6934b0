"""Days of periods and points, and the distances between them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import check_choice
from fathom.services.sandbox.inside.finance.returns import DAYS_A_YEAR
from fathom.services.sandbox.inside.finance.steps.values import (
    EVERY,
    Line,
    Period,
    Point,
    describe_class,
    map_members,
    read_number,
)

# Argument of pandas' offsets, and how many of it the unit has.
OFFSETS = MappingProxyType(
    {"day": ("days", 1), "week": ("weeks", 1), "month": ("months", 1), "quarter": ("months", 3), "year": ("years", 1)}
)


def read_period(value: Any, name: str) -> Period:
    """Return a period, or the day of a point as one; refuse a point without a day, naming the argument."""
    if isinstance(value, Period):
        return value
    if not isinstance(value, Point):
        raise InvalidArgument(name, f"must be a period or a point with a day, not {describe_class(value)}")
    if value.day is None:
        raise InvalidArgument(name, f"{value.name or 'the point'} has no day")
    return Period(value.day, value.day)


def find_day(value: Any, name: str) -> Any:
    """Return the day of a point or the last day of a period; refuse an open end, naming the argument."""
    found = read_period(value, name).end
    if found is None:
        raise InvalidArgument(name, "is a period without an end, and has no day")
    return found


@map_members
def start(p: Any) -> Period:
    """Return the first day of a period, or the day of a point."""
    found = read_period(p, "p").start
    if found is None:
        raise InvalidArgument("p", "is a period without a start")
    return Period(found, found, True)


@map_members
def end(p: Any) -> Period:
    """Return the last day of a period, or the day of a point."""
    found = find_day(p, "p")
    return Period(found, found, True)


def make_offset(count: int, unit: str) -> Any:
    """Return so many days, weeks, months, quarters or years as an offset of dates."""
    check_choice(unit, OFFSETS, "unit")
    key, size = OFFSETS[unit]
    fields: dict[str, Any] = {key: count * size}
    return pd.DateOffset(**fields)


def shift(value: Any, n: Any, unit: str, sign: int) -> Period:
    """Return the day, or both ends of a period, so many units later."""
    count = read_number(n, "n")
    if count != int(count):
        raise InvalidArgument("n", f"must be a whole number, not {count:g}")
    offset = make_offset(sign * int(count), unit)
    given = read_period(value, "a")
    if given.start is not None and given.end is not None:
        return Period(given.start + offset, given.end + offset)
    day = find_day(value, "a") + offset
    return Period(day, day)


@map_members
def later(a: Any, n: Any, unit: str) -> Period:
    """Return the day or period n days, weeks, months, quarters or years after a point or period."""
    return shift(a, n, unit, 1)


@map_members
def earlier(a: Any, n: Any, unit: str) -> Period:
    """Return the day or period n days, weeks, months, quarters or years before a point or period."""
    return shift(a, n, unit, -1)


@map_members
def days(a: Any, b: Any) -> Point:
    """Return the calendar days between two points or (ends of) periods, as a number above 0."""
    one, two = find_day(a, "a"), find_day(b, "b")
    return Point(float(abs((two - one).days)), two, "days", "", one)


@map_members
def months(a: Any, b: Any) -> Point:
    """Return the months between the months of two points or periods."""
    one, two = find_day(a, "a"), find_day(b, "b")
    return Point(float(abs((pd.Period(two, "M") - pd.Period(one, "M")).n)), two, "months", "", one)


@map_members
def years(a: Any, b: Any) -> Point:
    """Return the years between two points or periods, days/365.25."""
    one, two = find_day(a, "a"), find_day(b, "b")
    return Point(abs((two - one).days) / DAYS_A_YEAR, two, "years", "", one)


@map_members
def sessions(line: Line, a: Any, b: Any) -> Point:
    """Return the number of values of a line after the earlier of two days, up to the later one."""
    one, two = find_day(a, "a"), find_day(b, "b")
    low, high = min(one, two), max(one, two)
    count = int(((line.values.index > low) & (line.values.index <= high)).sum())
    return Point(float(count), two, "", line.name, one, line.notes)


def check_frequency(freq: Any) -> None:
    """Raise ``InvalidArgument`` unless the text is day, week, month, quarter or year."""
    check_choice(freq, EVERY, "freq")
