"""A length right before a measure is its window beside a period, and a period only where it ends with the other one."""

from __future__ import annotations

from datetime import date
from itertools import product

import pytest

from fathom.domain.periods.grammar import read_periods
from fathom.domain.periods.period import DAY, shift_months

TODAY = date(2022, 9, 30)
YEAR = date(2019, 1, 1), date(2019, 12, 31)
MARCH = date(2019, 3, 31)
ENGLISH = {"day": ("20", "60"), "week": ("4", "six"), "month": ("2", "3", "three"), "year": ("3", "five")}
CHINESE = {"日": ("20", "60"), "天": ("30",), "周": ("4",), "个月": ("3", "六"), "年": ("3", "五")}
MEASURES, MEASURES_ZH = ("return", "volatility", "average"), ("收益率", "波动率")
LENGTHS = [f"{number}{joint}{unit}" for unit, numbers in ENGLISH.items() for number in numbers for joint in "- "]
LENGTHS_ZH = [f"{number}{unit}" for unit, numbers in CHINESE.items() for number in numbers]


def list_read(text: str) -> list[tuple[date | None, date | None]]:
    return [(one.start, one.end) for one in read_periods(text, TODAY).periods if one.start or one.end]


@pytest.mark.parametrize("shape", ["{0} {1} of \0 in 2019", "\0's {0} {1} during 2019", "in 2019 the {0} {1} of \0"])
@pytest.mark.parametrize(("length", "measure"), list(product(LENGTHS, MEASURES)))
def test_a_length_before_a_measure_is_no_period_in_a_year(shape: str, length: str, measure: str) -> None:
    text = shape.format(length, measure)
    read = read_periods(text, TODAY)
    assert list_read(text) == [YEAR]
    # Left unread, it is a number of the question that a query has to have.
    at = text.index(length)
    assert not any(start <= at < end for start, end in read.spans)


@pytest.mark.parametrize("shape", ["\0 2019年的{0}{1}", "\0 2019年{0}{1}", "\0 {0}{1} 2019年"])
@pytest.mark.parametrize(("length", "measure"), list(product(LENGTHS_ZH, MEASURES_ZH)))
def test_a_chinese_length_before_a_measure_is_no_period_in_a_year(shape: str, length: str, measure: str) -> None:
    # "2019年3日" alone may be a day of a month that is left out, and is then not read at all.
    assert list_read(shape.format(length, measure)) in ([YEAR], [])


@pytest.mark.parametrize("number", [2, 3, 9, 12, 18])
@pytest.mark.parametrize(
    "shape",
    [
        "{0}-month return of \0 to March 2019",
        "{0}-month return of \0 as of March 2019",
        "{0}-month return of \0 at the end of March 2019",
        "{0}-month return of \0 on 31 March 2019",
        "\0 in the {0} months to March 2019",
        "截至2019年3月的{0}个月收益率",
    ],
)
def test_a_length_that_ends_with_the_other_period_is_one(shape: str, number: int) -> None:
    assert list_read(shape.format(number)) == [(shift_months(MARCH, number) + DAY, MARCH)]


@pytest.mark.parametrize("days", [10, 45, 60, 90])
def test_days_are_no_months(days: int) -> None:
    read = list_read(f"{days}-day volatility of \0 to 31 March 2019")
    assert read == [(MARCH - (days - 1) * DAY, MARCH)]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("1-year return of \0 in 2019", *YEAR),
        ("12-month return of \0 in 2019", *YEAR),
        ("3-month return of \0 from January to March 2019", date(2019, 1, 1), MARCH),
        ("5-year return of \0 from 2015 to 2020", date(2016, 1, 1), date(2020, 12, 31)),
    ],
)
def test_a_length_as_long_as_the_period_is_that_period(text: str, first: date, last: date) -> None:
    assert list_read(text) == [(first, last)]


@pytest.mark.parametrize("other", ["in 2018 and 2019", "last year", "since 2015", "in the past 5 years"])
def test_a_length_yields_to_several_relative_and_open_periods(other: str) -> None:
    assert list_read(f"3-month return of \0 {other}") == list_read(f"return of \0 {other}")


def test_a_length_alone_counts_to_today() -> None:
    assert list_read("3-month return of \0") == [(shift_months(TODAY, 3), TODAY)]
