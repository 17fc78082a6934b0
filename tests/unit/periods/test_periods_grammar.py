"""Periods in English and Chinese text: what each expression is, where it stands, and what is left unread."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.domain.periods.grammar import read_periods
from fathom.domain.periods.period import Kind, Period, Unit

TODAY = date(2022, 9, 30)


def read(text: str) -> list[tuple[str, str, str]]:
    """Return the words of each period with its first and last day, "" where it is open."""
    return [
        (text[slice(*one.span)], str(one.start or ""), str(one.end or "")) for one in read_periods(text, TODAY).periods
    ]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("the latest month", "2022-08-31"),
        ("the past month", "2022-09-30"),
        ("TTM", "2022-08-31"),
        ("过去一年", "2022-09-30"),
    ],
)
def test_words_for_the_newest_value_count_from_it_and_all_others_from_today(text: str, end: str) -> None:
    (period,) = read_periods(text, TODAY, date(2022, 8, 31)).periods
    assert str(period.end) == end


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("in 2020 and in March 2020", ("2020", "2020-01-01", "2020-12-31"), ("March 2020", "2020-03-01", "2020-03-31")),
        ("2020年和2020年3月", ("2020年", "2020-01-01", "2020-12-31"), ("2020年3月", "2020-03-01", "2020-03-31")),
        ("since 2018 and in 2015", ("since 2018", "2018-01-01", ""), ("2015", "2015-01-01", "2015-12-31")),
    ],
)
def test_of_two_periods_that_and_joins_none_is_dropped(
    text: str, first: tuple[str, str, str], second: tuple[str, str, str]
) -> None:
    assert read(text) == [first, second]


def test_and_between_other_words_joins_no_periods() -> None:
    said = "2022年加息与国债收益率的报告,区间2022年1月到9月"
    assert [start for _, start, _ in read(said)] == ["2022-01-01"]
    assert [end for *_, end in read(said)] == ["2022-09-30"]


def read_one(text: str) -> Period:
    (period,) = read_periods(text, TODAY).periods
    return period


@pytest.mark.parametrize(
    ("text", "words", "start", "end"),
    [
        ("GDP from October 2007 to March 2009", "from October 2007 to March 2009", "2007-10-01", "2009-03-31"),
        ("GDP in the first nine months of 2022", "the first nine months of 2022", "2022-01-01", "2022-09-30"),
        ("GDP in the last quarter of 2020", "the last quarter of 2020", "2020-10-01", "2020-12-31"),
        ("GDP from Q2 2019 up to Q1 2020", "from Q2 2019 up to Q1 2020", "2019-04-01", "2020-03-31"),
        ("the 2014-16 oil slump", "2014-16", "2014-01-01", "2016-12-31"),
        ("2019年第三季度的GDP", "2019年第三季度", "2019-07-01", "2019-09-30"),
        ("2021年一季度到四季度的GDP", "2021年一季度到四季度", "2021-01-01", "2021-12-31"),
        ("2020年3月第二周", "2020年3月第二周", "2020-03-08", "2020-03-14"),
        ("22年3月的CPI", "22年3月", "2022-03-01", "2022-03-31"),
        ("2022年9月10年期国债", "2022年9月", "2022-09-01", "2022-09-30"),
        ("CPI since 2015", "since 2015", "2015-01-01", ""),
        ("CPI until the end of 2018", "until the end of 2018", "", "2018-12-31"),
        ("近五年的CPI", "近五年", "2017-09-30", "2022-09-30"),
        ("CPI over the last decade", "the last decade", "2012-09-30", "2022-09-30"),
        ("过去十年的CPI", "过去十年", "2012-09-30", "2022-09-30"),
        ("CPI of the past twenty years", "the past twenty years", "2002-09-30", "2022-09-30"),
        ("CPI up to September in 2022", "September", "2022-09-01", "2022-09-30"),
    ],
)
def test_windows(text: str, words: str, start: str, end: str) -> None:
    assert (words, start, end) in read(text)
    assert read_one(text).kind is Kind.WINDOW


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("end of 2018", date(2018, 12, 31)),
        ("at the close of March 2020", date(2020, 3, 31)),
        ("year-end 2018", date(2018, 12, 31)),
        ("2020年底", date(2020, 12, 31)),
        ("2020年一季度末", date(2020, 3, 31)),
        ("2020年初", date(2020, 1, 1)),
        ("mid-2022", date(2022, 6, 30)),
    ],
)
def test_the_end_of_a_period_is_a_point_and_not_all_of_it(text: str, day: date) -> None:
    period = read_one(text)
    assert (period.kind, period.start, period.end) == (Kind.POINT, day, day)
    assert period.window is not None
    assert period.window[0] <= day <= period.window[1]


@pytest.mark.parametrize(
    "text",
    ["ten years later", "十年后", "the year after the crisis", "3 months before March 2020", "recent years", "近几年"],
)
def test_what_counts_from_something_unnamed_has_no_days(text: str) -> None:
    reading = read_periods(text, TODAY)
    assert [(one.kind, one.start, one.end) for one in reading.periods] == [(Kind.UNCLEAR, None, None)]
    assert reading.spans == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [("in 2019 from 2020 to 2021", "2019 from 2020 to 2021"), ("2019年从2020年到2021年", "2019年从2020年到2021年")],
)
def test_periods_that_exclude_each_other_are_named_and_not_merged(text: str, words: str) -> None:
    assert read_one(text).kind is Kind.CONTRADICTORY
    assert read(text) == [(words, "", "")]


@pytest.mark.parametrize("text", ["31 February 2021", "2021年13月", "2023Q5", "the last 9999 years"])
def test_what_is_in_no_calendar_is_impossible(text: str) -> None:
    assert read_one(text).kind is Kind.IMPOSSIBLE


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("from March 2021 to January 2021", Kind.REVERSED),
        ("2021年3月到2021年1月", Kind.REVERSED),
        ("the dot-com era", Kind.NAMELESS),
        ("highest on record", Kind.EVERYTHING),
        ("有记录以来的最高点", Kind.EVERYTHING),
    ],
)
def test_what_has_no_days_says_why(text: str, kind: Kind) -> None:
    assert [(one.kind, one.start, one.end) for one in read_periods(text, TODAY).periods] == [(kind, None, None)]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("3-Oct-18", date(2018, 10, 3), date(2018, 10, 3)),
        ("5-Jan-2015 to 7-Mar-16", date(2015, 1, 5), date(2016, 3, 7)),
        ("up to 2015", None, date(2015, 12, 31)),
        ("up to March 2015", None, date(2015, 3, 31)),
        ("until 2015", None, date(2014, 12, 31)),
    ],
)
def test_a_day_in_any_notation_and_an_end_that_is_included(text: str, start: date | None, end: date) -> None:
    assert (read_one(text).start, read_one(text).end) == (start, end)


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("each quarter", Unit.QUARTER),
        ("monthly CPI", Unit.MONTH),
        ("每年的GDP", Unit.YEAR),
        ("annual GDP growth", Unit.YEAR),
    ],
)
def test_a_frequency_is_recurring(text: str, every: Unit) -> None:
    period = read_one(text)
    assert (period.kind, period.every) == (Kind.RECURRING, every)


@pytest.mark.parametrize(
    "text",
    [
        "a 2% annual rate",
        "the Bank of Japan",
        "Bank of America",
        "S&P 500",
        "10-year yield",
        "10年期国债",
        "600519",
        "2000 shares",
        "$2020",
        "I may go",
        "it rose 12.5 percent",
        "in the month",
        "中国与日本",
    ],
)
def test_what_names_no_period_is_left_unread(text: str) -> None:
    assert read(text) == []


def test_listed_periods_are_several_and_share_what_is_said_once() -> None:
    assert [words for words, _, _ in read("2019, 2020 and 2021")] == ["2019", "2020", "2021"]
    assert read("2019年与2020年四季度") == [
        ("2019年", "2019-10-01", "2019-12-31"),
        ("2020年四季度", "2020-10-01", "2020-12-31"),
    ]
    assert all(one.listed for one in read_periods("March 2020 versus March 2019", TODAY).periods)


def test_a_length_ends_with_the_period_that_it_is_said_of() -> None:
    assert [(start, end) for _, start, end in read("过去两年（截至2021年底）")] == [("2020-01-01", "2021-12-31")]


@given(st.text(alphabet="0123456789年月日季度初底末 ofendlasttoQqyearsince,-/.\0", max_size=40), st.dates())
def test_any_text_is_read_within_its_bounds(text: str, today: date) -> None:
    reading = read_periods(text, today)
    assert all(0 <= start < end <= len(text) for start, end in reading.spans)
    assert all(one.start <= one.end for one in reading.periods if one.start and one.end)


@pytest.mark.parametrize(
    "text", ["从2012年到2009年这段时间里", "from 2012 to 2009", "between June 2014 and February 2011"]
)
def test_a_range_that_ends_before_it_begins_is_no_period(text: str) -> None:
    assert [one.kind for one in read_periods(text, TODAY).periods] == [Kind.REVERSED]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2020年的法定代表人与上一年是否相同", "2019-01-01", "2019-12-31"),
        ("2020年收入比前一年增加多少", "2019-01-01", "2019-12-31"),
        ("2021年的法定代表人与前两年是否相同", "2019-01-01", "2020-12-31"),
        ("revenue in 2020 against the previous year", "2019-01-01", "2019-12-31"),
        ("Q3 2021 compared with the previous quarter", "2021-04-01", "2021-06-30"),
        # Of two that count from today the first is the one that is named.
        ("去年的法定代表人与上一年是否相同", "2020-01-01", "2020-12-31"),
        ("上一年的法定代表人与上一年是否相同", "2020-01-01", "2020-12-31"),
        ("revenue last year against the previous year", "2020-01-01", "2020-12-31"),
        # These count from today, whatever else is named.
        ("revenue in 2020 compared with last year", "2021-01-01", "2021-12-31"),
        ("2018年与前年", "2020-01-01", "2020-12-31"),
        ("2018年与去年", "2021-01-01", "2021-12-31"),
        # Nothing that is named, and a length that is none of whole years.
        ("收入与上一年相比", "2021-01-01", "2021-12-31"),
        ("Q3 2021 against the previous year", "2021-01-01", "2021-12-31"),
    ],
)
def test_the_period_before_is_that_before_the_one_that_is_named(text: str, start: str, end: str) -> None:
    assert (start, end) in [found[1:] for found in read(text)]
