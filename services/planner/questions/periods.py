"""Periods some time before or after another one, and their names: three months later than May 2019 is August."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, timedelta

from fathom.domain.text.months import MONTH_NAMES
from fathom.domain.text.numerals import parse_numeral

MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
DAYS = {"day": 1, "week": 7}
COUNTS = {
    word: number
    for number, word in enumerate(
        "a two three four five six seven eight nine ten eleven twelve".split(),  # noqa: SIM905
        1,
    )
}
COUNTS |= {"an": 1, "one": 1}
# A shift of a period in a resolved step: "f.later(f.period('2019-01-01', '2019-12-31'), 1, 'year')".
SHIFTED = re.compile(r"f\.(later|earlier)\(f\.period\('(\d{4}-\d\d-\d\d)', '(\d{4}-\d\d-\d\d)'\), (\d{1,4}), '(\w+)'\)")
# No period is shifted further than this, in units of it.
MOST_UNITS = 1_000


@dataclass(frozen=True)
class Shift:
    """A period so many units after the anchor; with a ``count`` of 0 the unit that holds the anchor."""

    unit: str
    count: int


def read_count(words: str) -> int:
    """Return the number of units that words say; 0 for other words."""
    return COUNTS.get(words.lower()) or parse_numeral(words) or 0


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
    moved = move_period(*anchor, shift)
    return name_period(*moved, chinese) if moved else ""


def move_period(first: date, last: date, shift: Shift) -> tuple[date, date] | None:
    """Return the shifted period; None where the anchor does not determine it."""
    return shift_days(first, last, shift) if shift.unit in DAYS else shift_months(first, last, shift)


def resolve_shifts(step: str) -> str:
    """Return a resolved step with the days of periods that it gives by their distance from another one."""

    def move(match: re.Match[str]) -> str:
        name, first, last, count, unit = match.groups()
        if not 0 < int(count) < MOST_UNITS:
            return match.group()
        shift = Shift(unit, int(count) if name == "later" else -int(count))
        moved = move_period(date.fromisoformat(first), date.fromisoformat(last), shift)
        return f"f.period('{moved[0]}', '{moved[1]}')" if moved else match.group()

    return SHIFTED.sub(move, step)


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


def choose_preposition(period: str) -> str:
    """Return "on" for a day, "in" for anything longer."""
    return "on" if re.match(r"\d{1,2} [A-Z]|\d{4}-\d\d-\d\d$", period) else "in"
