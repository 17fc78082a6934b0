"""Periods of text: what kind they are, and the days from which to which they run."""

from __future__ import annotations

import calendar
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from enum import StrEnum

LENGTHS = {0: "day", 1: "month", 3: "quarter", 6: "half year", 12: "year"}


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
    SEASON = "season"
    YEAR = "year"
    DECADE = "decade"


MONTHS_OF = {Unit.MONTH: 1, Unit.QUARTER: 3, Unit.HALF: 6, Unit.SEASON: 3, Unit.YEAR: 12, Unit.DECADE: 120}
DAY = timedelta(days=1)
LONGEST_MONTH = 31
DAYS_OF = {Unit.DAY: 1, Unit.WEEK: 7}
EDGES = ("early", "mid", "late")
"""The vague parts of a period, in order."""
CUTS = {12: (0, 3, 9, 12), 120: (0, 48, 84, 120), 1200: (0, 480, 840, 1200)}
"""Begin and end of the vague parts of a year, a decade and a century, in months; other periods have thirds.

The early and the late part of a year are its first and last quarter: statistics are published for quarters, and none
for four months. Of ten years the first four are early and the last three late. The parts of a month have ten days, as
its 上旬, 中旬 and 下旬 have.
"""


@dataclass(frozen=True)
class Period:
    """A period in a text, both days inclusive; None is open.

    ``span`` is its position, ``unit`` the unit in which it is worded, ``count`` the number of units up to today,
    ``every`` what recurs. A point lies in the ``window`` that it is the end of. ``trailing``
    marks a length up to today, ``cumulative`` what an interim statement covers, and ``listed`` one of several named
    one by one; ``is_length`` marks a length with one end ("the year to March"). Of an approximate period the words name
    no first and last day; those given here are a convention, and for an ``episode`` those of its source. An attribute
    is a trailing length that stands right before a measure ("60-day volatility").
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
    is_length: bool = False
    is_attribute: bool = False
    is_approximate: bool = False
    episode: str = ""


@dataclass(frozen=True)
class Date:
    """A year, half, quarter, month or day; its year is 0 and its month 0 where the words leave them out.

    ``part`` is the number of the half, quarter, month or season, ``years`` the length of a decade, ``edge`` a word for
    one end or a vague part, whose days are exact for a ten-day part of a month. Seasons are those of meteorology:
    spring has March to May, and the winter of 2008 December 2008 to February 2009.
    """

    unit: Unit
    year: int = 0
    part: int = 0
    day: int = 0
    years: int = 1
    edge: str = ""
    fiscal: bool = False
    cumulative: bool = False
    is_exact: bool = False
    relative: bool = False
    short: bool = field(default=False, compare=False)


def count_months(day: date) -> int:
    """Return the number of months since year 0."""
    return day.year * 12 + day.month - 1


def count_whole_months(start: date, end: date) -> int:
    """Return the number of months that a stretch of days is made of; 0 where it does not consist of whole ones."""
    is_whole = start.day == 1 and (end + DAY).day == 1
    return count_months(end) - count_months(start) + 1 if is_whole else 0


def has_months(start: date, end: date, months: int) -> bool:
    """Return whether words may call a stretch of days so many months: "2015 to 2020" are five years, or six."""
    apart = count_months(end) - count_months(start)
    # From year to year, or month to month, words count what lies between as well.
    is_apart = end.year - start.year == months / 12 if count_whole_months(start, end) % 12 == 0 else apart == months
    return bool(months) and (count_whole_months(start, end) == months or is_apart)


def name_length(months: int) -> str:
    """Return what a period of some months is called: "quarter", "9 months"; "day" for 0."""
    return LENGTHS.get(months, f"{months} months")


def measure_months(start: date, end: date) -> int:
    """Return the number of months of a stretch of days; of one that is not made of whole ones, those that fit in."""
    return count_whole_months(start, end) or ((end - start).days + 1) // LONGEST_MONTH


def find_month_end(year: int, month: int) -> date:
    return date(year, month, calendar.monthrange(year, month)[1])


def shift_months(day: date, months: int) -> date:
    """Return the same day some months earlier, or the last day of that month if it is shorter."""
    month = count_months(day) - months
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
        length = MONTHS_OF[named.unit] * named.years
        # A year has no part, so it begins in the first.
        first = length * (max(named.part, 1) - 1) + 1 if named.years == 1 else 1
        # The first season is spring.
        first += 2 if named.unit is Unit.SEASON else 0
        start = date(named.year, 1 if named.cumulative else first, 1)
        last = first + length - 1
        end = find_month_end(named.year + (last - 1) // 12, (last - 1) % 12 + 1)
    except ValueError:
        return None
    # A month that is written as 0 is none; a year, which has no part, is all of it.
    if first > 12 or (named.unit is Unit.MONTH and not named.part):
        return None
    is_season = named.unit is Unit.SEASON
    period = Period(
        start,
        end,
        unit=named.unit,
        relative=named.relative,
        fiscal=named.fiscal,
        cumulative=named.cumulative,
        is_approximate=is_season,
    )
    if named.edge in EDGES and (named.edge != "mid" or named.unit is not Unit.YEAR or named.years > 1):
        return replace(cut_part(period, EDGES.index(named.edge)), is_approximate=not named.is_exact)
    return point(period, named.edge) if named.edge else period


def cut_part(period: Period, part: int) -> Period:
    """Return the early (0), middle (1) or late (2) part of whole months; a day has no parts."""
    if period.start is None or period.end is None or period.unit is Unit.DAY:
        return period
    months = count_months(period.end) - count_months(period.start) + 1
    if months == 1:
        days = (1, 11, 21, period.end.day + 1)
        first, last = period.start.replace(day=days[part]), period.start.replace(day=days[part + 1] - 1)
        return replace(period, start=first, end=last, unit=Unit.DAY)
    cuts = CUTS.get(months, (0, months // 3, months * 2 // 3, months))
    start, after = (shift_months(period.start, -cuts[at]) for at in (part, part + 1))
    # Whole years have a frequency; a part of a year has none of its own.
    return replace(period, start=start, end=after - DAY, unit=Unit.YEAR if months >= MONTHS_OF[Unit.DECADE] else None)


def point(period: Period, edge: str) -> Period:
    """Return one end of a window; the middle of a year is the end of its June."""
    if period.start is None or period.end is None:
        return period
    window = (period.start, period.end)
    if edge == "mid":
        middle = shift_months(period.start, -5)
        window = (middle, find_month_end(middle.year, middle.month))
        period = replace(period, start=middle, end=window[1], unit=Unit.MONTH)
    day = window[0] if edge == "start" else window[1]
    vague = period.is_approximate or edge == "mid"
    return replace(period, start=day, end=day, kind=Kind.POINT, window=window, cumulative=False, is_approximate=vague)


def find_current(today: date, unit: Unit, offset: int) -> tuple[date, date]:
    """Return the calendar unit that lies ``offset`` units before the one of a day."""
    if unit is Unit.DAY:
        return (today - offset * DAY,) * 2
    if unit is Unit.WEEK:
        return find_week(today - offset * 7 * DAY)
    months = MONTHS_OF[unit]
    start = shift_months(today.replace(day=1, month=(today.month - 1) // months * months + 1), offset * months)
    return start, shift_months(start, -months) - DAY
