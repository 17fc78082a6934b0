"""Expansion of date ranges: a search sub-question about a range becomes one per year or quarter.

Documents are mostly about a single year or quarter, so a search for "2020 to 2023" finds only those about the range.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from fathom.domain.text.numerals import ONE_TO_TEN, parse_numeral

MAX_PERIODS = 8
"""Upper limit of periods; longer ranges are divided into this many parts of equal length."""
WORDS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
}  # fmt: skip
TO = r"\s*(?:-|–|—|~|～|\.\.|to|through|until|till|and|至|到|—|与|和)\s*"
YEAR = r"(?<![\d.])((?:19|20)\d\d)(?!\d|\.\d)"
NUMBER = rf"(\d{{1,2}}|{'|'.join(WORDS)})"
HAN = rf"(\d{{1,2}}|[{ONE_TO_TEN}两])"
QUARTER = r"(?:[Qq]\s*([1-4])|(?:第?([一二三四1-4])季度?))"


@dataclass(frozen=True)
class Span:
    """A range in a text, with its periods as written in sub-questions."""

    start: int
    end: int
    periods: tuple[str, ...]


Rule = tuple[re.Pattern[str], Callable[[re.Match[str], date], tuple[str, ...]]]


def split_periods(text: str, today: date) -> list[str]:
    """Return one sub-question per period, or the text itself without a range.

    ``today`` resolves relative ranges such as "the last three years".
    """
    span = find_range(text, today)
    if span is None or len(span.periods) < 2:
        return [text]
    before, after = text[: span.start], text[span.end :]
    return [join_period(before, period, after) for period in span.periods]


def join_period(before: str, period: str, after: str) -> str:
    """Return the text with one period in place of the range, surrounded by single spaces."""
    left, right = before.rstrip(), after.lstrip()
    gap_left = " " if left and before != left else ""
    gap_right = " " if right and after != right else ""
    return f"{left}{gap_left}{period}{gap_right}{right}".strip()


def find_range(text: str, today: date) -> Span | None:
    """Return the first range of the text, the longest one at that position; None without one."""
    found = []
    for pattern, periods in RULES:
        for match in pattern.finditer(text):
            listed = periods(match, today)
            if listed:
                found.append(Span(match.start(), match.end(), listed))
                # One match per rule is enough: the first range of the text is wanted.
                break
    # Of those that begin together, the longest says most.
    return min(found, key=lambda span: (span.start, span.start - span.end), default=None)


def list_years(first: int, last: int, form: str = "{}") -> tuple[str, ...]:
    """Return the years of a range, grouped to at most ``MAX_PERIODS`` parts; () when it runs backwards."""
    if last < first:
        return ()
    return group_periods([form.format(year) for year in range(first, last + 1)])


def list_quarters(first: tuple[int, int], last: tuple[int, int], form: str = "{year}Q{quarter}") -> tuple[str, ...]:
    """Return the quarters from (year, quarter) to (year, quarter), both included; () when the range runs backwards."""
    start, end = first[0] * 4 + first[1] - 1, last[0] * 4 + last[1] - 1
    if end < start:
        return ()
    return group_periods([form.format(year=n // 4, quarter=n % 4 + 1) for n in range(start, end + 1)])


def group_periods(periods: Sequence[str]) -> tuple[str, ...]:
    """Return the periods, grouped to ``MAX_PERIODS`` consecutive parts when there are more."""
    if len(periods) <= MAX_PERIODS:
        return tuple(periods)
    cuts = [len(periods) * n // MAX_PERIODS for n in range(MAX_PERIODS + 1)]
    parts = [periods[start:end] for start, end in pairwise(cuts)]
    return tuple(part[0] if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def parse_number(text: str) -> int:
    value = parse_numeral(text)
    return WORDS[text.lower()] if value is None else value


def parse_quarters(match: re.Match[str], today: date) -> tuple[str, ...]:
    year, a, b, later, c, d = match.groups()
    return list_quarters((int(year), parse_number(a or b)), (int(later or year), parse_number(c or d)))


def list_year_quarters(match: re.Match[str], today: date) -> tuple[str, ...]:
    return list_quarters((int(match.group(1)), 1), (int(match.group(1)), 4))


def list_last_quarters(match: re.Match[str], today: date) -> tuple[str, ...]:
    """Return the complete quarters before the one that contains ``today``."""
    count = parse_number(match.group(1))
    # Quarters as one running number; the current one is not complete and has no reports yet.
    end = today.year * 4 + (today.month - 1) // 3 - 1
    start = end - count + 1
    return list_quarters((start // 4, start % 4 + 1), (end // 4, end % 4 + 1))


def list_last_years(match: re.Match[str], today: date, form: str = "{}") -> tuple[str, ...]:
    """Return the complete years before the current one."""
    return list_years(today.year - parse_number(match.group(1)), today.year - 1, form)


def make_rule(pattern: str, periods: Callable[[re.Match[str], date], tuple[str, ...]]) -> Rule:
    return re.compile(pattern, re.IGNORECASE), periods


RULES: tuple[Rule, ...] = (
    make_rule(rf"(?:\bfrom\s+|从|自)?{YEAR}\s*年?\s*{QUARTER}{TO}(?:{YEAR}\s*年?\s*)?{QUARTER}", parse_quarters),
    make_rule(rf"(?:each quarter of|the quarters of|quarterly in)\s+{YEAR}", list_year_quarters),
    make_rule(rf"{YEAR}\s*年\s*(?:各季度?|每个?季度?|四个季度)", list_year_quarters),
    make_rule(
        rf"(?:\b(?:between|from|in|over)\s+)?{YEAR}{TO}{YEAR}(?!\s*年|\s*-\s*\d)",
        lambda m, _: list_years(int(m[1]), int(m[2])),
    ),
    make_rule(
        rf"(?:从|自)?{YEAR}\s*年?{TO}{YEAR}\s*年(?:期?间|之间)?", lambda m, _: list_years(int(m[1]), int(m[2]), "{}年")
    ),
    make_rule(
        rf"(?:\b(?:in|over|during)\s+)?(?:\bthe\s+)?\b(?:last|past|previous|recent)\s+{NUMBER}\s+quarters",
        list_last_quarters,
    ),
    make_rule(rf"(?:最近|过去|近|前){HAN}个?季度", list_last_quarters),
    make_rule(
        rf"(?:\b(?:in|over|during)\s+)?(?:\bthe\s+)?\b(?:last|past|previous|recent)\s+{NUMBER}\s+years", list_last_years
    ),
    make_rule(rf"(?:最近|过去|近|前){HAN}年", lambda m, today: list_last_years(m, today, "{}年")),
    make_rule(rf"\bsince\s+{YEAR}(?!\s*-)", lambda m, today: list_years(int(m[1]), today.year)),
    make_rule(
        rf"(?:自|从)?{YEAR}\s*年?(?:以来|至今|到现在|到今天)",
        lambda m, today: list_years(int(m[1]), today.year, "{}年"),
    ),
)
