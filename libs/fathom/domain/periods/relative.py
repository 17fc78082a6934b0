"""Builders of periods that are counted from today."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from fathom.domain.periods.match import Match, is_open
from fathom.domain.periods.period import (
    DAY,
    DAYS_OF,
    MONTHS_OF,
    Date,
    Kind,
    Period,
    Unit,
    find_current,
    settle,
    shift_months,
)


def build_past(match: Match) -> Period:
    unit, count = match.unit(), float(match.values.get("n", 1))
    # Twice the days plus a fortnight hold enough trading days, whatever the holidays.
    # Statistics come weeks late, and "the latest month" means the last one that has come.
    end = match.newest if any("newest" in item.roles for item in match.items) else match.today
    made = trail(end, 2 * count + 14, Unit.DAY) if unit is Unit.SESSION else trail(end, count, unit)
    return replace(made, unit=unit, count=count)


def build_span(match: Match) -> Period | None:
    # The "200-day average" is the length of a window, not one up to today.
    if match.unit() is Unit.SESSION or match.number("n") > 99:
        return None
    return replace(trail(match.today, match.values["n"], match.unit()), is_attribute=True)


def build_trailing(match: Match) -> Period:
    """Make the months up to the newest value: a sum of "TTM" has all of its parts."""
    return trail(match.newest, match.values["x"], Unit.MONTH)


def trail(end: date, length: float | str, unit: Unit) -> Period:
    """Return a length of time up to a day."""
    if unit in DAYS_OF:
        start = end - float(length) * DAYS_OF[unit] * DAY
    else:
        start = shift_months(end, int(float(length) * MONTHS_OF[unit]))
    return Period(start, end, relative=True, trailing=True)


def build_to_date(match: Match) -> Period:
    start = find_current(match.today, Unit(match.values["x"]), 0)[0]
    return Period(start, match.today, relative=True, trailing=True)


def build_current(match: Match) -> Period:
    unit, offset = match.values["o"].split()
    return Period(*find_current(match.today, Unit(unit), int(offset)), unit=Unit(unit), relative=True)


def build_these(match: Match) -> Period | None:
    """Make the years, months or days up to today that 这两年 means; 这一年 is one that was named before."""
    return replace(build_past(match), is_approximate=True) if match.number("n") > 1 else None


def build_ago(match: Match) -> Period:
    """Make the unit of the calendar that lies so many units back: "three months ago" is a month."""
    unit, count = match.unit(), float(match.values.get("n", 1))
    if unit is Unit.SESSION:
        return Period(kind=Kind.UNCLEAR)
    if unit is Unit.DECADE:
        unit, count = Unit.YEAR, 10 * count
    if not count.is_integer():
        unit, count = Unit.MONTH, count * MONTHS_OF[unit]
    return Period(
        *find_current(match.today, unit, int(count)), unit=unit, count=count, relative=True, is_approximate=True
    )


def build_turn(match: Match) -> Date:
    """Make the beginning of the current century: "the turn of the century"."""
    return Date(Unit.YEAR, (match.today.year - 1) // 100 * 100 + 1, years=100, edge="start")


def build_weekday(match: Match) -> Period:
    """Make the last such day before today: "last Friday"."""
    back = (match.today.weekday() - match.number("w") - 1) % 7 + 1
    return Period(match.today - back * DAY, match.today - back * DAY, unit=Unit.DAY, relative=True)


def build_day_of_week(match: Match) -> Period | None:
    """Make a day of a week that is said before it, as 上周五; Sunday has no number."""
    week, number = match.values["d"], match.number("w") or 7
    if number > 7 or week.start is None:
        return None
    day = week.start + (number - 1) * DAY
    return Period(day, day, unit=Unit.DAY, relative=True)


def build_within(match: Match) -> Date | None:
    """Make a part of a year that is counted from today: 去年三季度, "March of last year"."""
    year, part = name_date(match.values["y"]), match.values["p"]
    if year is None or year.unit is not Unit.YEAR or not isinstance(part, Date) or not (is_open(part) and part.part):
        return None
    return replace(part, year=year.year, relative=True)


def build_latest(match: Match) -> Date | None:
    """Make the last month, quarter or season of a name that is over: "last March"."""
    part: Date = match.values["p"]
    for year in (match.today.year, match.today.year - 1):
        named = replace(part, year=year, relative=True)
        period = settle(named)
        if period is not None and period.end is not None and period.end < match.today:
            return named
    return None


def name_date(value: object) -> Date | None:
    """Return a date as it is, and a current or earlier year, quarter or month as a date."""
    if isinstance(value, Date):
        return value
    if not isinstance(value, Period) or value.trailing or value.start is None:
        return None
    if value.unit not in (Unit.YEAR, Unit.QUARTER, Unit.MONTH):
        return None
    return Date(value.unit, value.start.year, (value.start.month - 1) // MONTHS_OF[value.unit] + 1, relative=True)
