"""Builders of the patterns: each makes a date, a period or several of them, or None where the words mean another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from typing import Any

from fathom.domain.periods.lexer import Item
from fathom.domain.periods.period import (
    DAY,
    DAYS_OF,
    MONTHS_OF,
    Date,
    Kind,
    Period,
    Unit,
    find_current,
    find_week,
    settle,
    shift_months,
)

# Roles of what a list is made of.
MEMBERS = ("date", "part", "range", "number", "ordinal")
IMPOSSIBLE, REVERSED = Period(kind=Kind.IMPOSSIBLE), Period(kind=Kind.REVERSED)


@dataclass(frozen=True)
class Match:
    """The values and items that a pattern matched, the day that "today" means, and the only year of the text or 0."""

    values: Mapping[str, Any]
    items: Sequence[Item]
    today: date
    year: int

    def number(self, name: str) -> int:
        """Return a value as a number, or the first of several parts of a form; 0 without it."""
        value = self.values.get(name, 0)
        return int(value[0] if isinstance(value, list) else value)

    def unit(self) -> Unit:
        return Unit(self.values.get("u", Unit.QUARTER))

    def period(self) -> Period | None:
        return take_period(self.values.get("d", self.values.get("a")))


def widen_year(year: int) -> int:
    """Return a year of four digits; two digits up to 49 are 20xx, others 19xx."""
    return year if year > 99 or not year else 2000 + year if year < 50 else 1900 + year


def take_period(value: Any) -> Period | None:
    """Return the period of a date that has its year."""
    return value if isinstance(value, Period) else settle(value) if isinstance(value, Date) and value.year else None


def is_open(value: Any) -> bool:
    """Return whether a date was written without its year."""
    return isinstance(value, Date) and not value.year


def build_day(match: Match) -> Date:
    roles = match.items[0].roles
    if "iso_day" in roles:
        year, _, month, day = map(str, roles["iso_day"])
    elif "dotted_day" in roles:
        day, month, year = map(str, roles["dotted_day"])
    else:
        month, day, year = roles["american_day"]
        # The month comes first, as in US filings, unless the first number cannot be one.
        month, day = (day, month) if int(month) > 12 else (month, day)
    return Date(Unit.DAY, int(year), int(month), int(day))


def build_date(match: Match) -> Date | None:
    held = match.values.keys()
    if "iso_month" in match.items[0].roles:
        year, month = match.values["m"]
        return Date(Unit.MONTH, int(year), int(month))
    if "c" in held:
        tens = match.number("c")
        # Without a century "the 30s" and later decades are 19xx.
        return Date(Unit.YEAR, tens if tens > 99 else tens + (1900 if tens >= 30 else 2000), years=10)
    year = match.number("y")
    named = Date(Unit.YEAR, widen_year(year), fiscal="f" in held, short=year < 100)
    if "holiday" in match.items[-1].roles or "holiday" in match.items[0].roles:
        month, day = divmod(match.number("h"), 100)
        return replace(named, unit=Unit.DAY, part=month, day=day)
    if "m" in held or "d" in held:
        unit = Unit.DAY if "d" in held else Unit.MONTH
        # "The S&P 500 in March" names no day.
        return (
            replace(named, unit=unit, part=match.number("m"), day=match.number("d"))
            if match.number("d") < 100
            else None
        )
    if "q" in held:
        return replace(named, unit=Unit.QUARTER, part=match.number("q"))
    # The first half is what an interim report covers; the second is only a difference of two reports.
    half = match.number("h")
    return replace(named, unit=Unit.HALF, part=half, cumulative=half == 1) if half else named


def build_report(match: Match) -> Date:
    """Make the year up to the end of a quarterly or interim report, which is cumulative in China."""
    unit = Unit.QUARTER if "q" in match.values else Unit.HALF
    return Date(unit, widen_year(match.number("y")), match.number("q") or 1, cumulative=True)


def build_past(match: Match) -> Period:
    unit, count = match.unit(), float(match.values.get("n", 1))
    # Twice the days plus a fortnight hold enough trading days, whatever the holidays.
    made = trail(match, 2 * count + 14, Unit.DAY) if unit is Unit.SESSION else trail(match, count, unit)
    return replace(made, unit=unit, count=count)


def build_span(match: Match) -> Period | None:
    # The "200-day average" is the length of a window, not one up to today.
    return (
        None
        if match.unit() is Unit.SESSION or match.number("n") > 99
        else trail(match, match.values["n"], match.unit())
    )


def trail(match: Match, length: float | str, unit: Unit) -> Period:
    """Return a length of time up to today."""
    if unit in DAYS_OF:
        start = match.today - float(length) * DAYS_OF[unit] * DAY
    else:
        start = shift_months(match.today, int(float(length) * MONTHS_OF[unit]))
    return Period(start, match.today, relative=True, trailing=True)


def build_to_date(match: Match) -> Period:
    start = find_current(match.today, Unit(match.values["x"]), 0)[0]
    return Period(start, match.today, relative=True, trailing=True)


def build_current(match: Match) -> Period:
    unit, offset = match.values["o"].split()
    return Period(*find_current(match.today, Unit(unit), int(offset)), unit=Unit(unit), relative=True)


def build_edge(edge: str) -> Callable[[Match], Date | None]:
    def build(match: Match) -> Date | None:
        named = match.values["d"]
        return (
            replace(named, edge=edge)
            if isinstance(named, Date) and (edge != "mid" or named.unit is Unit.YEAR)
            else None
        )

    return build


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


def build_first(match: Match) -> Period | None:
    return cut(match.values["d"], match.values.get("l") or (1, match.unit()))


def build_nth(match: Match) -> Period | None:
    count, unit = match.values["l"]
    before, upto = (cut(match.values["d"], (number, unit)) for number in (count - 1, count))
    return replace(upto, start=before.end + DAY) if before and upto and before.end and upto.end else upto


def build_last(match: Match) -> Period | None:
    unit, offset = match.values["o"].split() if "o" in match.values else (match.unit(), "1")
    return cut(match.values["d"], match.values.get("l") or (1, Unit(unit)), at_end=True) if offset == "1" else None


def build_third(match: Match) -> Period | None:
    month, first = match.period(), match.number("t")
    if month is None or month.start is None:
        return None
    start = month.start.replace(day=first)
    return Period(start, month.end if first > 20 else start + 9 * DAY, unit=Unit.DAY)


def build_week(match: Match) -> Period | None:
    """Make the week around a day, or the seven days up to it."""
    day = match.period()
    if day is None or day.start is None:
        return None
    return Period(*((day.start - 6 * DAY, day.start) if "w" in match.values else find_week(day.start)), unit=Unit.DAY)


def build_range(match: Match) -> Period | None:
    first, last = find_ends(match)
    if is_open(first) and is_open(last) and match.year:
        first = replace(first, year=match.year)
    one, two = (take_period(item) for item in complete((first, last)))
    if first is None or last is None or (is_open(first) and is_open(last)):
        return None
    if not (one and two and one.start and one.end and two.start and two.end):
        return IMPOSSIBLE
    # A range up to the beginning of a year ends with the day before.
    start, upto = one.start, two.end - DAY if two.window and two.end == two.window[0] else two.end
    if start > upto:
        # "From 2020 to 2015" ends before it begins, while "2020-2015" may be anything.
        is_years = one.unit is two.unit is Unit.YEAR
        return None if is_years and match.items[0].roles.keys().isdisjoint(("from", "between")) else REVERSED
    # "2022 up to September" is read like an interim statement. Ends of different units have none in common.
    unit = Unit.QUARTER if one.unit is Unit.YEAR and is_open(last) else one.unit if one.unit is two.unit else None
    points = Kind.POINT in (one.kind, two.kind)
    return Period(start, upto, unit=None if points else unit, fiscal=one.fiscal or two.fiscal)


def find_ends(match: Match) -> tuple[Any, Any]:
    """Return the ends of a range, where one may be a bare number; None for an end that is no date."""
    first, last = match.values.get("a"), match.values.get("b")
    if "s" in match.values and isinstance(first, Date):
        return first, replace(first, year=first.year // 100 * 100 + match.number("s"))
    if "y" in match.values and isinstance(first, Date):
        named = match.values["y"]
        return first, replace(first, year=named.year, day=match.number("n")) if first.unit is Unit.DAY else None
    return (complete_number(match.number("n"), last) if "n" in match.values else first), last


def complete_number(number: int, beside: Any) -> Date | None:
    """Return the day, quarter or short year that a bare number means beside a date: "9 to 13 November", 19-21年."""
    if not isinstance(beside, Date) or is_open(beside):
        return None
    if beside.unit is Unit.YEAR:
        return replace(beside, year=widen_year(number)) if beside.short and number > 9 else None
    if beside.unit is Unit.DAY:
        return replace(beside, day=number)
    return replace(beside, part=number) if beside.unit is Unit.QUARTER else None


def complete(named: Sequence[Any]) -> list[Any]:
    """Give dates without a year, or days without a month, those of the next date that has them, else of the last."""
    out = list(named)
    for at, one in enumerate(out):
        nearest = (*named[at + 1 :], *reversed(out[:at]))
        other = next((other for other in nearest if isinstance(other, Date) and other.year), None)
        if is_open(one) and other:
            out[at] = replace(one, year=other.year, part=one.part or other.part)
    return out


def build_list(match: Match) -> tuple[Period, ...] | None:
    members = [item for item in match.items if not item.roles.keys().isdisjoint(MEMBERS)]
    named: list[Any] = [next(item.roles[role] for role in MEMBERS if role in item.roles) for item in members]
    if "y" in match.values:
        # "March 23 and 24, 2020": the year is no member of its own.
        one = replace(named[0], year=match.values["y"].year)
        members, named = members[:2], [one, replace(one, day=match.number("n"))]
    elif "n" in match.values:
        named[0] = complete_number(match.number("n"), named[1])
    named = share_part(complete(named), members)
    found = [take_period(one) for one in named]
    dated = sorted((one.start, one.end) for one in found if one and one.start and one.end)
    # Periods that overlap are no list but one said in two ways: "the last week of March, from the 23rd".
    if None in named or any(map(is_open, named)) or any(two[0] <= one[1] for one, two in pairwise(dated)):
        return None
    return tuple(
        replace(one or IMPOSSIBLE, listed=True, span=(item.start, item.end))
        for one, item in zip(found, members, strict=True)
    )


def share_part(named: list[Any], members: Sequence[Item]) -> list[Any]:
    """Give both of two years the quarter or month said of them: 2019年与2020年四季度, "March of 2019 and 2020"."""
    if len(named) != 2 or not all(isinstance(one, Date) for one in named):
        return named
    ahead, behind = named
    if ahead.unit is Unit.YEAR and behind.unit in (Unit.MONTH, Unit.QUARTER):
        return [replace(behind, year=ahead.year), behind]
    # A Chinese year has its sign, and is said of nothing before it.
    is_bare = members[1].end - members[1].start == len("2020")
    shared = is_bare and behind.unit is Unit.YEAR and ahead.unit in (Unit.MONTH, Unit.QUARTER)
    return [ahead, replace(ahead, year=behind.year)] if shared else named


def build_open(
    bounds: Callable[[date, date, Kind], tuple[date | None, date | None]],
) -> Callable[[Match], Period | None]:
    """Return the builder of a period that is open on one side of a date."""

    def build(match: Match) -> Period | None:
        period = match.period()
        return (
            Period(*bounds(period.start, period.end, period.kind)) if period and period.start and period.end else None
        )

    return build


BUILDERS: Mapping[str, Callable[[Match], Any]] = {
    "day": build_day,
    "date": build_date,
    "part": build_date,
    "report": build_report,
    "head": build_head,
    "past": build_past,
    "span": build_span,
    "to_date": build_to_date,
    "trailing": lambda match: trail(match, match.values["x"], Unit.MONTH),
    "current": build_current,
    "unclear": lambda match: Period(kind=Kind.UNCLEAR),
    "offset": lambda match: Period(kind=Kind.UNCLEAR),
    "recurring": lambda match: Period(kind=Kind.RECURRING, every=match.unit()),
    "length": lambda match: (float(match.values["n"]), match.unit()),
    "silent": lambda match: (),
    "end": build_edge("end"),
    "start": build_edge("start"),
    "mid": build_edge("mid"),
    "first": build_first,
    "nth": build_nth,
    "last": build_last,
    "third": build_third,
    "week": build_week,
    "range": build_range,
    "list": build_list,
    "since": build_open(lambda start, _, kind: (start, None)),
    "after": build_open(lambda _, end, kind: (end + DAY, None)),
    "before": build_open(lambda start, _, kind: (None, start if kind is Kind.POINT else start - DAY)),
    "upto": build_open(lambda _, end, kind: (None, end)),
    "whole": Match.period,
    "era": lambda match: Period(kind=Kind.NAMELESS),
    "everything": lambda match: Period(kind=Kind.EVERYTHING),
}
# Roles of what is made where it is no date, or a part of one without its year.
ROLES: Mapping[str, str] = {
    **{role: role for role in ("range", "list", "unclear", "recurring", "length", "silent")},
    **dict.fromkeys(("since", "before", "after", "upto"), "open"),
    **dict.fromkeys(("era", "everything"), "era"),
    **dict.fromkeys(("past", "span", "to_date", "trailing", "current"), "relative"),
    "offset": "unclear",
}


def build(builder: str, match: Match) -> Mapping[str, Any] | None:
    """Return the roles of what a pattern matched; None when the words mean something else."""
    try:
        made = BUILDERS[builder](match)
    # A length such as "the last 9999 years" leaves the calendar.
    except (ValueError, OverflowError):
        made = IMPOSSIBLE
    if made is None:
        return None
    if made == REVERSED:
        return {"impossible": REVERSED}
    if made == IMPOSSIBLE or (isinstance(made, Date) and made.year and settle(made) is None):
        return {"impossible": IMPOSSIBLE}
    role = ROLES.get(builder) or ("part" if is_open(made) else "date")
    unit = made.unit if isinstance(made, Date | Period) else None
    return {role: made, f"{role}_{unit}": made} if unit else {role: made}
