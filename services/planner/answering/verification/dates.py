"""Recognition of dates and date ranges in English and Chinese text, from years to days."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from fathom.domain.periods.grammar import find_dates
from fathom.domain.periods.period import Date, Unit, settle

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
# Words behind a date that do the same: 2008年以来.
ONWARD = re.compile(r"(?:年|月)?(?:以来|起|至今)")
# "until late", "by the end of", "as of", 截至: the date behind it is the end of a range without a beginning.
UNTIL = re.compile(
    r"(?:until|till|through|before|by|up to|as of|截至|截止|直到|到)\s*(?:early|late|the end of)?\s*$", re.IGNORECASE
)

# The day before another one that has the month of both: "14 and 15 January".
SHARED_MONTH = re.compile(r"(?<![\d.,$€£¥/–-])(\d{1,2})\s*(?:and|to|or|–|—|-)\s*$", re.IGNORECASE)
# A number behind a month that counts a currency.
PRICED = re.compile(r"(?<=月)\d{1,2}(?=[^\d，。；日号]{0,4}元|英镑|卢布|里拉|瑞郎)")


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
    """Return all dates of the text in order of position; those in no calendar are left out."""
    out = []
    # 2022年9月1美元: a rate in that month, no day of it.
    text = PRICED.sub(lambda match: " " * len(match.group()), text)
    for start, stop, found in find_dates(text):
        words = text[start:stop]
        if isinstance(found, Date) and not found.year:
            # "3 may" is rarely a day.
            if found.unit is Unit.DAY and found.part and not words.lower().endswith(" may"):
                out.append(Moment(start, stop, words, None, None, (found.part, found.day)))
            continue
        period = settle(found) if isinstance(found, Date) else found
        if period is not None:
            moment = Moment(start, stop, words, period.start, period.end)
            out += [*find_shared_month(text, moment), moment]
    return out


def find_shared_month(text: str, later: Moment) -> list[Moment]:
    """Return the day before another day that has the month of both; [] where there is none."""
    day, shared = later.first, SHARED_MONTH.search(text[: later.start])
    if day is None or day != later.last or shared is None or not 1 <= int(shared[1]) < day.day:
        return []
    earlier = day.replace(day=int(shared[1]))
    return [Moment(*shared.span(1), shared[1], earlier, earlier)]


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
        if ONWARD.match(text, found.stop):
            out.append(Moment(found.start, found.stop, found.text, found.first, None))
        if opened := SINCE.search(head):
            day_after = found.last + timedelta(days=1) if opened.group("after") and found.last else found.first
            out.append(Moment(found.start, found.stop, found.text, day_after, None))
        elif UNTIL.search(head):
            out.append(Moment(found.start, found.stop, found.text, None, found.last))
    return out
