"""The period grammar: every spelling of the issue, what a statement covers, fiscal years, what cannot be."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.services.datafetch.catalog.schema import CalendarSpec
from fathom.services.datafetch.parser.periods import find_transform, read
from fathom.services.datafetch.query.model import Frequency, Transform
from fathom.services.datafetch.query.periods import Period, in_fiscal, label, split

TODAY = date(2022, 9, 30)


def span(first: str, last: str) -> Period:
    return Period(date.fromisoformat(first) if first else None, date.fromisoformat(last) if last else None)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2025/7/27", "2025-07-27", "2025-07-27"),
        ("20250727", "2025-07-27", "2025-07-27"),
        ("20250207", "2025-02-07", "2025-02-07"),
        ("2025-02-07", "2025-02-07", "2025-02-07"),
        ("2025-7-27", "2025-07-27", "2025-07-27"),
        ("2025.7.27", "2025-07-27", "2025-07-27"),
        ("2025年7月27日", "2025-07-27", "2025-07-27"),
        ("２０２５年７月２７日", "2025-07-27", "2025-07-27"),
        ("二〇二五年七月二十七日", "2025-07-27", "2025-07-27"),
        ("July 27, 2025", "2025-07-27", "2025-07-27"),
        ("27 July 2025", "2025-07-27", "2025-07-27"),
        ("27th of July 2025", "2025-07-27", "2025-07-27"),
        ("Sep 27 to Oct 1, 2004", "2004-09-27", "2004-10-01"),
        ("2023Q3", "2023-07-01", "2023-09-30"),
        ("23Q3", "2023-07-01", "2023-09-30"),
        ("Q3 2023", "2023-07-01", "2023-09-30"),
        ("3Q23", "2023-07-01", "2023-09-30"),
        ("2023年三季度", "2023-07-01", "2023-09-30"),
        ("third quarter of 2023", "2023-07-01", "2023-09-30"),
        ("2021Q1到2022Q4", "2021-01-01", "2022-12-31"),
        ("2025年三季报", "2025-01-01", "2025-09-30"),
        ("2025年前三季度", "2025-01-01", "2025-09-30"),
        ("2025年上半年", "2025-01-01", "2025-06-30"),
        ("2025年中报", "2025-01-01", "2025-06-30"),
        ("2025年下半年", "2025-07-01", "2025-12-31"),
        ("first half of 2020", "2020-01-01", "2020-06-30"),
        ("H2 2008", "2008-07-01", "2008-12-31"),
        ("2025年年报", "2025-01-01", "2025-12-31"),
        ("21年", "2021-01-01", "2021-12-31"),
        ("二〇二〇年", "2020-01-01", "2020-12-31"),
        ("2020年度", "2020-01-01", "2020-12-31"),
        ("FY2024", "2024-01-01", "2024-12-31"),
        ("2024财年", "2024-01-01", "2024-12-31"),
        ("fiscal year 2024", "2024-01-01", "2024-12-31"),
        ("Q2 FY24", "2024-04-01", "2024-06-30"),
        ("近三年", "2019-09-30", "2022-09-30"),
        ("past three years", "2019-09-30", "2022-09-30"),
        ("过去12个月", "2021-09-30", "2022-09-30"),
        ("trailing twelve months", "2021-09-30", "2022-09-30"),
        ("去年", "2021-01-01", "2021-12-31"),
        ("上年", "2021-01-01", "2021-12-31"),
        ("前年", "2020-01-01", "2020-12-31"),
        ("last year", "2021-01-01", "2021-12-31"),
        ("this year", "2022-01-01", "2022-12-31"),
        ("年初至今", "2022-01-01", "2022-09-30"),
        ("YTD", "2022-01-01", "2022-09-30"),
        ("上季度", "2022-04-01", "2022-06-30"),
        ("上个月", "2022-08-01", "2022-08-31"),
        ("昨天", "2022-09-29", "2022-09-29"),
        ("2020年1月至3月", "2020-01-01", "2020-03-31"),
        ("Feb 2020", "2020-02-01", "2020-02-29"),
        ("February and March 2022", "2022-02-01", "2022-03-31"),
        ("202002", "2020-02-01", "2020-02-29"),
        ("the 1980s", "1980-01-01", "1989-12-31"),
        ("80年代", "1980-01-01", "1989-12-31"),
        ("2019-2021年", "2019-01-01", "2021-12-31"),
        ("2019、2020和2021年", "2019-01-01", "2021-12-31"),
        ("since March 2018", "2018-03-01", ""),
        ("截至2022年8月31日的过去12个月", "2021-09-01", "2022-08-31"),
        ("Year-to-date through June 2022", "2022-01-01", "2022-06-30"),
        ("2020年3月23日以来", "2020-03-23", ""),
        ("since 2020-03-23", "2020-03-23", ""),
        ("the week of 2020-03-18", "2020-03-16", "2020-03-22"),
        ("first ten days of February 2018", "2018-02-01", "2018-02-10"),
        ("2020年3月上旬", "2020-03-01", "2020-03-10"),
        ("2020年3月最后一周", "2020-03-25", "2020-03-31"),
        ("23 and 24 June 2016", "2016-06-23", "2016-06-24"),
        ("2016年6月23日和24日", "2016-06-23", "2016-06-24"),
        ("2022 up to 30 September", "2022-01-01", "2022-09-30"),
        ("end of 2015 to end of 2018", "2015-12-31", "2018-12-31"),
        ("mid-2022", "2022-06-01", "2022-06-30"),
        ("April 2020 versus February 2020", "2020-02-01", "2020-04-30"),
        ("last week of March 2020, from 2020-03-23 to 2020-03-27", "2020-03-23", "2020-03-27"),
        ("10年期国债", "", ""),
        ("600519", "", ""),
        ("2020年十十月", "2020-01-01", "2020-12-31"),  # no numeral
    ],
)
def test_spellings(text: str, first: str, last: str) -> None:
    assert read(text, TODAY).whole == span(first, last)


@pytest.mark.parametrize("text", ["2020-13-45", "2021年2月30日", "2023Q5", "20231332", "2021年13月"])
def test_what_cannot_be_is_said_and_not_guessed(text: str) -> None:
    reading = read(text, TODAY)
    assert reading.impossible
    assert reading.whole == Period()


@pytest.mark.parametrize(
    ("text", "transform"),
    [("营收同比", Transform.YOY), ("GDP YoY", Transform.YOY), ("环比增速", Transform.QOQ), ("CPI m/m", Transform.MOM),
     ("TTM净利润", Transform.TTM), ("单季度利润", Transform.SINGLE), ("净利润", Transform.NONE)],
)  # fmt: skip
def test_what_is_asked_over_time(text: str, transform: Transform) -> None:
    assert find_transform(text)[0] == transform


def test_fiscal_years_follow_the_calendar_of_their_entity() -> None:
    year = read("FY2024", TODAY).whole
    september = CalendarSpec(id="a", name="a", fiscal_year_end=9)
    january = CalendarSpec(id="b", name="b", fiscal_year_end=1)
    started = CalendarSpec(id="c", name="c", fiscal_year_end=1, named_by="start")
    assert in_fiscal(year, september) == span("2023-10-01", "2024-09-30")
    assert in_fiscal(year, january) == span("2023-02-01", "2024-01-31")
    assert in_fiscal(year, started) == span("2024-02-01", "2025-01-31")
    assert in_fiscal(read("2024年", TODAY).whole, september) == span("2024-01-01", "2024-12-31")


@pytest.mark.parametrize(
    ("text", "grain", "labels"),
    [
        ("2020-2023", Frequency.ANNUAL, ["2020", "2021", "2022", "2023"]),
        ("2021Q3到2022Q2", Frequency.QUARTERLY, ["2021Q3", "2021Q4", "2022Q1", "2022Q2"]),
        ("2020年11月至2021年1月", Frequency.MONTHLY, ["2020-11", "2020-12", "2021-01"]),
        ("2020-03-16", Frequency.DAILY, ["2020-03-16"]),
        ("from 2018 to 2020", Frequency.ANNUAL, ["2018", "2019", "2020"]),
        ("between 2019 and 2021", Frequency.ANNUAL, ["2019", "2020", "2021"]),
        ("2019年至2021年", Frequency.ANNUAL, ["2019", "2020", "2021"]),
        ("2019、2020和2021年", Frequency.ANNUAL, ["2019", "2020", "2021"]),
        ("19-21年", Frequency.ANNUAL, ["2019", "2020", "2021"]),
        ("二〇一九年到二〇二〇年", Frequency.ANNUAL, ["2019", "2020"]),
        ("2015年初到2017年底", Frequency.ANNUAL, ["2015", "2016", "2017"]),
        ("2021", Frequency.ANNUAL, ["2021"]),
        ("2021年", Frequency.QUARTERLY, ["2021Q1", "2021Q2", "2021Q3", "2021Q4"]),
        ("2021年上半年", Frequency.QUARTERLY, ["2021Q1", "2021Q2"]),
        ("H2 2021", Frequency.QUARTERLY, ["2021Q3", "2021Q4"]),
        ("2021年前三季度", Frequency.QUARTERLY, ["2021Q1", "2021Q2", "2021Q3"]),
        ("Q4 2020 to Q2 2021", Frequency.QUARTERLY, ["2020Q4", "2021Q1", "2021Q2"]),
        ("2020年第四季度至2021年第一季度", Frequency.QUARTERLY, ["2020Q4", "2021Q1"]),
        ("third quarter of 2021", Frequency.QUARTERLY, ["2021Q3"]),
        ("2021Q3", Frequency.MONTHLY, ["2021-07", "2021-08", "2021-09"]),
        ("January to March 2022", Frequency.MONTHLY, ["2022-01", "2022-02", "2022-03"]),
        ("2022年1月到3月", Frequency.MONTHLY, ["2022-01", "2022-02", "2022-03"]),
        ("2022年截至3月末", Frequency.MONTHLY, ["2022-01", "2022-02", "2022-03"]),
        ("2022 up to the end of February", Frequency.MONTHLY, ["2022-01", "2022-02"]),
        ("last year", Frequency.ANNUAL, ["2021"]),
        ("去年", Frequency.QUARTERLY, ["2021Q1", "2021Q2", "2021Q3", "2021Q4"]),
        ("前年", Frequency.ANNUAL, ["2020"]),
        ("last quarter", Frequency.QUARTERLY, ["2022Q2"]),
        ("上个季度", Frequency.MONTHLY, ["2022-04", "2022-05", "2022-06"]),
        ("本月以来", Frequency.MONTHLY, ["2022-09"]),
        ("年初至今", Frequency.QUARTERLY, ["2022Q1", "2022Q2", "2022Q3"]),
    ],
)
def test_ranges_split_per_period(text: str, grain: Frequency, labels: list[str]) -> None:
    assert [label(part) for part in split(read(text, TODAY).whole, grain)] == labels


@given(st.dates(date(1950, 1, 1), date(2049, 12, 31)))
def test_every_day_reads_the_same_in_six_spellings(day: date) -> None:
    spellings = [day.isoformat(), f"{day:%Y%m%d}", f"{day.year}/{day.month}/{day.day}", f"{day.year}年{day.month}月{day.day}日",
                 f"{day:%B} {day.day}, {day.year}", f"{day.day} {day:%b} {day.year}"]  # fmt: skip
    for text in spellings:
        assert read(f"close on {text}", TODAY).whole == Period(day, day), text


@given(st.dates(date(1950, 1, 1), date(2040, 12, 31)), st.integers(0, 4000))
def test_the_parts_of_a_range_are_its_whole_without_gaps(first: date, days: int) -> None:
    whole = Period(first, first + timedelta(days=days))
    for grain in (Frequency.MONTHLY, Frequency.QUARTERLY, Frequency.ANNUAL):
        parts = split(whole, grain)
        begin, end = parts[0].start, parts[-1].end
        assert begin is not None
        assert end is not None
        assert begin <= first
        assert end >= first + timedelta(days=days)
        for one, other in pairwise(parts):
            assert one.end is not None
            assert other.start == one.end + timedelta(days=1)
