"""Periods of text: what kind they are, and the days from which to which they run."""

from __future__ import annotations

import calendar
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum


class Kind(StrEnum):
    """Kinds of meaning of an expression.

    A *point* is one end of a period ("end of 2018"), a *window* all its days. *Recurring* names a frequency ("each
    quarter"). What is *unclear* depends on something unnamed ("ten years later"), what is *impossible* is in no
    calendar ("31 February"), and *contradictory* periods exclude each other. A *reversed* range ends before it begins,
    and of a *nameless* era no days are known ("the dot-com era"); these have no dates. *Everything* is all that there
    is ("on record").
    """

    POINT = "point"
    WINDOW = "window"
    RECURRING = "recurring"
    UNCLEAR = "unclear"
    IMPOSSIBLE = "impossible"
    CONTRADICTORY = "contradictory"
    REVERSED = "reversed"
    NAMELESS = "nameless"
    EVERYTHING = "everything"


class Unit(StrEnum):
    DAY = "day"
    SESSION = "session"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    HALF = "half"
    YEAR = "year"
    DECADE = "decade"


MONTHS_OF = {Unit.MONTH: 1, Unit.QUARTER: 3, Unit.HALF: 6, Unit.YEAR: 12, Unit.DECADE: 120}
DAY = timedelta(days=1)
DAYS_OF = {Unit.DAY: 1, Unit.WEEK: 7}


@dataclass(frozen=True)
class Period:
    """A period in a text, both days inclusive; None is open.

    ``span`` is its position, ``unit`` the unit in which it is worded, ``count`` the number of units up to today,
    ``every`` what recurs. A point lies in the ``window`` that it is the end of. ``trailing``
    marks a length up to today, ``cumulative`` what an interim statement covers, and ``listed`` one of several named
    one by one.
    """

    start: date | None = None
    end: date | None = None
    kind: Kind = Kind.WINDOW
    unit: Unit | None = None
    span: tuple[int, int] = (0, 0)
    window: tuple[date, date] | None = None
    count: float = 0
    every: Unit | None = None
    relative: bool = False
    trailing: bool = False
    cumulative: bool = False
    fiscal: bool = False
    listed: bool = False


@dataclass(frozen=True)
class Date:
    """A year, half, quarter, month or day; its year is 0 and its month 0 where the words leave them out.

    ``part`` is the number of the half, quarter or month, ``years`` the length of a decade, ``edge`` a word for one end.
    """

    unit: Unit
    year: int = 0
    part: int = 0
    day: int = 0
    years: int = 1
    edge: str = ""
    fiscal: bool = False
    cumulative: bool = False
    short: bool = field(default=False, compare=False)


def find_month_end(year: int, month: int) -> date:
    return date(year, month, calendar.monthrange(year, month)[1])


def shift_months(day: date, months: int) -> date:
    """Return the same day some months earlier, or the last day of that month if it is shorter."""
    month = day.year * 12 + day.month - 1 - months
    year, month = month // 12, month % 12 + 1
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


def find_week(day: date) -> tuple[date, date]:
    """Return the Monday and the Sunday of the week of a day."""
    monday = day - timedelta(days=day.weekday())
    return monday, monday + timedelta(days=6)


def settle(named: Date) -> Period | None:
    """Return the period of a date; None when no calendar has it."""
    try:
        if named.unit is Unit.DAY:
            day = date(named.year, named.part, named.day)
            return Period(day, day, unit=Unit.DAY)
        length = MONTHS_OF[Unit.YEAR if named.unit is Unit.DECADE else named.unit] * named.years
        # A year has no part, so it begins in the first.
        first = length * (max(named.part, 1) - 1) + 1 if named.years == 1 else 1
        start = date(named.year, 1 if named.cumulative else first, 1)
        last = first + length - 1
        end = find_month_end(named.year + (last - 1) // 12, (last - 1) % 12 + 1)
    except ValueError:
        return None
    if first > 12 or first < 1:
        return None
    period = Period(start, end, unit=named.unit, fiscal=named.fiscal, cumulative=named.cumulative)
    return point(period, named.edge) if named.edge else period


def point(period: Period, edge: str) -> Period:
    """Return one end of a window; the middle of a year is the end of its June."""
    if period.start is None or period.end is None:
        return period
    window = (period.start, period.end)
    if edge == "mid":
        middle = shift_months(period.start, -5)
        window = (middle, find_month_end(middle.year, middle.month))
        period = Period(*window, unit=Unit.MONTH)
    day = window[0] if edge == "start" else window[1]
    return Period(day, day, Kind.POINT, period.unit, window=window, fiscal=period.fiscal)


def find_current(today: date, unit: Unit, offset: int) -> tuple[date, date]:
    """Return the calendar unit that lies ``offset`` units before the one of a day."""
    if unit is Unit.DAY:
        return (today - offset * DAY,) * 2
    if unit is Unit.WEEK:
        return find_week(today - offset * 7 * DAY)
    months = MONTHS_OF[unit]
    start = shift_months(today.replace(day=1, month=(today.month - 1) // months * months + 1), offset * months)
    return start, shift_months(start, -months) - DAY
