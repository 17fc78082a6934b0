"""Periods that a follow-up gives relative to an earlier one: "the year after", "three months later", 那一年, 同月."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass, replace
from datetime import date, timedelta

from fathom.domain.periods.grammar import find_dates
from fathom.domain.periods.period import Date, settle
from fathom.domain.text.months import MONTH_NAMES
from fathom.domain.text.numerals import ONE_TO_TEN, parse_numeral

MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
DAYS = {"day": 1, "week": 7}
UNITS_ZH = {"年": "year", "季": "quarter", "月": "month", "周": "week", "天": "day", "日": "day"}
COUNTS = {
    word: number
    for number, word in enumerate(
        "a two three four five six seven eight nine ten eleven twelve".split(),  # noqa: SIM905
        1,
    )
}
COUNTS |= {"an": 1, "one": 1}
EN_UNIT, ZH_UNIT = r"(?P<unit>day|week|month|quarter|year|decade)", "(?:个)?(?P<unit>年|季度|季|月|周|天|日)"
PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:(?:in|on|over|for) )?(?P<same>that|the same|same) {EN_UNIT}\b",
        rf"\b(?P<count>{'|'.join(COUNTS)}|\d+|the) {EN_UNIT}s? (?P<way>later|after|earlier|before|on|back)(?: that)?\b",
        rf"\bthe (?P<way>next|following|previous|prior|preceding) {EN_UNIT}\b",
        f"(?P<same>那一|那|当|同一|同){ZH_UNIT}",
        rf"(?P<count>[两{ONE_TO_TEN}\d]+){ZH_UNIT}(?:之|以)?(?P<way>后|前)",
        f"(?:再)?(?:往|之)?(?P<way>前|后|上|下)一?{ZH_UNIT}",
        f"(?P<way>次|翌|第二){ZH_UNIT}",
    )
)
BESIDE = re.compile(r"\s*(?:of|in)?\s*|的?")
BACK = frozenset({"earlier", "before", "back", "previous", "prior", "preceding", "前", "上"})


# No period is shifted further than this, in units of it.
MOST_UNITS = 1_000


@dataclass(frozen=True)
class Shift:
    """A period so many units after the anchor; with a ``count`` of 0 the unit that holds the anchor."""

    unit: str
    count: int


@dataclass(frozen=True)
class ShiftMention:
    """Words of a text from ``start`` to ``end`` that shift a period."""

    start: int
    end: int
    shift: Shift


def find_shifts(text: str) -> list[ShiftMention]:
    """Return all shifts of a text, which may overlap."""
    found = [
        ShiftMention(match.start(), match.end(), read_shift(match))
        for pattern in PATTERNS
        for match in pattern.finditer(text)
    ]
    # 2000年以后 is after a calendar year, not 2,000 years later.
    return [one for one in found if abs(one.shift.count) < MOST_UNITS]


def read_shift(match: re.Match[str]) -> Shift:
    """Return the meaning of a match of ``PATTERNS``."""
    found = match.groupdict()
    unit = UNITS_ZH.get(found["unit"][0], found["unit"].lower())
    if found.get("same"):
        return Shift(unit, 0)
    count = read_count(found.get("count") or "") or 1
    return Shift(unit, -count if found["way"].lower() in BACK else count)


def read_count(words: str) -> int:
    """Return the number of units that words say; 0 for other words."""
    return COUNTS.get(words.lower()) or parse_numeral(words) or 0


@dataclass(frozen=True)
class NamedPeriod:
    """Words of a text from ``start`` to ``end`` that name a month, quarter, half, year or day; ``value`` is ISO."""

    start: int
    end: int
    value: str
    is_partial: bool
    """True where the words leave out the year or a part of it: "in March", '15, 下半年."""


def find_named(text: str, year: int = 0) -> list[NamedPeriod]:
    """Return the dates of a text; those without a year lie in ``year``, and are left out where that is 0."""
    found = []
    shifts = [one for one in find_shifts(text) if one.shift.unit == "year"]
    for start, end, named in find_dates(text):
        if not isinstance(named, Date) or not (named.year or year):
            continue
        moving = [] if named.year else [one for one in shifts if is_beside(text, one, start, end)]
        period = settle(replace(named, year=named.year or year + sum(one.shift.count for one in moving)))
        if period is not None and period.start and period.end:
            first, last = min(start, *(one.start for one in moving), end), max(end, *(one.end for one in moving), start)
            found.append(NamedPeriod(first, last, f"{period.start}/{period.end}", named.short))
    return found


def is_beside(text: str, shift: ShiftMention, start: int, end: int) -> bool:
    """Return whether a shift belongs to a date: "December of the year before", 前一年12月."""
    between = text[shift.end : start] if shift.end <= start else text[end : shift.start]
    return bool(BESIDE.fullmatch(between))


