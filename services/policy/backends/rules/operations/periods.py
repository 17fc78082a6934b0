"""Periods and days in a question: years, quarters, months, days, ranges, open and relative periods."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from dataclasses import dataclass

from fathom.domain.text.months import MONTH_NAMES

MONTHS = [name.lower() for name in MONTH_NAMES]
MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS)
Y = r"(?<!\d)((?:19|20)\d\d)(?!\d)"
# What stands between the ends of a range, Chinese "beginning of" and "end of the year" included.
TO = r"\s*年?(?:年初|初|年底|末)?\s*(?:to|until|through|till|and|[-–—~]|至|到)\s*"
NUMBERS = {"one": 1, "two": 2, "three": 3, "five": 5, "six": 6, "ten": 10, "twelve": 12, "一": 1, "两": 2, "二": 2,
           "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9, "十": 10, "半": 6}  # fmt: skip
QUARTERS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "一": 1, "二": 2, "三": 3, "四": 4}


@dataclass(frozen=True)
class Period:
    """A period of ISO dates, both inclusive; "" is open.

    ``calendar`` periods are measured from the last value before them. ``months`` is set for "the last n months", whose
    dates depend on the end of the data.
    """

    start: str = ""
    end: str = ""
    calendar: bool = False
    months: int = 0
    place: int = 0

    @property
    def day(self) -> str:
        """Return the day of a single-day period; "" for longer ones."""
        return self.start if self.start and self.start == self.end else ""

    @property
    def text(self) -> str:
        """Return the shortest form: 2008, 2020-04, 2020-03-23, 2015-01-01 – 2020-12-31."""
        if self.calendar and self.start[:4] == self.end[:4]:
            if self.start[5:] == "01-01" and self.end[5:] == "12-31":
                return self.start[:4]
            if self.start[:7] == self.end[:7]:
                return self.start[:7]
        return self.day or f"{self.start or '…'} – {self.end or '…'}"


def periods(text: str) -> list[Period]:
    """Return all periods in order; text matched by one pattern is not matched again."""
    found: list[Period] = []
    for pattern, make in PATTERNS:
        for match in pattern.finditer(text):
            found.append(make(match))
        text = pattern.sub(lambda match: " " * len(match.group()), text)
    return sorted(found, key=lambda period: period.place)


def month_number(name: str) -> int:
    return next(index for index, full in enumerate(MONTHS, 1) if full.startswith(name[:3].lower()))


def last_day(year: int, month: int) -> str:
    return f"{year}-{month:02d}-{calendar.monthrange(year, month)[1]:02d}"


def one_month(year: int, month: int, place: int = 0) -> Period:
    """Return a calendar month."""
    return Period(f"{year}-{month:02d}-01", last_day(year, month), True, place=place)


def of_text(text: str) -> Period:
    """Return the calendar year, month or day of "2008", "2008-10" or "2008-10-15"."""
    if len(text) == 4:
        return Period(f"{text}-01-01", f"{text}-12-31", True)
    return one_month(int(text[:4]), int(text[5:7])) if len(text) == 7 else Period(text, text)


def number(text: str) -> int:
    return int(text) if text.isdigit() else NUMBERS.get(text.lower(), 1)


def day_of(match: re.Match[str]) -> Period:
    text = f"{match[1]}-{int(match[2]):02d}-{int(match[3]):02d}"
    return Period(text, text, place=match.start())


def english_day(day: str, month: str, year: str, place: int) -> Period:
    text = f"{year}-{month_number(month):02d}-{int(day):02d}"
    return Period(text, text, place=place)


def span(first: tuple[int, int], last: tuple[int, int], place: int) -> Period:
    """Return the period from the first month to the last one."""
    return Period(f"{first[0]}-{first[1]:02d}-01", last_day(*last), place=place)


def english_span(match: re.Match[str]) -> Period:
    """Parse a span such as "October to December 2022" or "May 2019 to June 2020"."""
    last = int(match[4])
    return span((int(match[2] or last), month_number(match[1])), (last, month_number(match[3])), match.start())


def quarter(year: int, index: int, place: int) -> Period:
    return Period(f"{year}-{3 * index - 2:02d}-01", last_day(year, 3 * index), True, place=place)


def recent(match: re.Match[str]) -> Period:
    months = number(match[1]) * (12 if re.match(r"y|年", match[2]) else 1)
    return Period(months=months, place=match.start())


# Days before months before years, and ranges before their ends: what one pattern has matched is blanked out for the
# others.
PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Period]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), make)
    for pattern, make in (
        (rf"{Y}\s*[-/.年]\s*(\d{{1,2}})\s*[-/.月]\s*(\d{{1,2}})日?(?!\d)", day_of),
        (
            rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+({MONTH})\.?,?\s+{Y}",
            lambda m: english_day(m[1], m[2], m[3], m.start()),
        ),
        (
            rf"\b({MONTH})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+{Y}",
            lambda m: english_day(m[2], m[1], m[3], m.start()),
        ),
        (rf"\b({MONTH})\b\.?(?:\s+{Y})?{TO}({MONTH})\b\.?\s+{Y}", english_span),
        (
            rf"{Y}\s*年\s*(\d{{1,2}})月(?:份)?[和与及](?:{Y}\s*年\s*)?(\d{{1,2}})月(?:份)?(?=之间|期间)",
            lambda m: span((int(m[1]), int(m[2])), (int(m[3] or m[1]), int(m[4])), m.start()),
        ),
        (
            rf"{Y}\s*年\s*(\d{{1,2}})月(?:份)?(?:初|底|末)?{TO}(?:{Y}\s*年\s*)?(\d{{1,2}})月",
            lambda m: span((int(m[1]), int(m[2])), (int(m[3] or m[1]), int(m[4])), m.start()),
        ),
        (
            rf"{Y}-(\d\d){TO}{Y}-(\d\d)(?!\d)",
            lambda m: span((int(m[1]), int(m[2])), (int(m[3]), int(m[4])), m.start()),
        ),
        (rf"{Y}\s*年?\s*第?([一二三四])季度?", lambda m: quarter(int(m[1]), QUARTERS[m[2]], m.start())),
        (rf"{Y}\s*年?\s*Q([1-4])", lambda m: quarter(int(m[1]), int(m[2]), m.start())),
        (rf"\bQ([1-4])\s*(?:of\s*)?{Y}", lambda m: quarter(int(m[2]), int(m[1]), m.start())),
        (
            rf"\b(first|second|third|fourth) quarter of\s+{Y}",
            lambda m: quarter(int(m[2]), QUARTERS[m[1].lower()], m.start()),
        ),
        (rf"\b({MONTH})\b\.?,?\s+(?:of\s+)?{Y}", lambda m: one_month(int(m[2]), month_number(m[1]), m.start())),
        (rf"{Y}\s*年\s*(\d{{1,2}})\s*月", lambda m: one_month(int(m[1]), int(m[2]), m.start())),
        (rf"{Y}-(\d\d)(?![\d-])", lambda m: one_month(int(m[1]), int(m[2]), m.start())),
        (rf"{Y}{TO}{Y}\s*年?", lambda m: Period(f"{m[1]}-01-01", f"{m[2]}-12-31", place=m.start())),
        (rf"\b(?:since|after)\s+{Y}|{Y}\s*年?(?:以来|之后|至今|起)", lambda m: Period(f"{m[1] or m[2]}-01-01", place=m.start())),
        (rf"{Y}\s*年?", lambda m: Period(f"{m[1]}-01-01", f"{m[1]}-12-31", True, place=m.start())),
        (r"\b(?:past|last|previous)\s+(\w+)\s+(years?|months?)\b", recent),
        (r"(?:过去|最近|近)([一两二三四五六七八九十\d]+)个?(年|月)", recent),
    )
)  # fmt: skip
