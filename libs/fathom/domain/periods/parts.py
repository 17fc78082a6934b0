"""Builders of parts of a date, and of lengths of time that begin or end with one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from fathom.domain.periods.match import IMPOSSIBLE, Match, is_open, take_period, widen_year
from fathom.domain.periods.period import (
    DAY,
    DAYS_OF,
    EDGES,
    MONTHS_OF,
    Date,
    Period,
    Unit,
    find_week,
    shift_months,
)
from fathom.domain.periods.relative import build_current, name_date

PARTS_OF_DECADE: Mapping[str, str] = {"start": "early", "end": "late"}


def build_edge(edge: str) -> Callable[[Match], Date | None]:
    def build(match: Match) -> Date | None:
        named = name_date(match.values["d"])
        if named is None or named.edge or (edge in EDGES and named.unit is Unit.DAY):
            return None
        # 90年代初 are the first years of the decade, while the beginning of a year is its first day.
        vague = named.years >= 10 and not match.items[-1].roles.keys().isdisjoint(PARTS_OF_DECADE)
        return replace(named, edge=PARTS_OF_DECADE.get(edge, edge) if vague else edge)

    return build


def build_edge_range(match: Match) -> Period | None:
    """Make what lies between two parts of one date: "early to mid 2009"."""
    named = name_date(match.values["d"])
    edges = [edge for item in match.items for edge in ("start", "end", *EDGES) if edge in item.roles]
    if named is None or named.edge or named.unit is Unit.DAY or len(edges) != 2:
        return None
    first, last = (take_period(replace(named, edge=edge)) for edge in edges)
    return Period(first.start, last.end, is_approximate=True) if first and last else None


def build_half_of(match: Match) -> Date | Period | None:
    """Make a half of a decade, a century or a month."""
    half, named = match.number("h") if isinstance(match.values["h"], str) else match.values["h"].part, match.values["d"]
    whole = take_period(named)
    if whole is None or whole.start is None or not isinstance(named, Date):
        return None
    if named.unit is Unit.YEAR and named.years % 2 == 0:
        return replace(named, year=named.year + (half - 1) * named.years // 2, years=named.years // 2)
    if named.unit is not Unit.MONTH:
        return None
    middle = whole.start.replace(day=15)
    return (
        Period(whole.start, middle, unit=Unit.DAY) if half == 1 else replace(whole, start=middle + DAY, unit=Unit.DAY)
    )


def cut(named: Any, length: tuple[float, Unit], at_end: bool = False) -> Period | None:
    """Return the first or last days or months of a date; None for trading days, which are no days of the calendar."""
    whole, (count, unit) = take_period(named), length
    if whole is None or whole.start is None or whole.end is None or unit is Unit.SESSION:
        return None
    if unit in DAYS_OF:
        days = count * DAYS_OF[unit] * DAY
        start, end = (whole.end - days + DAY, whole.end) if at_end else (whole.start, whole.start + days - DAY)
    else:
        months = int(count * MONTHS_OF[unit])
        start = shift_months(whole.end + DAY, months) if at_end else whole.start
        end = shift_months(start, -months) - DAY
    if start < whole.start or end > whole.end:
        return IMPOSSIBLE
    # The first quarters of a year are what its statements cover, and several months are read as the quarters they fill.
    cumulative = not at_end and unit is Unit.QUARTER and whole.unit is Unit.YEAR
    read = {Unit.WEEK: Unit.DAY, Unit.MONTH: Unit.QUARTER if count > 1 else Unit.MONTH}.get(unit, unit)
    return Period(start, end, unit=read, cumulative=cumulative)


def build_head(match: Match) -> Period | None:
    return cut(Date(Unit.YEAR, widen_year(match.number("y"))), (match.number("n"), match.unit()))


def build_head_of_current(match: Match) -> Period | None:
    """Make the first months or quarters of a year that is counted from today: 今年前三季度."""
    named = name_date(build_current(match))
    return cut(named, (match.number("n"), match.unit())) if named else None


def build_first(match: Match) -> Period | None:
    return cut(match.values["d"], match.values.get("l") or (1, match.unit()))


def build_nth(match: Match) -> Period | None:
    # 第三个月 is the third of one month, 第一个十年 the first of ten years.
    length, unit = match.values.get("l") or (1, match.unit())
    length, count = (length, match.number("n")) if "n" in match.values else (1, int(length))
    before, upto = (cut(match.values["d"], (number * length, unit)) for number in (count - 1, count))
    if not (before and upto and before.end and upto.end):
        return upto
    # One month or quarter is that alone, where several are read as an interim statement.
    return replace(upto, start=before.end + DAY, unit=Unit.DAY if unit is Unit.WEEK else unit, cumulative=False)


def build_last(match: Match) -> Period | None:
    unit, offset = match.values["o"].split() if "o" in match.values else (match.unit(), "1")
    return cut(match.values["d"], match.values.get("l") or (1, Unit(unit)), at_end=True) if offset == "1" else None


def build_third(match: Match) -> Date:
    named: Date = match.values["d"]
    return replace(named, edge=EDGES[match.number("t") // 10], is_exact=True)


def build_weekday_of(match: Match) -> Period | None:
    """Make a day of the week in a month: "the first Monday of March 2020"; the last one has no number."""
    month, number = match.period(), match.number("n")
    if month is None or month.start is None or month.end is None:
        return None
    first = month.start + (match.number("w") - month.start.weekday()) % 7 * DAY
    last = month.end - (month.end.weekday() - match.number("w")) % 7 * DAY
    day = first + (number - 1) * 7 * DAY if number else last
    return Period(day, day, unit=Unit.DAY) if day <= month.end else IMPOSSIBLE


def build_week(match: Match) -> Period | None:
    """Make the week around a day, or the seven days up to it."""
    day = match.period()
    if day is None or day.start is None:
        return None
    return Period(*((day.start - 6 * DAY, day.start) if "w" in match.values else find_week(day.start)), unit=Unit.DAY)


def build_stretch(side: str) -> Callable[[Match], Period | None]:
    """Return the builder of a length of time "to", "before", "from" or "after" a date: "the decade to 2019"."""

    def build(match: Match) -> Period | None:
        named = match.values["d"]
        period = take_period(replace(named, year=match.year) if is_open(named) and match.year else named)
        count, unit = match.values.get("l") or (1, match.unit())
        if period is None or period.start is None or period.end is None or unit is Unit.SESSION:
            return None
        if side in ("to", "before"):
            # A length up to the beginning of a year ends with the day before.
            is_start = period.window is not None and period.end == period.window[0]
            after = period.start if side == "before" or is_start else period.end + DAY
            start = step(after, -count, unit)
        else:
            start = period.start if side == "from" else period.end + DAY
            after = step(start, count, unit)
        unit = name_unit(start, after)
        return Period(start, after - DAY, unit=unit, is_length=True, is_approximate=period.is_approximate)

    return build


def step(day: date, count: float, unit: Unit) -> date:
    """Return the day so many units later, or earlier for a negative count."""
    return day + count * DAYS_OF[unit] * DAY if unit in DAYS_OF else shift_months(day, -int(count * MONTHS_OF[unit]))


def name_unit(start: date, after: date) -> Unit:
    """Return the largest unit that a stretch fills."""
    if start.day != 1 or after.day != 1:
        return Unit.DAY
    return Unit.YEAR if start.month == after.month == 1 else Unit.MONTH