def begin_at(value: str, words: str, anchor: str, chinese: bool) -> str:
    """Return an end ("2015", "up to 2015") with the beginning of an earlier period; "" if it does not fit."""
    earlier, last = parse_period(anchor), value.rpartition("/")[2]
    if earlier is None or not earlier[0].isoformat() < last:
        return ""
    first = earlier[0]
    whole_year = first.month == 1 and first.day == 1
    start = name_months(count_months(first), 12 if whole_year else 1, chinese)
    if value.startswith("../"):
        return f"{start}至{words}" if chinese else f"from {start} {words}"
    return f"{start}到{words}" if chinese else f"from {start} to {words}"


def contains(outer: str, inner: str) -> bool:
    """Return whether one interval lies in another, which is longer and may be open, as "2021-01-01/..".

    Both are ISO intervals, whose days compare as texts.
    """
    (start, _, end), (first, _, last) = outer.partition("/"), inner.partition("/")
    starts, ends = start == ".." or start <= first, end == ".." or last <= end
    return starts and ends and first != ".." and last != ".." and outer != inner


def parse_period(value: str) -> tuple[date, date] | None:
    """Return the first and last day of an ISO interval; None for one without both ends."""
    first, _, last = value.partition("/")
    try:
        return date.fromisoformat(first), date.fromisoformat(last)
    except ValueError:
        return None


def shift_period(value: str, shift: Shift, chinese: bool) -> str:
    """Return the shifted period in words; "" where the anchor does not determine it.

    A unit shorter than the anchor is counted from its end or beginning: the year after 2015 to 2019 is 2020.
    """
    anchor = parse_period(value)
    if anchor is None:
        return ""
    moved = shift_days(*anchor, shift) if shift.unit in DAYS else shift_months(*anchor, shift)
    return name_period(*moved, chinese) if moved else ""


def take_edge(value: str, is_first: bool) -> str:
    """Return the first or the last day of an ISO interval as one; "" without that day."""
    first, _, last = value.partition("/")
    day = first if is_first else last
    return f"{day}/{day}" if parse_period(f"{day}/{day}") else ""


def shift_days(first: date, last: date, shift: Shift) -> tuple[date, date] | None:
    """Return a single day moved by days or weeks; None for a longer anchor."""
    if first != last or (shift.unit == "week" and not shift.count):
        return None
    day = first + timedelta(days=DAYS[shift.unit] * shift.count)
    return day, day


def shift_months(first: date, last: date, shift: Shift) -> tuple[date, date] | None:
    """Return a period moved by months, quarters, years or decades; None for an anchor of broken months."""
    step, start, after = MONTHS[shift.unit], count_months(first), last + timedelta(days=1)
    if not shift.count:
        begin = start // step * step
        return span_months(begin, step) if count_months(last) < begin + step else None
    if first == last:
        day = move_day(first, step * shift.count)
        return day, day
    if first.day != 1 or after.day != 1:
        return None
    length = count_months(after) - start
    if length <= step:
        return span_months(start + step * shift.count, length)
    begin = count_months(after) + step * (shift.count - 1) if shift.count > 0 else start + step * shift.count
    return span_months(begin, step)


def count_months(day: date) -> int:
    """Return the number of months since year 0."""
    return day.year * 12 + day.month - 1


def span_months(start: int, months: int) -> tuple[date, date]:
    """Return the first and last day of ``months`` months from the ``start``-th month since year 0."""
    year, month = divmod(start, 12)
    end_year, end_month = divmod(start + months - 1, 12)
    return date(year, month + 1, 1), date(end_year, end_month + 1, monthrange(end_year, end_month + 1)[1])


def move_day(day: date, months: int) -> date:
    """Return the same day of another month, or the last one of a shorter month."""
    year, month = divmod(count_months(day) + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def name_period(first: date, last: date, chinese: bool) -> str:
    """Return the words for a single day or for whole months."""
    if first == last:
        if chinese:
            return f"{first.year}年{first.month}月{first.day}日"
        return f"{first.day} {MONTH_NAMES[first.month - 1]} {first.year}"
    start = count_months(first)
    return name_months(start, count_months(last) - start + 1, chinese)


def name_months(start: int, months: int, chinese: bool) -> str:
    """Return the words for ``months`` months from the ``start``-th month since year 0."""
    year, month = divmod(start, 12)
    if months % 12 == 0 and month == 0:
        last = year + months // 12 - 1
        if last == year:
            return f"{year}年" if chinese else str(year)
        return f"{year}年至{last}年" if chinese else f"from {year} to {last}"
    if months == 3 and month % 3 == 0:
        return f"{year}年第{'一二三四'[month // 3]}季度" if chinese else f"Q{month // 3 + 1} {year}"
    if months == 1:
        return f"{year}年{month + 1}月" if chinese else f"{MONTH_NAMES[month]} {year}"
    end_year, end_month = divmod(start + months - 1, 12)
    if chinese:
        return f"{year}年{month + 1}月至{end_year}年{end_month + 1}月"
    return f"from {MONTH_NAMES[month]} {year} to {MONTH_NAMES[end_month]} {end_year}"
