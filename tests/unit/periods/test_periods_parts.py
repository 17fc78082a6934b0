"""Parts of periods, and lengths of time with one end: never read as the whole year, or as the end alone."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.domain.periods.grammar import read_periods
from fathom.domain.periods.period import Date, Kind, Period, Unit, settle

TODAY = date(2022, 9, 30)


def read_one(text: str) -> Period:
    (period,) = read_periods(text, TODAY).periods
    return period


def days_of(text: str) -> tuple[str, str]:
    """Return the first and last day of the only period of a text, "" where it is open."""
    period = read_one(text)
    return str(period.start or ""), str(period.end or "")


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        # The first and the last quarter of a year, ten days of a month, four and three years of a decade.
        ("GDP in early 2009", "2009-01-01", "2009-03-31"),
        ("GDP in the late part of 2009", "2009-10-01", "2009-12-31"),
        ("2009年早期的GDP", "2009-01-01", "2009-03-31"),
        ("2020年后期", "2020-10-01", "2020-12-31"),
        ("early March 2020", "2020-03-01", "2020-03-10"),
        ("mid-March 2020", "2020-03-11", "2020-03-20"),
        ("late February 2020", "2020-02-21", "2020-02-29"),
        ("late Q1 2020", "2020-03-01", "2020-03-31"),
        ("the early seventies", "1970-01-01", "1973-12-31"),
        ("mid-1980s", "1984-01-01", "1986-12-31"),
        ("late 1990s", "1997-01-01", "1999-12-31"),
        ("90年代初", "1990-01-01", "1993-12-31"),
        ("上世纪90年代末", "1997-01-01", "1999-12-31"),
        ("early last year", "2021-01-01", "2021-03-31"),
        ("since early 2009", "2009-01-01", ""),
        ("between late 2007 and early 2009", "2007-10-01", "2009-03-31"),
        ("early to mid 2009", "2009-01-01", "2009-06-30"),
        ("between early and late 2009", "2009-01-01", "2009-12-31"),
        ("from mid-March 2020 to May", "2020-03-11", "2020-05-31"),
    ],
)
def test_a_vague_part_has_stated_days_and_says_that_they_are_approximate(text: str, start: str, end: str) -> None:
    assert days_of(text) == (start, end)
    assert read_one(text).is_approximate


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("Oil in the back half of 2014", "2014-07-01", "2014-12-31"),
        ("latter half of 2009", "2009-07-01", "2009-12-31"),
        ("2020年上半的GDP", "2020-01-01", "2020-06-30"),
        ("second half of the 1990s", "1995-01-01", "1999-12-31"),
        ("second half of March 2020", "2020-03-16", "2020-03-31"),
        ("2020年3月上旬", "2020-03-01", "2020-03-10"),
        ("the fifth month of 2008", "2008-05-01", "2008-05-31"),
        ("年初以来的涨幅", "2022-01-01", "2022-09-30"),
        ("今年三季度", "2022-07-01", "2022-09-30"),
        ("今年前三季度", "2022-01-01", "2022-09-30"),
        ("去年前三个月", "2021-01-01", "2021-03-31"),
        ("今年年初以来", "2022-01-01", ""),
        ("last year's Q3", "2021-07-01", "2021-09-30"),
        ("21世纪第一个十年", "2001-01-01", "2010-12-31"),
        ("2008年第3个月", "2008-03-01", "2008-03-31"),
        ("March of last year", "2021-03-01", "2021-03-31"),
    ],
)
def test_an_exact_part_is_that_part(text: str, start: str, end: str) -> None:
    assert days_of(text) == (start, end)
    assert not read_one(text).is_approximate


@pytest.mark.parametrize(
    ("text", "day"),
    [("2009年年中", "2009-06-30"), ("去年年底", "2021-12-31"), ("今年初", "2022-01-01"), ("上月底", "2022-08-31")],
)
def test_an_end_of_a_year_said_in_words_is_a_point(text: str, day: str) -> None:
    assert (read_one(text).kind, *days_of(text)) == (Kind.POINT, day, day)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("spring 2009", "2009-03-01", "2009-05-31"),
        ("the summer of 2008", "2008-06-01", "2008-08-31"),
        ("fall of 2008", "2008-09-01", "2008-11-30"),
        ("winter 2008", "2008-12-01", "2009-02-28"),
        ("winter of 2007/08", "2007-12-01", "2008-02-29"),
        ("winter 2021-22", "2021-12-01", "2022-02-28"),
        ("gas at the pump summer 08 peak", "2008-06-01", "2008-08-31"),
        ("2008年夏天", "2008-06-01", "2008-08-31"),
        ("2008年秋的油价", "2008-09-01", "2008-11-30"),
        ("2009年春季到2010年秋季", "2009-03-01", "2010-11-30"),
        ("last summer", "2022-06-01", "2022-08-31"),
    ],
)
def test_seasons_are_three_whole_months_and_winter_ends_in_the_next_year(text: str, start: str, end: str) -> None:
    assert days_of(text) == (start, end)
    assert read_one(text).is_approximate


@pytest.mark.parametrize("text", ["微软2021年的夏普比率", "2021年春节", "How far did oil fall in 2021?"])
def test_a_word_that_begins_like_a_season_is_none(text: str) -> None:
    assert days_of(text) == ("2021-01-01", "2021-12-31")


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("the twelve months to June 2022", "2021-07-01", "2022-06-30"),
        ("截至2022年6月的12个月", "2021-07-01", "2022-06-30"),
        ("the decade to 2019", "2010-01-01", "2019-12-31"),
        ("the year to March 2021", "2020-04-01", "2021-03-31"),
        ("the year ended March 31, 2021", "2020-04-01", "2021-03-31"),
        ("the five years ending 2015", "2011-01-01", "2015-12-31"),
        ("the quarter ended June 2021", "2021-04-01", "2021-06-30"),
        ("over the three years up to 2019", "2017-01-01", "2019-12-31"),
        ("the six months to end of June 2022", "2022-01-01", "2022-06-30"),
        ("the five years to the start of 2015", "2010-01-01", "2014-12-31"),
        ("the five years before 2008", "2003-01-01", "2007-12-31"),
        ("the five years from 2010", "2010-01-01", "2014-12-31"),
        ("2010年以后的五年", "2011-01-01", "2015-12-31"),
    ],
)
def test_a_length_with_one_end_is_the_whole_length(text: str, start: str, end: str) -> None:
    assert days_of(text) == (start, end)


@pytest.mark.parametrize(
    "text",
    ["thirteenth month of 2008", "the fifth quarter of 2008", "the 400th day of 2008", "13/2008", "00/2008", "2022/15"],
)
def test_a_part_that_the_whole_does_not_have_is_impossible(text: str) -> None:
    assert read_one(text).kind is Kind.IMPOSSIBLE


@given(st.sampled_from([(Unit.MONTH, 1), (Unit.QUARTER, 1), (Unit.HALF, 1), (Unit.YEAR, 10)]), st.integers(1901, 2098))
def test_the_vague_parts_of_a_period_fill_it_without_a_gap(length: tuple[Unit, int], year: int) -> None:
    unit, years = length
    edges = ("", "early", "mid", "late")
    parts = [settle(Date(unit, year, int(years == 1), years=years, edge=edge)) for edge in edges]
    (whole_start, whole_end), *days = [(one.start, one.end) for one in parts if one and one.start and one.end]
    assert (days[0][0], days[-1][1]) == (whole_start, whole_end)
    assert [end + timedelta(days=1) for _, end in days[:-1]] == [start for start, _ in days[1:]]
