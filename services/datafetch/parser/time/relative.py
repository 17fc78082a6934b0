"""Relative time expressions: the past three years, last quarter, year to date."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from fathom.services.datafetch.catalog.schema import Frequency
from fathom.services.datafetch.parser.time.rules import Twin, number
from fathom.services.datafetch.query.periods import (
    Kind,
    Period,
    back,
    day_period,
    days_before,
    month_period,
    quarter_period,
    week_of,
    year_period,
)

UNIT_MONTHS = {
    "year": 12,
    "年": 12,
    "decade": 120,
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

TRADING = ("交易日", "trading day", "trading session", "session")

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


def yesterday(match: Twin, today: date) -> Period | None:
    """Parse yesterday (昨天) or the day before (前天)."""
    # 前天 is the day before yesterday; 昨 and "yesterday" are the default.
    back_by = {"今": 0, "to": 0, "昨": 1, "ye": 1, "前": 2}.get(
        match[0][:1], {"to": 0, "ye": 1}.get(match[0][:2].lower(), 1)
    )
    return replace(day_period(days_before(today, back_by)), relative=True)


def span_before(match: Twin, today: date) -> Period | None:
    """Parse a span up to today that qualifies a statistic: "1-year return", "3-month change"."""
    count = number((match["n"] or "one").lower())
    unit = match["u"].lower()
    if count is None:
        return None
    if unit in UNIT_DAYS:
        return Period(days_before(today, count * UNIT_DAYS[unit]), today, kind=Kind.FLOW, relative=True)
    return Period(back(today, count * UNIT_MONTHS[unit]), today, kind=Kind.FLOW, relative=True)


def past(match: Twin, today: date) -> Period | None:
    """Parse the last n years, quarters, months, weeks, days or trading days up to ``today``."""
    word = (match["n"] or "one").lower()
    unit = re.sub(r"s$|^个|^fiscal\s+", "", match["u"].lower()).strip().removeprefix("个").removeprefix("完整")
    if word == "半":
        return Period(back(today, 6), today, relative=True)
    count = number(word)
    if count is None:
        return None
    if unit in TRADING:
        # Twice the days plus a fortnight contain enough trading days, whatever the holidays.
        return Period(days_before(today, 2 * count + 14), today, relative=True, rows=count)
    if unit in UNIT_DAYS:
        return Period(days_before(today, count * UNIT_DAYS[unit]), today, relative=True)
    # Months keep the stored frequency: the past six months of a daily price are a daily series.
    grain = {120: Frequency.ANNUAL, 12: Frequency.ANNUAL, 3: Frequency.QUARTERLY}.get(
        UNIT_MONTHS[unit], Frequency.NATIVE
    )
    start = back(today, count * UNIT_MONTHS[unit])
    return Period(start, today, grain, Kind.FLOW, relative=True, steps=count, step=UNIT_MONTHS[unit])


def this(match: Twin, today: date) -> Period | None:
    """Parse a calendar year, quarter or month relative to today: "last year", "this quarter"."""
    words = re.sub(r"\s+", "", match[0].lower())
    for word, offset in YEAR_WORDS.items():
        if words.startswith(word):
            return replace(year_period(today.year - offset, today.year - offset), relative=True)
    for word, offset in QUARTER_WORDS.items():
        if words.startswith(word):
            # Count back from the first month of the running quarter.
            start = back(date(today.year, (today.month - 1) // 3 * 3 + 1, 1), 3 * offset)
            return replace(quarter_period(start.year, start.month // 3 + 1), relative=True)
    start = back(date(today.year, today.month, 1), 0 if words.startswith(("本", "this", "这")) else 1)
    return replace(month_period(start.year, start.month), relative=True)


def so_far(match: Twin, today: date) -> Period | None:
    """Parse the current month or quarter up to today: "month to date"."""
    quarterly = re.search(r"季|q", match[0], re.I) is not None
    # Months 1, 4, 7 and 10 begin quarters.
    month = (today.month - 1) // 3 * 3 + 1 if quarterly else today.month
    return Period(date(today.year, month, 1), today, relative=True)


def week(match: Twin, today: date) -> Period | None:
    """Parse this week or the week before it, from Monday to Sunday."""
    back_by = 0 if re.match(r"本|这|this", match[0], re.I) else 7
    first, last = week_of(days_before(today, back_by))
    return Period(first, last, Frequency.WEEKLY, relative=True)


def year_to_date(match: Twin, today: date) -> Period | None:
    """Parse the current year up to today."""
    return Period(date(today.year, 1, 1), today, kind=Kind.FLOW, relative=True)


def trailing(match: Twin, today: date) -> Period | None:
    """Parse the twelve months up to today."""
    return Period(back(today, 12), today, kind=Kind.FLOW, relative=True)
