"""Builders of the patterns: each makes a date, a period or several of them, or None where the words mean another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import pairwise
from typing import Any

from fathom.domain.periods import parts, relative
from fathom.domain.periods.episodes import load_episodes
from fathom.domain.periods.lexer import Item
from fathom.domain.periods.match import IMPOSSIBLE, REVERSED, Match, is_open, take_period, widen_year
from fathom.domain.periods.period import DAY, EDGES, Date, Kind, Period, Unit, settle

SEASONS = ("spring", "summer", "autumn", "winter")
# Roles of what a list is made of.
MEMBERS = ("date", "part", "range", "number", "ordinal")


def build_day(match: Match) -> Date | None:
    roles = match.items[0].roles
    if "iso_day" in roles:
        year, _, month, day = map(str, roles["iso_day"])
    elif "dotted_day" in roles:
        day, month, year = map(str, roles["dotted_day"])
    else:
        month, day, year = roles["american_day"]
        # The month comes first, as in US filings, unless the first number cannot be one.
        month, day = (day, month) if int(month) > 12 else (month, day)
        # "50/30/20" are shares of something.
        if int(month) > 12 and len(year) == 2:
            return None
    return Date(Unit.DAY, widen_year(int(year)), int(month), int(day))


def build_date(match: Match) -> Date | None:
    held = match.values.keys()
    if not match.items[0].roles.keys().isdisjoint(("iso_month", "slash_month")):
        if "slash_month" in match.items[0].roles:
            month, year = map(int, match.values["m"])
            return Date(Unit.MONTH, year, month)
        year, month = map(int, match.values["m"])
        # "1895.00" is a price.
        return Date(Unit.MONTH, year, month) if 0 < month <= 12 else None
    if "c" in held or "k" in held:
        return build_years_of_century(match)
    year = match.number("y")
    named = Date(Unit.YEAR, widen_year(year) if "y" in held else 0, fiscal="f" in held, short=year < 100)
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
    if "s" in held:
        return replace(named, unit=Unit.SEASON, part=match.number("s"))
    if "q" in held:
        return replace(named, unit=Unit.QUARTER, part=match.number("q"))
    # The first half is what an interim report covers; the second is only a difference of two reports.
    half = match.number("h")
    return replace(named, unit=Unit.HALF, part=half, cumulative=half == 1) if half else named


def build_years_of_century(match: Match) -> Date | None:
    """Make a century, or a decade of one; without a century "the 30s" and later decades are 19xx."""
    tens = match.number("c")
    if "k" in match.values:
        is_relative = any("century_unit" in item.roles for item in match.items)
        number = (match.today.year - 1) // 100 + 1 - match.number("k") if is_relative else match.number("k")
        if "c" not in match.values:
            return Date(Unit.YEAR, 100 * (number - 1) + 1, years=100)
        return Date(Unit.YEAR, 100 * (number - 1) + tens % 100, years=10) if tens % 10 == 0 else None
    return Date(Unit.YEAR, tens if tens > 99 else tens + (1900 if tens >= 30 else 2000), years=10)


def build_years(match: Match) -> Date | None:
    """Make the years of "2008/09"; a fiscal year of that name is called by its second half."""
    first, second = map(int, match.values["p"])
    last = first + (second - first) % 100
    if "f" in match.values:
        return Date(Unit.YEAR, last, fiscal=True) if last == first + 1 else None
    # "2022/15" is no span of years, and no calendar has such a month.
    is_span = first < last and first // 100 == (last - 1) // 100
    return Date(Unit.YEAR, first, years=last - first + 1) if is_span else Date(Unit.MONTH, first, second)


def build_season(match: Match) -> Date | None:
    """Make a season of two years that follow each other, which only winter has: "winter 2008/09"."""
    first, second = map(int, match.values["p"]) if "p" in match.values else (match.number("y"), match.number("w"))
    is_next = second == (first + 1) % 100 and match.number("s") == len(SEASONS)
    return Date(Unit.SEASON, first, match.number("s")) if is_next else None


def build_episode(match: Match) -> Period | None:
    """Make the days of an episode; a year beside it that is not its own says more and is left to stand alone."""
    key, beside = match.values["e"], match.period()
    if not key and beside and beside.start and beside.end:
        # "The 2001 recession" has no name but its year.
        found = [
            name
            for name, one in load_episodes().items()
            if one.is_recession and one.start <= beside.end and beside.start <= one.end
        ]
        return name_episode(found[0]) if len(found) == 1 else None
    if not key or (beside and beside.start and beside.start.year != load_episodes()[key].known_by):
        return None
    return name_episode(key)


def name_episode(key: str) -> Period:
    named = load_episodes()[key]
    return Period(named.start, named.end, is_approximate=True, episode=key)


def build_report(match: Match) -> Date:
    """Make the year up to the end of a quarterly or interim report, which is cumulative in China."""
    unit = Unit.QUARTER if "q" in match.values else Unit.HALF
    return Date(unit, widen_year(match.number("y")), match.number("q") or 1, cumulative=True)


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
        # "07-01" may be a day as well, or nothing of the calendar.
        return REVERSED if "z" not in match.values else None
    # "2022 up to September" is read like an interim statement. Ends of different units have none in common.
    unit = Unit.QUARTER if one.unit is Unit.YEAR and is_open(last) else one.unit if one.unit is two.unit else None
    points = Kind.POINT in (one.kind, two.kind)
    vague = one.is_approximate or two.is_approximate
    return Period(start, upto, unit=None if points else unit, fiscal=one.fiscal or two.fiscal, is_approximate=vague)


def find_ends(match: Match) -> tuple[Any, Any]:
    """Return the ends of a range, where one may be a bare number; None for an end that is no date."""
    first, last = match.values.get("a"), match.values.get("b")
    if "z" in match.values:
        # Both ends have two digits, of which 年 stands behind the second alone: 08-09年.
        last = last or Date(Unit.YEAR, widen_year(match.number("w")), short=True)
        return Date(Unit.YEAR, widen_year(match.number("z"))) if last.short else None, last
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
        if period is None or period.trailing or period.start is None or period.end is None:
            return None
        days = bounds(period.start, period.end, period.kind)
        return Period(*days, is_approximate=period.is_approximate, episode=period.episode)

    return build


BUILDERS: Mapping[str, Callable[[Match], Any]] = {
    "day": build_day,
    "date": build_date,
    "part": build_date,
    "report": build_report,
    "head": parts.build_head,
    "past": relative.build_past,
    "span": relative.build_span,
    "to_date": relative.build_to_date,
    "trailing": relative.build_trailing,
    "current": relative.build_current,
    "unclear": lambda match: Period(kind=Kind.UNCLEAR),
    "offset": lambda match: Period(kind=Kind.UNCLEAR),
    "recurring": lambda match: Period(kind=Kind.RECURRING, every=match.unit()),
    "length": lambda match: (float(match.values["n"]), match.unit()),
    "silent": lambda match: (),
    **{edge: parts.build_edge(edge) for edge in ("start", "end", *EDGES)},
    "edge_range": parts.build_edge_range,
    "head_of_current": parts.build_head_of_current,
    "half_of": parts.build_half_of,
    **{f"span_{side}": parts.build_stretch(side) for side in ("to", "before", "from", "after")},
    "years": build_years,
    "season": build_season,
    "episode": build_episode,
    "short_year": build_date,
    "ago": relative.build_ago,
    "these": relative.build_these,
    "turn": relative.build_turn,
    "weekday_of": parts.build_weekday_of,
    "weekday": relative.build_weekday,
    "weekday_zh": relative.build_day_of_week,
    "within": relative.build_within,
    "latest": relative.build_latest,
    "first": parts.build_first,
    "nth": parts.build_nth,
    "last": parts.build_last,
    "third": parts.build_third,
    "week": parts.build_week,
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
    **dict.fromkeys(("past", "span", "to_date", "trailing", "ago", "these"), "relative"),
    "current": "current",
    **dict.fromkeys(("edge_range", "span_to", "span_before", "span_from", "span_after"), "range"),
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
