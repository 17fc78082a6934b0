"""Expansion of date ranges: a search sub-question about a range becomes one per year or quarter.

Documents are mostly about a single year or quarter, so a search for "2020 to 2023" finds only those about the range.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import pairwise

from fathom.domain.periods.grammar import read_periods
from fathom.domain.periods.period import Period, Unit

MAX_PERIODS = 8
"""Upper limit of periods; longer ranges are divided into this many parts of equal length."""
# What joins a frequency to its year.
OF = re.compile(r"\s*(?:(?:of|in)\s+(?:the\s+)?|的)?", re.IGNORECASE)
# What leads to a range and goes with it: "over the last two years".
LEAD = re.compile(r"\b(?:in|over|during|within)\s+$", re.IGNORECASE)


def split_periods(text: str, today: date) -> list[str]:
    """Return one sub-question per period of the first range of the text, or the text itself without one.

    ``today`` resolves relative ranges such as "the last three years".
    """
    for period in join_frequencies(text, read_periods(text, today).periods):
        start, end = period.span
        parts = list_parts(period, today, "{}年" if "年" in text[start:end] else "{}")
        if len(parts) > 1:
            before, after = LEAD.sub(" ", text[:start]), text[end:]
            return [join_period(before, part, after) for part in group_periods(parts)]
    return [text]


def join_frequencies(text: str, periods: Sequence[Period]) -> list[Period]:
    """Return the periods, with a year and the frequency beside it as one: "each quarter of 2022", 2022年各季度."""
    out: list[Period] = []
    for period in periods:
        before = out[-1] if out else None
        if before and before.every is not period.every and OF.fullmatch(text[before.span[1] : period.span[0]]):
            dated = period if before.every else before
            every, span = before.every or period.every, (before.span[0], period.span[1])
            out[-1] = replace(dated, every=every, span=span)
        else:
            out.append(period)
    return out


def list_parts(period: Period, today: date, form: str) -> list[str]:
    """Return the years or quarters of a period as written in sub-questions; none for what is shorter."""
    first, last = period.start, period.end or today
    if first is None or period.listed or period.cumulative or (period.relative and not period.count):
        return []
    if Unit.QUARTER in (period.unit, period.every):
        # Quarters as one running number; of those up to today the current one is not complete.
        number, count = last.year * 4 + (last.month - 1) // 3, int(period.count)
        start = number - count if count else first.year * 4 + (first.month - 1) // 3
        return [f"{n // 4}Q{n % 4 + 1}" for n in range(start, number if count else number + 1)]
    if period.unit in (Unit.YEAR, Unit.DECADE) and period.count:
        length = int(period.count) * (10 if period.unit is Unit.DECADE else 1)
        return [form.format(year) for year in range(today.year - length, today.year)]
    years = range(first.year, last.year + 1) if period.unit is Unit.YEAR or period.end is None else ()
    return [form.format(year) for year in years]


def join_period(before: str, period: str, after: str) -> str:
    """Return the text with one period in place of the range, surrounded by single spaces."""
    left, right = before.rstrip(), after.lstrip()
    gap_left = " " if left and before != left else ""
    gap_right = " " if right and after != right else ""
    return f"{left}{gap_left}{period}{gap_right}{right}".strip()


def group_periods(periods: Sequence[str]) -> tuple[str, ...]:
    """Return the periods, grouped to ``MAX_PERIODS`` consecutive parts when there are more."""
    if len(periods) <= MAX_PERIODS:
        return tuple(periods)
    cuts = [len(periods) * n // MAX_PERIODS for n in range(MAX_PERIODS + 1)]
    parts = [periods[start:end] for start, end in pairwise(cuts)]
    return tuple(part[0] if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
