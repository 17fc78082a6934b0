"""What each rule of the period grammar reads: the words of a match become a period, None when there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date

from services.datafetch.periods import (
    Kind,
    Period,
    back,
    day_period,
    days_before,
    month_end,
    month_period,
    quarter_period,
    safe_day,
    to_date,
    year_period,
)
from services.datafetch.semantic.schema import Frequency
from services.datafetch.semantic.text import chinese_number

ZH_DIGITS = "〇零○一二三四五六七八九"


ENGLISH = "zero one two three four five six seven eight nine ten eleven twelve"


NUMBERS = {word: number for number, word in enumerate(ENGLISH.split())}


ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}


MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"


MONTH = {name: number for number, name in enumerate(MONTH_NAMES.split(), 1)}


UNIT_MONTHS = {
    "year": 12,
    "年": 12,
    "quarter": 3,
    "季度": 3,
    "季": 3,
    "month": 1,
    "月": 1,
    "fiscalyear": 12,
    "财年": 12,
    "年度": 12,
}


UNIT_DAYS = {"week": 7, "周": 7, "星期": 7, "day": 1, "天": 1, "日": 1, "交易日": 1}


@dataclass(frozen=True)
class Twin:
    """A match whose groups ``x`` and ``x_`` are one."""

    match: re.Match[str]

    def __getitem__(self, key: str | int) -> str:
        if isinstance(key, int):
            return self.match[key]
        groups = self.match.groupdict()
        value = groups.get(key) or groups.get(f"{key}_")
        return value or ""

    def groupdict(self) -> dict[str, str]:
        return {key.removesuffix("_"): value for key, value in self.match.groupdict().items() if value}


def number(word: str) -> int | None:
    word = word.lower()
    return NUMBERS[word] if word in NUMBERS else chinese_number(word)


def full_year(text: str) -> int:
    """ "2021" and "21"; two digits are of this century up to 49."""
    value = int(text)
    return value if value > 99 else 2000 + value if value < 50 else 1900 + value


def day(match: Twin, today: date) -> Period | None:
    found = safe_day(int(match["y"]), int(match["m"]), int(match["d"]))
    return day_period(found) if found else None


def named_day(match: Twin, today: date) -> Period | None:
    found = safe_day(int(match["y"]), MONTH[match["mon"][:3].lower()], int(match["d"]))
    return day_period(found) if found else None


def named_days(match: Twin, today: date) -> Period | None:
    year = int(match["y"])
    first, last = (safe_day(year, MONTH[match[m][:3].lower()], int(match[d])) for m, d in (("a", "d1"), ("b", "d2")))
    return Period(first, last, Frequency.DAILY) if first and last and first <= last else None


def years(match: Twin, today: date) -> Period | None:
    first, last = sorted((full_year(match["a"]), full_year(match["b"])))
    return year_period(first, last)


def quarters(match: Twin, today: date) -> Period | None:
    first = quarter_of(match["y1"], match["q1"])
    last = quarter_of(match["y2"] or match["y1"], match["q2"])
    if first is None or last is None or first.start is None or last.start is None:
        return None
    first, last = sorted((first, last), key=lambda p: p.start or date.min)
    return replace(first, end=last.end)


def quarter_of(year: str, quarter: str) -> Period | None:
    which = ORDINALS.get(quarter.lower()) or number(quarter)
    return quarter_period(full_year(year), which) if which and 1 <= which <= 4 else None


def quarter(match: Twin, today: date) -> Period | None:
    return quarter_of(match["y"], match["q"])


def first_quarters(match: Twin, today: date) -> Period | None:
    which = number(match["q"])
    return to_date(full_year(match["y"]), which * 3) if which and 1 <= which <= 4 else None


def report(match: Twin, today: date) -> Period | None:
    """A statement: the first-quarter, interim or third-quarter report covers the year so far."""
    word = match["r"]
    months = {"一": 3, "1": 3, "三": 9, "3": 9}.get(word[0], 6)
    return to_date(full_year(match["y"]), months)


def half(match: Twin, today: date) -> Period | None:
    year = full_year(match["y"])
    if match["h"].lower() in ("上", "h1", "1h", "first", "1"):
        return to_date(year, 6)
    return Period(date(year, 7, 1), date(year, 12, 31), Frequency.QUARTERLY, Kind.FLOW)


def months(match: Twin, today: date) -> Period | None:
    y1, m1, m2 = int(match["y1"]), int(match["m1"]), int(match["m2"])
    y2 = int(match["y2"] or y1)
    if not (1 <= m1 <= 12 and 1 <= m2 <= 12) or (y1, m1) > (y2, m2):
        return None
    return replace(month_period(y1, m1), end=month_end(y2, m2))


def named_months(match: Twin, today: date) -> Period | None:
    m1, m2 = (MONTH[match[key][:3].lower()] for key in ("a", "b"))
    y2 = int(match["y2"])
    y1 = int(match["y1"] or y2)
    return replace(month_period(y1, m1), end=month_end(y2, m2)) if (y1, m1) <= (y2, m2) else None


def month(match: Twin, today: date) -> Period | None:
    value = int(match["m"])
    return month_period(int(match["y"]), value) if 1 <= value <= 12 else None


def named_month(match: Twin, today: date) -> Period | None:
    return month_period(int(match["y"]), MONTH[match["mon"][:3].lower()])


def fiscal(match: Twin, today: date) -> Period | None:
    year = full_year(match["y"])
    last = match.groupdict().get("z")
    which = match.groupdict().get("q")
    period = quarter_period(year, int(which)) if which else year_period(year, full_year(last) if last else year)
    return replace(period, fiscal=True)


def decade(match: Twin, today: date) -> Period | None:
    tens = int(match["d"])
    first = int(match["c"]) * 100 + tens if match["c"] else (1900 if tens >= 30 else 2000) + tens
    return year_period(first, first + 9)


def yesterday(match: Twin, today: date) -> Period | None:
    back_by = {"今": 0, "to": 0, "昨": 1, "ye": 1, "前": 2}.get(
        match[0][:1], {"to": 0, "ye": 1}.get(match[0][:2].lower(), 1)
    )
    return replace(day_period(days_before(today, back_by)), relative=True)


def since(match: Twin, today: date) -> Period | None:
    return Period(date(full_year(match["y"]), int(match.groupdict().get("m") or 1), 1), None)


def after(match: Twin, today: date) -> Period | None:
    return Period(date(full_year(match["y"]), 1, 1), None)


def before(match: Twin, today: date) -> Period | None:
    return Period(None, date(full_year(match["y"]) - 1, 12, 31))


def past(match: Twin, today: date) -> Period | None:
    """The last n years, quarters, months, weeks or days up to ``today``."""
    word = (match["n"] or "one").lower()
    unit = re.sub(r"s$|^个|^fiscal\s+", "", match["u"].lower()).strip().removeprefix("个").removeprefix("完整")
    if word == "半":
        return Period(back(today, 6), today, relative=True)
    count = number(word)
    if count is None:
        return None
    if unit in UNIT_DAYS:
        return Period(days_before(today, count * UNIT_DAYS[unit]), today, relative=True)
    grain = {12: Frequency.ANNUAL, 3: Frequency.QUARTERLY}.get(UNIT_MONTHS[unit], Frequency.NATIVE)
    return Period(back(today, count * UNIT_MONTHS[unit]), today, grain, Kind.FLOW, relative=True)


def this(match: Twin, today: date) -> Period | None:
    """Last year, this quarter, the year before last …"""
    words = re.sub(r"\s+", "", match[0].lower())
    for word, offset in YEAR_WORDS.items():
        if words.startswith(word):
            return replace(year_period(today.year - offset, today.year - offset), relative=True)
    for word, offset in QUARTER_WORDS.items():
        if words.startswith(word):
            start = back(date(today.year, (today.month - 1) // 3 * 3 + 1, 1), 3 * offset)
            return replace(quarter_period(start.year, start.month // 3 + 1), relative=True)
    start = back(date(today.year, today.month, 1), 0 if words.startswith(("本", "this", "这")) else 1)
    return replace(month_period(start.year, start.month), relative=True)


def year_to_date(match: Twin, today: date) -> Period | None:
    return Period(date(today.year, 1, 1), today, kind=Kind.FLOW, relative=True)


def trailing(match: Twin, today: date) -> Period | None:
    return Period(back(today, 12), today, kind=Kind.FLOW, relative=True)


def latest(match: Twin, today: date) -> Period | None:
    return None


def single_year(match: Twin, today: date) -> Period | None:
    year = full_year(match["y"])
    return year_period(year, year)


YEAR_WORDS = {"大前年": 3, "前年": 2, "去年": 1, "上年": 1, "上一年": 1, "上个年度": 1, "上一年度": 1, "上年度": 1, "今年": 0, "本年": 0, "本年度": 0,
              "当年": 0, "明年": -1, "后年": -2, "lastyear": 1, "previousyear": 1, "prioryear": 1, "thisyear": 0, "thecurrentyear": 0,
              "currentyear": 0, "nextyear": -1, "theyearbeforelast": 2, "yearbeforelast": 2}  # fmt: skip


QUARTER_WORDS = {
    "上季度": 1,
    "上个季度": 1,
    "上一季度": 1,
    "上一个季度": 1,
    "本季度": 0,
    "这个季度": 0,
    "lastquarter": 1,
    "previousquarter": 1,
    "thisquarter": 0,
}
