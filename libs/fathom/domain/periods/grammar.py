"""Reading of the periods of a text, in English and Chinese."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise

from fathom.domain.periods.lexer import Item, load_grammar, split_items
from fathom.domain.periods.match import is_open, take_period
from fathom.domain.periods.patterns import Anchors, reduce_items
from fathom.domain.periods.period import (
    DAY,
    MONTHS_OF,
    Date,
    Kind,
    Period,
    Unit,
    count_months,
    count_whole_months,
    has_months,
    shift_months,
)

# Two periods with no more than this between them are said of one thing: "in 2019 from 2020 to 2021".
LEADS = frozenset({"at", "of", "to", "from", "since", "before", "after", "and", "comma", "between", "against"})
"""Roles of words that a month follows."""
ENDINGS = frozenset({"to", "upto", "ending", "ended"})
"""Roles of words that the end of a length follows."""
ADJACENT = frozenset({"from", "of", "at", "since", "comma", "between", "the"})


@dataclass(frozen=True)
class Reading:
    """The periods of a text in order, and the stretches of it that were read."""

    periods: tuple[Period, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()


def read_periods(text: str, today: date, newest: date | None = None) -> Reading:
    """Return all expressions of periods in a text; ``today`` anchors the relative ones.

    ``newest`` is the day of the newest value, today by default: "the latest month" and "TTM" count from it. What names
    no day, such as "ten years later", is returned without dates, and what is no expression is left unread.
    """
    year = _find_year(text)
    items = reduce_items(split_items(text), Anchors(today, newest or today), year.number if year.is_whole else 0)
    periods: list[Period] = []
    borrowed: list[Period] = []
    spans = []
    for at, item in enumerate(items):
        value = next(iter(item.roles.values()), None)
        bare = value if isinstance(value, Date) and is_open(value) else None
        if bare and (not year.is_given_to(item, bare) or _is_verb(text, items, at)):
            continue
        span = (item.start, item.end)
        made = tuple(one if one.listed else replace(one, span=span) for one in _finish(item, year.number))
        periods += made
        borrowed += made if bare else ()
        spans += [span for one in made[:1] if one.kind not in (Kind.UNCLEAR, Kind.RECURRING)]
    settled = _yield_to_names(_yield_to_periods(_drop_repetitions(periods, borrowed), items))
    # What repeats or yields to another period is left unread, as what was not understood.
    said = {one.span for one in settled if one.kind is not Kind.UNCLEAR}
    unread = {one.span for one in periods} - said
    arranged = _settle_neighbours(items, _drop_outer(items, text, _join_open(_anchor(_precede(settled, text)))))
    return Reading(arranged, tuple(span for span in spans if span not in unread))


@dataclass(frozen=True)
class Year:
    """The only year of a text or 0, whether it is named as a whole, and where a date first has it."""

    number: int = 0
    is_whole: bool = False
    start: int = 0

    def is_given_to(self, item: Item, named: Date) -> bool:
        """Return whether a date without a year lies in this one: behind it, or anywhere where all of it is named.

        "H1 for Apple and H2 2020 for Microsoft" may be of two years, and "that winter" of February is the one before.
        """
        is_behind = item.start > self.start and named.unit is not Unit.SEASON
        return bool(self.number) and (self.is_whole or is_behind)


def _find_year(text: str) -> Year:
    named = [
        (start, found)
        for start, _, found in find_dates(text)
        if isinstance(found, Date) and found.year and found.years == 1
    ]
    if len({found.year for _, found in named}) != 1:
        return Year()
    return Year(named[0][1].year, any(found.unit is Unit.YEAR for _, found in named), named[0][0])


def _is_verb(text: str, items: Sequence[Item], at: int) -> bool:
    """Return whether "may" is no month: "a loss may be told by a minus sign", where nothing before it leads to one."""
    return text[items[at].start : items[at].end].lower() == "may" and (
        not at or LEADS.isdisjoint(items[at - 1].roles.keys())
    )


def _drop_repetitions(periods: Sequence[Period], borrowed: Sequence[Period]) -> list[Period]:
    """Drop what has its year from elsewhere and lies in another period, which it repeats: 2月到4月……超过2月.

    Within a year it says which part of the year is meant.
    """
    named = [one for one in periods if one not in borrowed and one.unit is not Unit.YEAR and not one.episode]

    def is_within(one: Period) -> bool:
        first, last = one.start or date.min, one.end or date.max
        dated = [by for by in named if by.start or by.end]
        return any((by.start or date.min) <= first and last <= (by.end or date.max) for by in dated)

    return [one for one in periods if one not in borrowed or not is_within(one)]


def find_dates(text: str) -> list[tuple[int, int, Date | Period]]:
    """Return the years, quarters, months and days of a text with their positions, those without a year too."""
    # Only the first level is applied, and nothing relative is asked of it but the century.
    century = date(2001, 1, 1)
    found = reduce_items(split_items(text), Anchors(century, century), 0, levels=1)
    dates = ((item, item.roles.get("date", item.roles.get("part"))) for item in found)
    return [(item.start, item.end, value) for item, value in dates if isinstance(value, Date | Period)]


def _finish(item: Item, year: int) -> tuple[Period, ...]:
    """Return the periods of an item; a quarter or month without a year is that of the only year of the text."""
    value = next(iter(item.roles.values()), None)
    if isinstance(value, Date) and is_open(value):
        value = replace(value, year=year) if year and value.part else None
    made = take_period(value)
    return (made,) if made else value if "list" in item.roles and isinstance(value, tuple) else ()


def _yield_to_periods(periods: Sequence[Period], items: Sequence[Item]) -> Sequence[Period]:
    """Return the periods with those lengths of a measure unclear that have no place beside the other periods.

    "60-day volatility in 2020" has a window of 60 days on each day of 2020; "12-month return to March 2019" ends there.
    """
    others = list(
        {(one.start, one.end): one for one in periods if not one.is_attribute and (one.start or one.end)}.values()
    )

    def is_left(length: Period) -> bool:
        return len(others) == 1 and _takes_length(items, others[0], length)

    return [
        Period(kind=Kind.UNCLEAR, span=one.span) if one.is_attribute and others and not is_left(one) else one
        for one in periods
    ]


def _takes_length(items: Sequence[Item], named: Period, length: Period) -> bool:
    """Return whether a length can end where the only named period does, or is as long as it is."""
    if named.relative or named.end is None or length.start is None or length.end is None:
        return False
    if named.kind is Kind.POINT or named.start in (None, named.end):
        return True
    before = [item.roles for item in items if item.end <= named.span[0] and "the" not in item.roles]
    months = count_months(length.end) - count_months(length.start) if length.start.day == length.end.day else 0
    is_end = bool(before) and not ENDINGS.isdisjoint(before[-1])
    return is_end or (named.start is not None and has_months(named.start, named.end, months))


def _yield_to_names(periods: Sequence[Period]) -> tuple[Period, ...]:
    """Return the periods with those unclear that other ones of the text make out.

    "A year ago" beside 2015 is 2014, 这两年 behind two years are those, and "in the pandemic, in 2021" is 2021. What is
    open towards an episode and what is named elsewhere have no days in common that the text means.
    """
    named = [one for one in periods if (one.start or one.end) and not one.relative and not one.episode]

    def yields(one: Period) -> bool:
        if one.relative and one.is_approximate and one.count:
            return bool(named)
        if not one.episode or not named:
            return False
        return not (one.start and one.end) or any(
            (by.start or date.min) <= one.end and one.start <= (by.end or date.max) for by in named
        )

    return tuple(Period(kind=Kind.UNCLEAR, span=one.span) if yields(one) else one for one in periods)


def _precede(periods: tuple[Period, ...], text: str) -> tuple[Period, ...]:
    """Count the period before from the only other one that is named: "2020 compared with the previous year".

    Of two that count from today, 去年与上一年, the first is that other one.
    """
    if len(periods) != 2:
        return periods
    one, other = sorted(periods, key=lambda period: (period.relative, period.span))
    if not other.relative or not _is_preceding(other, text) or (one.relative and (one.trailing or other.trailing)):
        return periods
    if not (one.start and one.end and other.start and other.end):
        return periods
    months = count_whole_months(one.start, one.end)
    # "The two years before 2021" are as many of its kind; of other lengths nothing says from which day they count.
    length = int(other.count * months) if other.trailing else count_whole_months(other.start, other.end)
    unit = MONTHS_OF.get(other.unit or Unit.DAY, 0) if other.trailing else length
    if not months or unit != months:
        return periods
    start, end = shift_months(one.start, length), one.start - DAY
    before = replace(other, start=start, end=end, relative=False, trailing=False, count=0)
    return tuple(before if period is other else period for period in periods)


def _is_preceding(period: Period, text: str) -> bool:
    beginnings = load_grammar()["preceding"]["length" if period.trailing else "unit"]
    return text[slice(*period.span)].lower().startswith(tuple(beginnings))


def _anchor(periods: tuple[Period, ...]) -> tuple[Period, ...]:
    """Move a length up to today to the end of the only other period: "the trailing twelve months to August 2022"."""
    # "TTM" beside "the past twelve months" is the same length, though it counts from the newest value.
    lengths = {
        count_months(one.end) - count_months(one.start): one
        for one in periods
        if one.trailing and (one.unit or Unit.YEAR) in MONTHS_OF and one.start and one.end
    }
    named = [one.end for one in periods if not one.relative and one.end]
    others = {(one.start, one.end) for one in periods if (one.start or one.end) and not one.trailing}
    if len(lengths) != 1 or len(named) != 1 or len(others) != 1:
        return periods
    ((months, length),), end = lengths.items(), named[0]
    if length.start is None or length.end is None:
        return periods
    if length.is_attribute and length.start.day != length.end.day:
        # Days and weeks are no months, however many of them they cover.
        return (replace(length, start=end - (length.end - length.start) + DAY, end=end),)
    to_date = (length.start.month, length.start.day) == (1, 1)
    # A length begins on the day after the same day of the earlier month, so that it holds whole months.
    start = date(end.year, 1, 1) if to_date else shift_months(end, months) + DAY
    return (replace(length, start=start, end=end),)


def _join_open(periods: tuple[Period, ...]) -> tuple[Period, ...]:
    """Return one range for an open end and an open start: "since 2018, before 2020"."""
    if len(periods) == 2:
        since, until = sorted(periods, key=lambda one: one.end is not None)
        if since.end is None and since.start and until.start is None and until.end and since.start <= until.end:
            return (replace(since, end=until.end),)
    return periods


def _drop_outer(items: Sequence[Item], text: str, periods: tuple[Period, ...]) -> tuple[Period, ...]:
    """Drop a period around all other ones: "March 2020, 23 to 27 March 2020" means the five days only.

    One that "and" joins to another is meant besides: "in 2020 and in March 2020".
    """
    bounds = {(one.start, one.end) for one in periods if one.start and one.end}
    if len(bounds) < 2 or any(one.relative or one.listed for one in periods):
        return periods
    low, high = min(start for start, _ in bounds if start), max(end for _, end in bounds if end)
    is_joined = any(
        (low, high) in ((one.start, one.end), (two.start, two.end)) and _are_joined(items, text, one, two)
        for one, two in pairwise(periods)
    )
    return periods if is_joined else tuple(one for one in periods if (one.start, one.end) != (low, high))


def _are_joined(items: Sequence[Item], text: str, one: Period, two: Period) -> bool:
    """Return whether "and", at most with prepositions, is all that stands between two periods."""
    between = _list_between(items, one, two)
    # In "the 2022 rise and fall, January to September 2022" it joins other words.
    words = "".join(text[one.span[1] : two.span[0]].split())
    is_whole = len(words) == sum(len("".join(text[item.start : item.end].split())) for item in between)
    is_plain = not any((ADJACENT | {"and"}).isdisjoint(item.roles) for item in between)
    return is_whole and is_plain and any("and" in item.roles for item in between)


def _list_between(items: Sequence[Item], one: Period, two: Period) -> list[Item]:
    """Return the items between two periods."""
    return [item for item in items if one.span[1] <= item.start and item.end <= two.span[0]]


def _settle_neighbours(items: Sequence[Item], periods: tuple[Period, ...]) -> tuple[Period, ...]:
    """Resolve two periods side by side: the later one says what the other one means, or they contradict each other.

    "The last week of March 2020, from 23 to 27 March 2020" are five days; "in 2019 from 2020 to 2021" is impossible.
    """
    out = list(periods)
    for at in range(len(out) - 1):
        one, two = out[at], out[at + 1]
        apart = one.listed or two.listed or one.relative or two.relative
        if apart or any(ADJACENT.isdisjoint(item.roles) for item in _list_between(items, one, two)):
            continue
        if one.start and one.end and two.start and two.end:
            clash = Period(kind=Kind.CONTRADICTORY, span=(one.span[0], two.span[1]))
            out[at] = out[at + 1] = clash if one.end < two.start or two.end < one.start else two
    return tuple(dict.fromkeys(out))
