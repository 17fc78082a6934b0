"""Figures answer what was asked, or the words that they leave out are named; other figures are never passed off as it."""

from __future__ import annotations

from datetime import date

import pytest

from fathom.services.datafetch.engine import Engine

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("50-day moving average of Apple in 2020", "50-day moving average"),
        ("60-day volatility of Apple in 2020", "60-day"),
        ("3-month return of gold in 2019", "3-month"),
        # A year has four of something, and it is no month.
        ("four-month return of gold in 2019", "4-month"),
        ("苹果20日均线 2021年", "20日均线"),
        ("黄金2019年的3个月收益率", "3个月"),
        ("5年收益率 苹果 2020年", "5年"),
        ("When unemployment was above 10 %, how high was gold?", "above 10 %"),
        ("失业率高于10%的时候，黄金价格是多少？", "高于10%"),
        ("second highest close of the VIX in 2016", "second"),
        ("S&P 500 close 3 months before March 2020", "3 months before"),
        ("Apple H1 minus Microsoft H2 2020 return", "H1"),
        ("Apple in 2019 with Microsoft in 2020: return", "2020"),
        ("from the peak in 2000 to the trough in 2002 how far did the NASDAQ fall", "peak"),
        ("return of a portfolio of 60% Apple and 40% gold from 2015 to 2020", "portfolio"),
        ("Was inflation above the fed funds rate in 1975", "above"),
        ("returns of GE by century", "century"),
        ("苹果2020年第二高的收盘价", "第二高"),
        ("2020年四季度个人消费支出同比，用核心PCE物价指数12月的数", "12月"),
    ],
)
async def test_a_question_that_would_be_another_one_without_a_word_gets_no_figures(
    engine: Engine, question: str, words: str
) -> None:
    result = await engine.ask(question, None)
    assert result.sheets == ()
    assert any(words in item.subject and item.reason == "NOT_UNDERSTOOD" for item in result.missing), result.missing


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("correlation of gold and oil from 2015 to 2020", "correlation"),
        ("Tesla peer NVIDIA close in 2021", "Tesla"),
        ("underwhelming unemployment in 2018", "underwhelming"),
        ("closing price of Apple and the US in 2019", "United States"),
        ("Apple, Microsoft and the US: closing price in 2019", "United States"),
        ("苹果和美国2019年的收盘价", "United States"),
    ],
)
async def test_a_word_that_only_adds_is_named_beside_the_figures(engine: Engine, question: str, words: str) -> None:
    missing = (await engine.ask(question, None)).missing
    assert any(words in item.subject for item in missing), missing


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("return of Apple over the past decade", date(2012, 12, 28), date(2022, 12, 28)),
        ("S&P 500 return in the first nine months of 2022", date(2022, 1, 1), date(2022, 9, 30)),
        ("S&P 500 return in the first three quarters of 2020", date(2020, 1, 1), date(2020, 9, 30)),
        ("2022年前九个月标普500的涨幅", date(2022, 1, 1), date(2022, 9, 30)),
        ("5-year return of Apple to 2020", date(2016, 1, 1), date(2020, 12, 31)),
        ("return of gold in the 3 months to March 2019", date(2019, 1, 1), date(2019, 3, 31)),
    ],
)
async def test_parts_of_a_year_and_decades_are_periods(engine: Engine, question: str, first: date, last: date) -> None:
    query = (await engine.read(question, date(2022, 12, 28))).query
    assert (query.start, query.end) == (first, last)


@pytest.mark.parametrize("frequency", ["daily", "weekly", "monthly", "quarterly", "annual"])
async def test_figures_have_the_frequency_that_is_asked_or_there_are_none(engine: Engine, frequency: str) -> None:
    seen = await engine.read(f"{frequency} unemployment rate from 2018 to 2020", None)
    assert seen.query.frequency == frequency or frequency == "monthly" or not seen.query.indicators


async def test_a_series_that_begins_after_the_period_says_so(engine: Engine) -> None:
    result = await engine.ask("VIX close since 1990", None)
    assert result.sheets
    assert any("begins on" in item.detail for item in result.missing)


@pytest.mark.parametrize(
    "question",
    [
        "Rank gold, oil and the S&P 500 by return from 2009 to 2018",
        "What was the highest close of Best Buy in 2021, rounded to two decimals?",
        "请问微软2021年的最大回撤是多少？保留两位小数",
    ],
)
async def test_words_of_asking_and_showing_are_no_obstacle(engine: Engine, question: str) -> None:
    result = await engine.ask(question, None)
    assert result.sheets
    assert result.missing == ()
