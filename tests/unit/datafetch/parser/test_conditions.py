"""Conditions on values and statistics of groups, as they are read in questions of both languages."""

from __future__ import annotations

import pytest

from fathom.services.datafetch.parser.operators import (
    Conditions,
    Grouping,
    find_conditions,
    find_group_length,
    find_grouping,
)
from fathom.services.datafetch.query.model import Frequency, Statistic


def read(text: str) -> Conditions:
    """Return what the mentions of a text's filters mean."""
    meaning = find_conditions(text)[0].meaning
    assert isinstance(meaning, Conditions)
    return meaning


@pytest.mark.parametrize(
    ("text", "operator", "value", "pick"),
    [
        ("失业率高于10%的月份有哪些", ">", 10.0, "rows"),
        ("months in which unemployment exceeded 8% between 2008 and 2014", ">", 8.0, "rows"),
        ("标普500在2020年有多少天收在3000点以下", "<=", 3000.0, "count"),
        ("how many days did the VIX close above 40 in 2020", ">", 40.0, "count"),
        ("when did the 10-year Treasury yield first fall below 1%?", "<", 1.0, "first"),
        ("when was the fed funds rate last above 5%", ">", 5.0, "last"),
        ("2019年涨幅超过50%的股票有哪些", ">", 50.0, "who"),
        ("which stocks returned more than 40% in 2019?", ">", 40.0, "who"),
        ("失业率不低于9.5%的月份", ">=", 9.5, "rows"),
        ("how many months was the yield curve inverted in 2019", "<", 0.0, "count"),
        ("how many up days did the S&P 500 have in 2021", ">", 0.0, "count"),
    ],
)
def test_a_condition_is_read(text: str, operator: str, value: float, pick: str) -> None:
    found = read(text)
    assert [(bound.operator, bound.value) for bound in found.bounds] == [(operator, value)]
    assert found.pick == pick


@pytest.mark.parametrize(
    "text",
    [
        "苹果2020年的股价",
        "S&P 500 return over 10 years",
        "unemployment over 2019 and 2020",
        "近5年以上的数据",
        "保留两位小数",
        "2020年二季度英伟达股价上涨百分之多少",
        "Apple over the past 3 years",
    ],
)
def test_no_condition_is_read_where_none_is(text: str) -> None:
    assert find_conditions(text) == []


def test_both_ends_of_a_band_and_scales() -> None:
    band = read("2-year Treasury yield between 1% and 2% in which months of 2018-2022")
    assert [(bound.operator, bound.value) for bound in band.bounds] == [(">=", 1.0), ("<=", 2.0)]
    money = read("M2超过20万亿的月份")
    assert money.bounds[0].value == 2e13
    assert read("how many days did the S&P 500 fall more than 3% in 2020").bounds[0].moved == -1


@pytest.mark.parametrize(
    ("text", "every", "inner", "outer", "count"),
    [
        ("worst day for the S&P 500 in 2020", Frequency.DAILY, Statistic.RETURN, Statistic.MIN, 1),
        ("标普500 2020年单日最大跌幅是哪天", Frequency.DAILY, Statistic.RETURN, Statistic.MIN, 1),
        ("best month for Nvidia in 2020", Frequency.MONTHLY, Statistic.RETURN, Statistic.MAX, 1),
        ("average monthly return of Microsoft", Frequency.MONTHLY, Statistic.RETURN, Statistic.MEAN, 1),
        ("平均每月新增非农2019年", Frequency.MONTHLY, Statistic.CHANGE, Statistic.MEAN, 1),
        ("Nvidia's five best days in 2022", Frequency.DAILY, Statistic.RETURN, Statistic.MAX, 5),
        ("标普500哪一年跌幅最大 2000-2022", Frequency.ANNUAL, Statistic.RETURN, Statistic.MIN, 1),
    ],
)
def test_a_nested_statistic_is_read(
    text: str, every: Frequency, inner: Statistic, outer: Statistic, count: int
) -> None:
    found = find_grouping(text)[0].meaning
    assert isinstance(found, Grouping)
    assert (found.every, found.statistics, found.outer, found.count) == (every, (inner,), outer, count)


@pytest.mark.parametrize(
    ("text", "statistics", "native", "expected"),
    [
        ("quarterly returns in 2020", (Statistic.RETURN,), Frequency.DAILY, Frequency.QUARTERLY),
        ("每年均值", (Statistic.MEAN,), Frequency.MONTHLY, Frequency.ANNUAL),
        ("monthly average", (Statistic.MEAN,), Frequency.MONTHLY, Frequency.NATIVE),
        ("每月新增", (Statistic.CHANGE,), Frequency.MONTHLY, Frequency.MONTHLY),
        ("截至9月末的跌幅", (Statistic.RETURN,), Frequency.DAILY, Frequency.NATIVE),
    ],
)
def test_of_what_each_a_statistic_is_told(
    text: str, statistics: tuple[Statistic, ...], native: Frequency, expected: Frequency
) -> None:
    assert find_group_length(text, statistics, native) == expected
