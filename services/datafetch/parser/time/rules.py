"""Conversion of the matches of time rules to periods; None for impossible dates."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date

from fathom.domain.text.months import MONTH_NAMES
from fathom.domain.text.numerals import parse_numeral
from fathom.services.datafetch.catalog.schema import Frequency
from fathom.services.datafetch.query.periods import (
    Kind,
    Period,
    day_period,
    month_end,
    month_period,
    quarter_period,
    safe_day,
    to_date,
    year_period,
)

ENGLISH = "zero one two three four five six seven eight nine ten eleven twelve"


NUMBERS = {word: number for number, word in enumerate(ENGLISH.split())}


ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}


MONTH = {name[:3].lower(): number for number, name in enumerate(MONTH_NAMES, 1)}


@dataclass(frozen=True)
class Twin:
    """A regex match that treats the groups ``x`` and ``x_`` as one."""

    # One pattern cannot use a group name twice.
    match: re.Match[str]

    def __getitem__(self, key: str | int) -> str:
        if isinstance(key, int):
            return self.match[key]
        groups = self.match.groupdict()
        value = groups.get(key) or groups.get(f"{key}_")
        return value or ""

    def groupdict(self) -> dict[str, str]:
        return {key.removesuffix("_"): value for key, value in self.match.groupdict().items() if value}


# Joints that may list two periods instead of spanning a range: "2019 and 2021", 2019与2021, "2021 against 2019".
LIST = re.compile(
    r"\band\b|\bvs\.?|\bversus\b|\bthan\b|\bcompared\b|\bagainst\b|\brelative\b|和|与|及|、|,|，|比|较|相对",
    re.I | re.A,
)
# Words before two periods that make them a range in spite of such a joint: "between 2019 and 2021".
FROM = re.compile(r"(?:\bbetween|\bfrom|从|自|在|介于)\s*$", re.I | re.A)
WITHIN = re.compile(r"\s*(?:之间|期间|间)")


def several(match: Twin, first: Period, last: Period, whole: Period) -> Period | tuple[Period, ...]:
    """Return two listed periods or one range: "2019 and 2021" are two, "between 2019 and 2021" is one."""
    text, (start, end) = match.match.string, match.match.span()
    # Twelve characters hold the longest word before a range ("between ") with its blanks; more would reach into other
    # clauses.
    ahead = text[max(0, start - 12) : start]
    if (
        FROM.search(ahead)
        or WITHIN.match(text[end:])
        or not LIST.search(match[0])
        or re.search(r"[-~至到]|\bto\b", match[0])
    ):
        return whole
    return (replace(first, listed=True), replace(last, listed=True))


def number(word: str) -> int | None:
    """Parse digits, a Chinese numeral, or an English number word up to twelve; return None for anything else."""
    word = word.lower()
    return NUMBERS[word] if word in NUMBERS else parse_numeral(word)


def full_year(text: str) -> int:
    """Return a year of two or four digits; two digits up to 49 are 20xx, others 19xx."""
    value = int(text)
    # Two digits turn at 50, so 49 is 2049 and 50 is 1950: earlier years need four digits.
    return value if value > 99 else 2000 + value if value < 50 else 1900 + value


def day(match: Twin, today: date) -> Period | None:
    found = safe_day(int(match["y"]), int(match["m"]), int(match["d"]))
    return day_period(found) if found else None


def named_day(match: Twin, today: date) -> Period | None:
    found = safe_day(int(match["y"]), MONTH[match["mon"][:3].lower()], int(match["d"]))
    return day_period(found) if found else None


def named_days(match: Twin, today: date) -> Period | None:
    year = int(match["y"])
    # None for a range that runs backwards, too: it is reported as impossible instead of being turned round.
    first, last = (safe_day(year, MONTH[match[m][:3].lower()], int(match[d])) for m, d in (("a", "d1"), ("b", "d2")))
    return Period(first, last, Frequency.DAILY) if first and last and first <= last else None


def month_days(match: Twin, today: date) -> Period | None:
    """Parse a range of days of one year: "9 to 13 November 2020", "2015年8月17日至28日", "2015年8月17日至9月2日"."""
    year = int(match["y"])
    month = MONTH[match["a"][:3].lower()] if match["a"] else int(match["m"])
    last_month = int(match["m2"] or month)
    first, last = safe_day(year, month, int(match["d1"])), safe_day(year, last_month, int(match["d2"]))
    return Period(first, last, Frequency.DAILY) if first and last and first <= last else None


def day_pair(match: Twin, today: date) -> tuple[Period, ...] | None:
    """Parse two single days of one year: "23 and 24 June 2016", "2016年6月23日和24日"."""
    year = int(match["y"])
    months = [MONTH[match[key][:3].lower()] if match[key] else 0 for key in ("a", "b")]
    one = months[0] or int(match["m"] or 0) or months[1]
    other = months[1] or int(match["m2"] or 0) or one
    days = [safe_day(year, one, int(match["d1"])), safe_day(year, other, int(match["d2"]))]
    return tuple(replace(day_period(found), listed=True) for found in days if found) if all(days) else None


def bounds(match: Twin, today: date) -> Period | None:
    """Parse a range between year ends or beginnings: "end of 2015 to end of 2022" → 2015-12-31..2022-12-31."""
    first, last = int(match["y1"]), int(match["y2"])
    # Words for the end of a year; any other word at a bound ("start", 初) means its beginning.
    ends = re.compile(r"末|底|终|end|close", re.I)
    start = date(first, 12, 31) if ends.search(match["x"]) else date(first, 1, 1)
    # "The beginning of 2022" is the end of 2021.
    # An end without a word is the end of its year.
    opens = match["z"] and not ends.search(match["z"])
    end = date(last - 1, 12, 31) if opens else date(last, 12, 31)
    return Period(start, end) if start <= end else None


def year_until(match: Twin, today: date) -> Period | None:
    """Parse a year up to a day or month of it: "2022 up to 30 September", 2022年截至9月."""
    year = int(match["y"])
    groups = match.groupdict()
    which = MONTH[groups["mon"][:3].lower()] if groups.get("mon") else int(groups["m"])
    if not 1 <= which <= 12:
        return None
    end = safe_day(year, which, int(groups["d"])) if groups.get("d") else month_end(year, which)
    # Read like a statement to date: a quarterly flow from 1 January, not a range of days.
    return Period(date(year, 1, 1), end, Frequency.QUARTERLY, Kind.FLOW) if end else None


def middle(match: Twin, today: date) -> Period | None:
    """Parse the middle of a year as its June: "mid-2022" → 2022-06-01..2022-06-30."""
    return month_period(int(match["y"]), 6)


def years(match: Twin, today: date) -> Period | tuple[Period, ...] | None:
    first, last = sorted((full_year(match["a"]), full_year(match["b"])))
    return several(match, year_period(first, first), year_period(last, last), year_period(first, last))


def quarter_of_years(match: Twin, today: date) -> Period | tuple[Period, ...] | None:
    """Parse one quarter of two years: "2019年与2020年四季度"."""
    found = [quarter_of(match[key], match["q"]) for key in ("a", "b")]
    return tuple(replace(item, listed=True) for item in found if item is not None) or None


def month_of_years(match: Twin, today: date) -> Period | tuple[Period, ...] | None:
    """Parse one month of two years: "2019年和2020年的3月", "March of 2019 and 2020"."""
    which = MONTH[match["mon"][:3].lower()] if match["mon"] else int(match["m"])
    if not 1 <= which <= 12:
        return None
    return tuple(replace(month_period(int(match[key]), which), listed=True) for key in ("a", "b"))


def american_day(match: Twin, today: date) -> Period | None:
    """Parse a day written with slashes, month first unless that is impossible: "3/18/2019", "18/3/2019"."""
    first, second, year = int(match["m"]), int(match["d"]), int(match["y"])
    # A first number above 12 can only be a day: 18/3/2019 is written day first.
    found = safe_day(year, second, first) if first > 12 else safe_day(year, first, second)
    return day_period(found) if found else None


def quarters(match: Twin, today: date) -> Period | tuple[Period, ...] | None:
    first = quarter_of(match["y1"], match["q1"])
    last = quarter_of(match["y2"] or match["y1"], match["q2"])
    if first is None or last is None or first.start is None or last.start is None:
        return None
    # A comparison may name the later quarter first ("Q4 2021 against Q3 2021").
    first, last = sorted((first, last), key=lambda p: p.start or date.min)
    return several(match, first, last, replace(first, end=last.end))


def quarter_of(year: str, quarter: str) -> Period | None:
    which = ORDINALS.get(quarter.lower()) or number(quarter)
    return quarter_period(full_year(year), which) if which and 1 <= which <= 4 else None


def quarter(match: Twin, today: date) -> Period | None:
    return quarter_of(match["y"], match["q"])


def first_quarters(match: Twin, today: date) -> Period | None:
    """Parse the first quarters of a year: "2021年前三季度" → 2021-01-01..2021-09-30."""
    which = number(match["q"])
    return to_date(full_year(match["y"]), which * 3) if which and 1 <= which <= 4 else None


def first_months(match: Twin, today: date) -> Period | None:
    """Parse the first months of a year: "first nine months of 2022" → 2022-01-01..2022-09-30."""
    count = number(match["n"])
    return replace(to_date(int(match["y"]), count), cumulative=False) if count and 1 <= count <= 12 else None


def report(match: Twin, today: date) -> Period | None:
    """Parse a quarterly or interim report as the year to date that it covers: "2021年中报" → 2021-01-01..2021-06-30."""
    word = match["r"]
    # Reports of the first and third quarter are named by a number; every other interim report is the half-year's.
    months = {"一": 3, "1": 3, "三": 9, "3": 9}.get(word[0], 6)
    return to_date(full_year(match["y"]), months)


def half(match: Twin, today: date) -> Period | None:
    """Parse a half year: "first half of 2019" → 2019-01-01..2019-06-30."""
    year = full_year(match["y"])
    # The first half is what an interim report covers and is cumulative; the second half is only a difference of two
    # reports.
    if match["h"].lower() in ("上", "h1", "1h", "first", "1"):
        return to_date(year, 6)
    return Period(date(year, 7, 1), date(year, 12, 31), Frequency.QUARTERLY, Kind.FLOW)


def months(match: Twin, today: date) -> Period | tuple[Period, ...] | None:
    y1, m1, m2 = int(match["y1"]), int(match["m1"]), int(match["m2"])
    y2 = int(match["y2"] or y1)
    if not (1 <= m1 <= 12 and 1 <= m2 <= 12):
        return None
    if (y1, m1) > (y2, m2):
        # "March 2021 to January 2021" is impossible as a range, while "March 2021 against January 2020" is a list.
        if not LIST.search(match[0]):
            return None
        (y1, m1), (y2, m2) = (y2, m2), (y1, m1)
    return several(
        match, month_period(y1, m1), month_period(y2, m2), replace(month_period(y1, m1), end=month_end(y2, m2))
    )


def named_months(match: Twin, today: date) -> Period | tuple[Period, ...] | None:
    m1, m2 = (MONTH[match[key][:3].lower()] for key in ("a", "b"))
    y2 = int(match["y2"])
    y1 = int(match["y1"] or y2)
    if (y1, m1) > (y2, m2):
        if not LIST.search(match[0]):
            return None
        (y1, m1), (y2, m2) = (y2, m2), (y1, m1)
    return several(
        match, month_period(y1, m1), month_period(y2, m2), replace(month_period(y1, m1), end=month_end(y2, m2))
    )


def month(match: Twin, today: date) -> Period | None:
    value = int(match["m"])
    return month_period(int(match["y"]), value) if 1 <= value <= 12 else None


def named_month(match: Twin, today: date) -> Period | None:
    return month_period(int(match["y"]), MONTH[match["mon"][:3].lower()])


def fiscal(match: Twin, today: date) -> Period | None:
    """Parse fiscal years and quarters ("FY2024", "Q3 FY24"), still with the dates of the calendar year."""
    year = full_year(match["y"])
    last = match.groupdict().get("z")
    which = match.groupdict().get("q")
    period = quarter_period(year, int(which)) if which else year_period(year, full_year(last) if last else year)
    # The entity's fiscal year is not known here: ``in_fiscal`` shifts the dates once the entity is.
    return replace(period, fiscal=True)


def decade(match: Twin, today: date) -> Period | None:
    """Parse a decade: "the 1990s" → 1990-01-01..1999-12-31; without a century "30s" and above are 19xx."""
    tens = int(match["d"])
    first = int(match["c"]) * 100 + tens if match["c"] else (1900 if tens >= 30 else 2000) + tens
    return year_period(first, first + 9)


def since(match: Twin, today: date) -> Period | None:
    """Parse an open period: "since 2018" has no end."""
    return Period(date(full_year(match["y"]), int(match.groupdict().get("m") or 1), 1), None)


def before(match: Twin, today: date) -> Period | None:
    """Parse a period without a start: "before 2020" ends on 2019-12-31."""
    return Period(None, date(full_year(match["y"]) - 1, 12, 31))


def single_year(match: Twin, today: date) -> Period | None:
    year = full_year(match["y"])
    return year_period(year, year)
