"""Periods in questions, English and Chinese, as first and last day."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import date

YEAR = r"((?:19|20)\d{2})"
DAY = re.compile(r"((?:19|20)\d{2})[-/.年](\d{1,2})[-/.月](\d{1,2})日?")
COMPACT = re.compile(r"(?<!\d)((?:19|20)\d{2})(\d{2})(\d{2})(?!\d)")
MONTH = re.compile(r"((?:19|20)\d{2})[-/年](\d{1,2})月?(?![-/.\d])")
QUARTER = re.compile(
    r"Q([1-4])\s*(?:of\s*)?((?:19|20)\d{2})"
    r"|((?:19|20)\d{2})\s*年?\s*(?:Q([1-4])|第?([1-4一二三四])季度?)",
    re.IGNORECASE,
)
RANGE = re.compile(rf"{YEAR}\s*年?\s*(?:to|through|until|till|and|-|–|—|~|至|到|和)\s*{YEAR}\s*年?", re.IGNORECASE)
SINCE = re.compile(
    rf"(?:since|after|from)\s+{YEAR}(?!\s*(?:to|through|-|–|until))|(?:自|从)\s*{YEAR}\s*年?(?:以来|起|至今)?",
    re.IGNORECASE,
)
BEFORE = re.compile(rf"(?:before|until|up to)\s+{YEAR}|{YEAR}\s*年?(?:以前|之前)", re.I)
PAST = re.compile(
    r"(?:past|last|previous|recent)\s+(?:(\d+|one|two|three|four|five|six|seven|eight|nine|ten|twelve)\s+)?"
    r"(year|quarter|month|week|day)s?|(?:过去|最近|近)(\d+|一|二|两|三|四|五|六|七|八|九|十|半)个?(年|季度|月|周|天)",
    re.I,
)
SINGLE = re.compile(rf"(?<!\d){YEAR}(?!\d)")
ENGLISH = "zero one two three four five six seven eight nine ten eleven twelve"
NUMBERS = {word: number for number, word in enumerate(ENGLISH.split())}
NUMBERS |= {"两": 2} | {word: number for number, word in enumerate("零一二三四五六七八九十")}
MONTHS = {"year": 12, "年": 12, "quarter": 3, "季度": 3, "month": 1, "月": 1}
DAYS = {"week": 7, "周": 7, "day": 1, "天": 1}


@dataclass(frozen=True)
class Period:
    """Both days inclusive; None is open."""

    start: date | None = None
    end: date | None = None


def find_period(text: str, today: date) -> Period:
    """The period that a question names; open on both sides when it names none.

    ``today`` anchors relative periods: the present day of the data, not of the machine.
    """
    days = [parsed for match in DAY.finditer(text) if (parsed := safe_day(*match.groups()))]
    days += [parsed for match in COMPACT.finditer(text) if (parsed := safe_day(*match.groups()))]
    if days:
        return Period(min(days), max(days))
    if match := PAST.search(text):
        return past(match, today)
    if match := RANGE.search(text):
        first, last = sorted((int(match.group(1)), int(match.group(2))))
        return Period(date(first, 1, 1), date(last, 12, 31))
    if match := QUARTER.search(text):
        year = int(match.group(2) or match.group(3))
        quarter = match.group(1) or match.group(4) or match.group(5)
        number = int(quarter) if quarter.isdigit() else NUMBERS[quarter]
        return Period(date(year, number * 3 - 2, 1), month_end(year, number * 3))
    if match := MONTH.search(text):
        year, month = int(match.group(1)), int(match.group(2))
        if 1 <= month <= 12:
            return Period(date(year, month, 1), month_end(year, month))
    if match := SINCE.search(text):
        return Period(date(int(match.group(1) or match.group(2)), 1, 1), None)
    if match := BEFORE.search(text):
        return Period(None, date(int(match.group(1) or match.group(2)) - 1, 12, 31))
    years = [int(match.group(1)) for match in SINGLE.finditer(text)]
    return Period(date(min(years), 1, 1), date(max(years), 12, 31)) if years else Period()


def past(match: re.Match[str], today: date) -> Period:
    """The last n years, quarters, months, weeks or days up to ``today``."""
    word = (match.group(1) or match.group(3) or "one").lower()
    unit = (match.group(2) or match.group(4)).lower()
    if word == "半":
        return Period(back(today, 6), today)
    number = int(word) if word.isdigit() else NUMBERS[word]
    if unit in DAYS:
        return Period(date.fromordinal(today.toordinal() - number * DAYS[unit]), today)
    return Period(back(today, number * MONTHS[unit]), today)


def back(day: date, months: int) -> date:
    """The same day some months earlier, or that month's last day."""
    month = day.year * 12 + day.month - 1 - months
    year, month = month // 12, month % 12 + 1
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


def month_end(year: int, month: int) -> date:
    return date(year, month, calendar.monthrange(year, month)[1])


def safe_day(year: str, month: str, day: str) -> date | None:
    """The day, when there is one."""
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
