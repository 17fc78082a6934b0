"""Periods in questions, in both languages."""

from __future__ import annotations

from datetime import date

import pytest

from fathom.services.datafetch.parser.periods import read
from fathom.services.datafetch.query.periods import Period

TODAY = date(2022, 9, 30)


def span(first: str, last: str) -> Period:
    return Period(date.fromisoformat(first) if first else None, date.fromisoformat(last) if last else None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from 2015 to 2020", span("2015-01-01", "2020-12-31")),
        ("between 2015 and 2020", span("2015-01-01", "2020-12-31")),
        ("2015-2020", span("2015-01-01", "2020-12-31")),
        ("2015 – 2020", span("2015-01-01", "2020-12-31")),
        ("2015年到2020年的股价", span("2015-01-01", "2020-12-31")),
        ("2015至2020年", span("2015-01-01", "2020-12-31")),
        ("in 2008", span("2008-01-01", "2008-12-31")),
        ("2008年", span("2008-01-01", "2008-12-31")),
        ("since 2018", span("2018-01-01", "")),
        ("自2018年以来", span("2018-01-01", "")),
        ("before 2018", span("", "2017-12-31")),
        ("2018年以前", span("", "2017-12-31")),
        ("past three years", span("2019-09-30", "2022-09-30")),
        ("over the last 5 years", span("2017-09-30", "2022-09-30")),
        ("the past year", span("2021-09-30", "2022-09-30")),
        ("past six months", span("2022-03-30", "2022-09-30")),
        ("last 2 quarters", span("2022-03-30", "2022-09-30")),
        ("last 10 days", span("2022-09-20", "2022-09-30")),
        ("过去三年", span("2019-09-30", "2022-09-30")),
        ("最近两个月", span("2022-07-30", "2022-09-30")),
        ("近半年", span("2022-03-30", "2022-09-30")),
        ("Q3 2021", span("2021-07-01", "2021-09-30")),
        ("2021Q3", span("2021-07-01", "2021-09-30")),
        ("2021年第三季度", span("2021-07-01", "2021-09-30")),
        ("2020-03-16", span("2020-03-16", "2020-03-16")),
        ("2020/3/16", span("2020-03-16", "2020-03-16")),
        ("20200316", span("2020-03-16", "2020-03-16")),
        ("2020年3月16日", span("2020-03-16", "2020-03-16")),
        ("from 2020-01-15 to 2020-02-15", span("2020-01-15", "2020-02-15")),
        ("2020-02", span("2020-02-01", "2020-02-29")),
        ("2020年2月", span("2020-02-01", "2020-02-29")),
        ("2020-13-45", Period()),
        ("S&P 500", Period()),
        ("no period", Period()),
    ],
)
def test_periods(text: str, expected: Period) -> None:
    assert read(text, TODAY).whole == expected


def test_in_an_annual_report_is_not_the_middle_of_its_year() -> None:
    (found,) = read("2019年年报中提及的流动比率", date(2022, 1, 1)).periods
    assert (found.start, found.end) == (date(2019, 1, 1), date(2019, 12, 31))


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("the highest on record", [("on record", "../..", "part")]),
        ("有数据以来", [("有数据以来", "../..", "part")]),
        (
            "the highest of 2019 on record",
            [("2019", "2019-01-01/2019-12-31", "exact"), ("on record", "2019-01-01/2019-12-31", "part")],
        ),
        ("on 30 February 2016", [("30 February 2016", "", "part")]),
    ],
)
def test_a_period_of_all_days_is_told_from_one_that_has_none(text: str, mentions: list[tuple[str, str, str]]) -> None:
    found = read(text, TODAY).list_mentions()
    assert [(text[slice(*one.span)].strip(), one.value, one.how) for one in found] == mentions
