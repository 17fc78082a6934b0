"""A period from one month to another is read as that one period, whatever its months, their spelling and the joiner."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import date
from itertools import product

import pytest

from fathom.services.datafetch.parser.periods import read

TODAY = date(2022, 9, 30)
FIRST_YEAR, LAST_YEAR = 2007, 2009
PAIRS = list(product(range(1, 13), repeat=2))
ZH_MONTHS = "一 二 三 四 五 六 七 八 九 十 十一 十二".split()  # noqa: SIM905
SPELLINGS: dict[str, Callable[[int], str]] = {
    "full": lambda month: calendar.month_name[month],
    "abbreviated": lambda month: calendar.month_abbr[month],
    "lower case": lambda month: calendar.month_name[month].lower(),
    "with a dot": lambda month: calendar.month_abbr[month] + ("." if month != 5 else ""),
}
JOINERS = {
    "to": "from {0} {1} to {2} {3}",
    "until": "from {0} {1} until {2} {3}",
    "through": "from {0} {1} through {2} {3}",
    "an en dash": "{0} {1} – {2} {3}",
    "a tight en dash": "{0} {1}–{2} {3}",
    "a hyphen": "{0} {1} - {2} {3}",
    "a tight hyphen": "{0} {1}-{2} {3}",
    "between": "between {0} {1} and {2} {3}",
}
CHINESE = {
    "到": "{1}年{0}月到{3}年{2}月",
    "从到": "从{1}年{0}月到{3}年{2}月",
    "至": "{1}年{0}月至{3}年{2}月",
    "自至": "自{1}年{0}月至{3}年{2}月期间",
    "hyphen": "{1}年{0}月-{3}年{2}月",
    "之间": "{1}年{0}月和{3}年{2}月之间",
}
READERS: dict[str, Callable[[str], list[tuple[str, str]]]] = {
    "datafetch": lambda text: [(str(p.start), str(p.end)) for p in read(text, TODAY).periods],
}


def compute_expected(first: int, last: int) -> list[tuple[str, str]]:
    """Return the first day of one month to the last day of the other, by the calendar alone."""
    end = calendar.monthrange(LAST_YEAR, last)[1]
    return [(f"{FIRST_YEAR}-{first:02d}-01", f"{LAST_YEAR}-{last:02d}-{end}")]


def wrong(reader: str, sentences: list[tuple[str, int, int]]) -> list[str]:
    return [text for text, first, last in sentences if READERS[reader](text) != compute_expected(first, last)]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("joiner", JOINERS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_each_pair_of_english_months_is_one_period(reader: str, spelling: str, joiner: str) -> None:
    name = SPELLINGS[spelling]
    sentences = [
        (f"Apple's return {JOINERS[joiner].format(name(a), FIRST_YEAR, name(b), LAST_YEAR)}", a, b) for a, b in PAIRS
    ]
    assert len(sentences) == 144
    assert wrong(reader, sentences) == []


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("joiner", CHINESE)
def test_each_pair_of_chinese_months_is_one_period(reader: str, joiner: str) -> None:
    sentences = [(f"苹果{CHINESE[joiner].format(a, FIRST_YEAR, b, LAST_YEAR)}的涨幅", a, b) for a, b in PAIRS]
    assert wrong(reader, sentences) == []


def test_each_pair_of_months_in_chinese_numerals_is_one_period() -> None:
    sentences = [(f"二〇〇七年{ZH_MONTHS[a - 1]}月至二〇〇九年{ZH_MONTHS[b - 1]}月", a, b) for a, b in PAIRS]
    assert wrong("datafetch", sentences) == []


@pytest.mark.parametrize("text", ["the marches of 2007", "an octopus 2007", "Decatur 2007", "mayor 2007"])
def test_a_word_that_begins_like_a_month_is_no_month(text: str) -> None:
    assert READERS["datafetch"](text) == [("2007-01-01", "2007-12-31")]
