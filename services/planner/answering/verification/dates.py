"""Recognition of dates and date ranges in English and Chinese text, from years to days."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from fathom.domain.text.months import MONTH, MONTHS
from fathom.domain.text.numerals import DIGITS, ONE_TO_NINE, ONE_TO_TEN, parse_numeral, replace_digits

DAY = r"(?:0?[1-9]|[12]\d|3[01])"
YEAR = r"(?:1[89]|20|21)\d\d"
QUARTERS = {
    "一": 1,
    "二": 2,
    "三": 3,
    "四": 4,
    "first": 1,
    "second": 2,
    "third": 3,
    "fourth": 4,
    "1": 1,
    "2": 2,
    "3": 3,
    "4": 4,
}
# Most precise first: of overlapping matches the earlier pattern wins. A bare year is excluded before a unit, since
# "2000 shares" is no date.
PATTERNS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<!\d)(?<!\d\.)(?P<y>{YEAR})[-/.](?P<m>0?[1-9]|1[0-2])[-/.](?P<d>{DAY})(?!\d)",
        rf"\b(?P<m>{MONTH})\.?\s+(?P<d>{DAY})(?:st|nd|rd|th)?,?\s+(?P<y>{YEAR})\b",
        rf"\b(?P<d>{DAY})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<m>{MONTH})\.?,?\s+(?P<y>{YEAR})\b",
        rf"(?P<y>{YEAR}|[{DIGITS}]{{4}})\s?年\s?(?P<m>1[0-2]|0?[1-9]|十[一二]?|[{ONE_TO_NINE}])\s?月\s?(?P<d>{DAY}|[一二三]?十?[{ONE_TO_TEN}])\s?[日号]",
        rf"(?P<y>{YEAR}|[{DIGITS}]{{4}})\s?年\s?(?P<m>1[0-2]|0?[1-9]|十[一二]?|[{ONE_TO_NINE}])\s?月",
        rf"(?P<y>{YEAR}|[{DIGITS}]{{4}})\s?年\s?第?(?P<q>[一二三四1-4])\s?季度?",
        rf"\b(?P<m>{MONTH})\.?,?\s+(?:of\s+)?(?P<y>{YEAR})\b",
        rf"\bQ(?P<q>[1-4])\s?(?:of\s)?[-'’]?(?P<y>{YEAR})\b",
        rf"\b(?P<y>{YEAR})\s?-?Q(?P<q>[1-4])\b",
        rf"\b(?P<q>first|second|third|fourth)[ -]quarter\s+(?:of\s+)?(?P<y>{YEAR})\b",
        rf"(?<![\d.])(?P<y>{YEAR})-(?P<m>0[1-9]|1[0-2])(?![\d-])",
        rf"(?P<y>{YEAR}|[{DIGITS}]{{4}})\s?年",
        rf"(?<![\d.,$¥€£+−-])(?<!\d[–-])(?:FY|CY)?(?P<y>{YEAR})(?:s(?=\b))?(?![\d%％]|[.,]\d|\s?(?:%|percent|point|million|billion|万|亿|元|美元|dollar|share|job|worker|people|passenger|staff|employee|visitor|delegate))",
        rf"(?<=\d[–-])(?P<y>{YEAR})(?![\d%％.])",
        rf"\b(?P<m>{MONTH})\.?\s+(?P<d>{DAY})(?:st|nd|rd|th)?\b(?!\s*%)",
        rf"\b(?P<d>{DAY})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<m>(?!may\b){MONTH})\b",
        rf"(?<!年)(?P<m>1[0-2]|0?[1-9])月(?P<d>{DAY})[日号]",
    )
]
# Text between two dates that makes them a range.
SPAN = re.compile(
    r"^\s*(?:and end(?:ed|ing))?\s*(?:to|until|till|through|\.\.\.?|…|–|—|-|and|至|到|~|～|年至|年到)\s*"
    r"(?:the end of )?$",
    re.IGNORECASE,
)
# Text before a date that opens a range without an end: "since", "from early", "starting in the end of", 自.
SINCE = re.compile(
    r"(?:since|from|(?P<after>after)|starting(?: in)?|自|从|始于)\s*(?:early|late|the (?:start|end) of)?\s*$",
    re.IGNORECASE,
)
# "until late", "by the end of", "as of", 截至: the date behind it is the end of a range without a beginning.
UNTIL = re.compile(
    r"(?:until|till|through|before|by|up to|as of|截至|截止|直到|到)\s*(?:early|late|the end of)?\s*$", re.IGNORECASE
)


@dataclass(frozen=True)
class Moment:
    """A year, quarter, month or day at offsets ``start`` to ``stop`` of a text.

    The period runs from ``first`` to ``last``. A bound of None leaves the period open on that side. A date without a
    year has neither bound but ``month_day``.
    """

    start: int
    stop: int
    text: str
    first: date | None
    last: date | None
    month_day: tuple[int, int] | None = None

    def covers(self, day: date) -> bool:
        """Return whether the day lies in the period."""
        if self.month_day is not None:
            return (day.month, day.day) == self.month_day
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)

    def meets(self, other: Moment) -> bool:
        """Return whether both periods can overlap."""
        if self.month_day is not None or other.month_day is not None:
            known = self if self.month_day is None else other
            if known.month_day is not None or known.first is None:
                return self.month_day == other.month_day or known.first is None
            month, day_of_month = (self.month_day or other.month_day) or (1, 1)
            # "3 May" against a month or year cannot be refuted, against a day it can.
            if known.first == known.last:
                return (known.first.month, known.first.day) == (month, day_of_month)
            return True
        low = max(self.first or date.min, other.first or date.min)
        return low <= min(self.last or date.max, other.last or date.max)

    @property
    def days(self) -> int:
        """Return the length in days; 10^6 for a period with an open end."""
        return (self.last - self.first).days + 1 if self.first and self.last else 10**6


def find_moments(text: str) -> list[Moment]:
    """Return all dates of the text in order of position; of overlapping matches, the most precise one."""
    taken: list[Moment] = []
    for pattern in PATTERNS:
        for match in pattern.finditer(text):
            if not any(match.start() < old.stop and old.start < match.end() for old in taken):
                made = parse_moment(match)
                if made is not None:
                    taken.append(made)
    return sorted(taken, key=lambda found: found.start)


def parse_moment(match: re.Match[str]) -> Moment | None:
    """Convert a match to a period; return None when the day does not exist."""
    parts = match.groupdict()
    month = parse_month(parts.get("m") or "")
    day_of_month = parse_numeral(parts.get("d") or "") or 0
    place = (match.start(), match.end(), match.group())
    if not parts.get("y"):
        return Moment(*place, None, None, (month, day_of_month))
    year = int(replace_digits(parts["y"]))
    quarter = QUARTERS.get((parts.get("q") or "").lower(), 0)
    try:
        if day_of_month:
            return Moment(*place, date(year, month, day_of_month), date(year, month, day_of_month))
        if month:
            return Moment(*place, date(year, month, 1), compute_month_end(year, month))
        if quarter:
            return Moment(*place, date(year, quarter * 3 - 2, 1), compute_month_end(year, quarter * 3))
        decade = match.group().lower().endswith("s")
        return Moment(*place, date(year, 1, 1), date(year + 9 if decade else year, 12, 31))
    # Such as 31 June: not a date, and no reason to fail.
    except ValueError:
        return None


def parse_month(text: str) -> int:
    return MONTHS.get(text.lower(), 0) or parse_numeral(text) or 0


def compute_month_end(year: int, month: int) -> date:
    return (date(year + month // 12, month % 12 + 1, 1)) - timedelta(days=1)


def find_ranges(text: str, moments: list[Moment]) -> list[Moment]:
    """Return the periods that a number in the text may refer to.

    These are each date, ranges between two dates, and open ranges after words such as "since" or "until".
    """
    out = list(moments)
    dated = [found for found in moments if found.month_day is None]
    for left, right in pairwise(dated):
        if SPAN.match(text[left.stop : right.start]) and left.first and right.last and left.first <= right.last:
            out.append(Moment(left.start, right.stop, text[left.start : right.stop], left.first, right.last))
    for found in dated:
        head = text[max(0, found.start - 24) : found.start]
        if opened := SINCE.search(head):
            day_after = found.last + timedelta(days=1) if opened.group("after") and found.last else found.first
            out.append(Moment(found.start, found.stop, found.text, day_after, None))
        elif UNTIL.search(head):
            out.append(Moment(found.start, found.stop, found.text, None, found.last))
    return out
