"""Notations of dates, words for decades and centuries, what is counted from today, and episodes."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.domain.periods.episodes import load_episodes
from fathom.domain.periods.grammar import read_periods
from fathom.domain.periods.period import Kind, find_month_end
from fathom.domain.text.months import MONTH_NAMES

# A Friday.
TODAY = date(2022, 9, 30)


def read(text: str) -> list[tuple[str, str]]:
    """Return the first and last day of each period, "" where it is open or has no days."""
    return [(str(one.start or ""), str(one.end or "")) for one in read_periods(text, TODAY).periods]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("CPI 12/2008", "2008-12-01", "2008-12-31"),
        ("VIX on 12/24/18", "2018-12-24", "2018-12-24"),
        ("23 sep 22", "2022-09-23", "2022-09-23"),
        ("Jan 07", "2007-01-01", "2007-01-31"),
        ("Mar '09", "2009-03-01", "2009-03-31"),
        ("Sep-22", "2022-09-01", "2022-09-30"),
        ("September-2022", "2022-09-01", "2022-09-30"),
        ("Q3-2022", "2022-07-01", "2022-09-30"),
        ("in '08", "2008-01-01", "2008-12-31"),
        ("GE in 08", "2008-01-01", "2008-12-31"),
        ("08年", "2008-01-01", "2008-12-31"),
        ("the spread during 08-09", "2008-01-01", "2009-12-31"),
        ("08-09年", "2008-01-01", "2009-12-31"),
        ("between 08 and 10", "2008-01-01", "2010-12-31"),
        ("Jan 07 to Mar 09", "2007-01-01", "2009-03-31"),
        ("03/2009 to 06/2010", "2009-03-01", "2010-06-30"),
        # Years that follow each other are no month, unless the text writes its months so; ISO 8601 has a hyphen.
        ("2008/09", "2008-01-01", "2009-12-31"),
        ("2019/20", "2019-01-01", "2020-12-31"),
        ("1999/00", "1999-01-01", "2000-12-31"),
        ("from 2008/01 to 2008/09", "2008-01-01", "2008-09-30"),
        ("2008-09", "2008-09-01", "2008-09-30"),
        ("Jan 07 to Jan 09, 2020", "2020-01-07", "2020-01-09"),
    ],
)
def test_a_date_in_any_notation(text: str, start: str, end: str) -> None:
    assert read(text) == [(start, end)]


@given(st.integers(1950, 2049), st.integers(1, 12))
def test_a_month_is_the_same_in_all_notations(year: int, month: int) -> None:
    name = MONTH_NAMES[month - 1]
    written = [
        f"{name} {year}",
        f"{name}-{year}",
        f"{name[:3]} {year}",
        f"{name[:3]} '{year % 100:02}",
        f"{name[:3]}-{year % 100:02}",
        f"{month:02}/{year}",
        f"{month}/{year}",
        f"{year}年{month}月",
        f"{year % 100:02}年{month}月",
        f"{year}-{month:02}",
    ]
    days = (str(date(year, month, 1)), str(find_month_end(year, month)))
    assert {form: read(form) for form in written} == {form: [days] for form in written}


@given(st.dates(date(1950, 1, 1), date(2049, 12, 31)))
def test_a_day_is_the_same_in_all_notations(day: date) -> None:
    name = MONTH_NAMES[day.month - 1]
    written = [
        f"{day.month}/{day.day}/{day.year}",
        f"{day.month:02}/{day.day:02}/{day.year % 100:02}",
        f"{day.day} {name[:3].lower()} {day.year % 100:02}",
        f"{name} {day.day}, {day.year}",
        f"{day.year}年{day.month}月{day.day}号",
        day.isoformat(),
    ]
    assert {form: read(form) for form in written} == {form: [(str(day), str(day))] for form in written}


@given(st.integers(1950, 2048), st.integers(1, 30))
def test_a_range_of_years_that_ends_before_it_begins_is_refused_in_all_wordings(year: int, years: int) -> None:
    last, first = year, min(year + years, 2049)
    written = [f"{first}年到{last}年", f"{first}年至{last}年之间", f"between {first} and {last}", f"{first} to {last}"]
    assert all([one.kind for one in read_periods(form, TODAY).periods] == [Kind.REVERSED] for form in written)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("the seventies", "1970-01-01", "1979-12-31"),
        ("nineties growth", "1990-01-01", "1999-12-31"),
        ("21st century", "2001-01-01", "2100-12-31"),
        ("21世纪以来", "2001-01-01", ""),
        ("本世纪以来", "2001-01-01", ""),
        ("since the turn of the century", "2001-01-01", ""),
        ("上世纪八十年代", "1980-01-01", "1989-12-31"),
        ("二十世纪八十年代", "1980-01-01", "1989-12-31"),
        ("上世纪20年代", "1920-01-01", "1929-12-31"),
    ],
)
def test_decades_and_centuries(text: str, start: str, end: str) -> None:
    assert read(text) == [(start, end)]


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("2016年6月23日的英镑和6月27日的英镑", ("2016-06-27", "2016-06-27")),
        ("Q1 and Q2 2020 and Q3", ("2020-07-01", "2020-09-30")),
        ("苹果2020年7月31日的价格，8月1号呢", ("2020-08-01", "2020-08-01")),
        ("unemployment in March 2020 and the rate of mid-April", ("2020-04-11", "2020-04-20")),
        ("2020年GDP的三季度", ("2020-07-01", "2020-09-30")),
    ],
)
def test_a_date_without_a_year_has_the_only_one_of_the_text(text: str, bare: tuple[str, str]) -> None:
    assert read(text)[-1] == bare


@pytest.mark.parametrize(
    "text",
    [
        # Without a year, of two years, before the year, as a verb, and inside what was read.
        "三季度",
        "mid-March",
        "Apple H1 minus Microsoft H2 2020 return",
        "returns of March 2020; losses may follow",
        "2020年2月到4月减少了多少，何时超过2月的水平",
    ],
)
def test_a_date_whose_year_is_not_sure_is_left_unread(text: str) -> None:
    words = [text[slice(*span)] for span in read_periods(text, TODAY).spans]
    assert not {"三季度", "mid-March", "H1", "may", "2月"} & set(words)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("最近这一年", "2021-09-30", "2022-09-30"),
        ("这两年的CPI", "2020-09-30", "2022-09-30"),
        ("a year ago", "2021-01-01", "2021-12-31"),
        ("3 months ago", "2022-06-01", "2022-06-30"),
        ("十年前", "2012-01-01", "2012-12-31"),
        ("last Friday", "2022-09-23", "2022-09-23"),
        ("last Monday", "2022-09-26", "2022-09-26"),
        ("上周五", "2022-09-23", "2022-09-23"),
        ("last March", "2022-03-01", "2022-03-31"),
        ("the last Friday of March 2020", "2020-03-27", "2020-03-27"),
        ("first Monday in March 2020", "2020-03-02", "2020-03-02"),
        ("since last year", "2021-01-01", ""),
    ],
)
def test_what_is_counted_from_today(text: str, start: str, end: str) -> None:
    assert read(text) == [(start, end)]


@pytest.mark.parametrize("text", ["CPI in 2015 and a year ago", "2008年和2009年这两年"])
def test_what_is_vague_is_not_counted_from_today_beside_a_named_period(text: str) -> None:
    vague = read_periods(text, TODAY).periods[-1]
    assert (vague.kind, vague.start) == (Kind.UNCLEAR, None)


@pytest.mark.parametrize(
    "text", ["the deal of the century", "a 50/30/20 portfolio", "as early as possible", "这10年期国债"]
)
def test_words_and_numbers_that_only_look_like_periods(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize("text", ["这几年", "one year earlier", "近些年"])
def test_what_has_no_number_or_no_anchor_stays_unclear(text: str) -> None:
    assert [one.kind for one in read_periods(text, TODAY).periods] == [Kind.UNCLEAR]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("the Great Recession", "2007-12-01", "2009-06-30"),
        ("the 2008 financial crisis", "2007-12-01", "2009-06-30"),
        ("次贷危机期间", "2007-12-01", "2009-06-30"),
        ("since the financial crisis", "2007-12-01", ""),
        ("before the pandemic", "", "2020-03-10"),
        ("疫情期间", "2020-03-11", "2023-05-05"),
        ("the dot-com bust", "2000-03-10", "2002-10-09"),
        ("the 2001 recession", "2001-03-01", "2001-11-30"),
    ],
)
def test_an_episode_has_the_days_of_its_source(text: str, start: str, end: str) -> None:
    (period,) = read_periods(text, TODAY).periods
    assert (str(period.start or ""), str(period.end or "")) == (start, end)
    assert period.is_approximate
    assert period.episode in load_episodes()


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("2021年疫情期间", [("2021-01-01", "2021-12-31")]),
        ("banks in the financial crisis: return of 2008", [("2008-01-01", "2008-12-31")]),
        ("before the GFC: 2006 and 2007", [("2006-01-01", "2006-12-31"), ("2007-01-01", "2007-12-31")]),
    ],
)
def test_dates_beside_an_episode_say_more_than_its_name(text: str, days: list[tuple[str, str]]) -> None:
    assert [one for one in read(text) if one != ("", "")] == days


def test_each_episode_has_a_source_and_recessions_do_not_overlap() -> None:
    episodes = load_episodes().values()
    assert all(one.source.endswith(")") and "https://" in one.source and one.start < one.end for one in episodes)
    recessions = sorted((one.start, one.end) for one in episodes if one.is_recession)
    assert all(before[1] < after[0] for before, after in pairwise(recessions))
