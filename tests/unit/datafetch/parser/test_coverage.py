"""Words of a question that its query does not stand for are named above the figures, never dropped."""

from __future__ import annotations

import pytest

from fathom.services.datafetch.engine import Engine

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("median Apple close in 2020", "median"),
        ("Sharpe ratio of Apple in 2020", "Sharpe"),
        ("50-day moving average of Apple in 2020", "moving average"),
        ("90th percentile of the VIX in 2016", "percentile"),
        ("second-highest VIX close in 2016", "second"),
        ("the second highest VIX close in 2016", "second"),
        ("Apple's opening price on 2020-03-16", "opening"),
        ("Apple's unadjusted close on 2020-03-16", "unadjusted"),
        ("Who was CEO of Apple in 2020", "CEO"),
        ("rank of Apple's close in 2020", "rank"),
        ("what percent of GDP is federal debt in 2020", "percent of"),
        ("S&P 500 close 3 months before March 2020", "3 months before"),
        ("2020年末苹果的市值", "市值"),
        ("苹果2020年股价的中位数", "中位数"),
        ("苹果2020年第二高的收盘价", "第二"),
        ("苹果2020年税前盈利", "税前盈利"),
        ("苹果2020年预计净利润", "预计"),
        ("苹果2020年母公司净利润", "母"),
        ("中国2019年GDP和苹果股价", "国"),
        ("波音……不，通用电气2020年股价的波动率（年化）", "波音"),
        ("Compare the gold price with the US in 2019", "United States"),
        ("2019年黄金和美国", "United States"),
        ("US and Canadian dollar per euro in 2016", "United States"),
    ],
)
async def test_what_is_not_read_is_named(engine: Engine, question: str, words: str) -> None:
    result = await engine.ask(question, None)
    assert any(words in item.subject for item in result.missing), result.missing


@pytest.mark.parametrize(
    "question",
    [
        "How volatile was WTI crude in 2016 (annualised, daily returns)?",
        "What was Chevron's deepest drawdown in 2020?",
        "How fast did the core PCE price index rise year on year in February 2022?",
        "unadjusted CPI in March 2020",
        "微软2021年11月19日收在哪个价位",
        "Share price of Apple in the United States in 2019",
    ],
)
async def test_what_is_read_or_only_phrases_is_not_warned_of(engine: Engine, question: str) -> None:
    result = await engine.ask(question, None)
    assert result.sheets
    assert [item for item in result.missing if item.reason == "NOT_UNDERSTOOD"] == []


@pytest.mark.parametrize(
    "question",
    [
        "90th percentile of the VIX in 2016",
        "second-highest VIX close in 2016",
        "the second highest VIX close in 2016",
        "苹果2020年3月16日的开盘价",
        "2020年末苹果的市值",
        "苹果2020年第二高的收盘价",
        "苹果2020年税前盈利",
        "苹果2020年预计净利润",
        "苹果2020年母公司净利润",
    ],
)
async def test_a_word_that_makes_it_another_figure_leaves_none(engine: Engine, question: str) -> None:
    result = await engine.ask(question, None)
    assert result.sheets == ()
    assert result.missing


@pytest.mark.parametrize(
    "question", ["median Apple close in 2020", "苹果2020年股价的中位数", "Sharpe ratio of Apple in 2020"]
)
async def test_beside_a_measure_that_is_not_computed_stands_the_whole_series(engine: Engine, question: str) -> None:
    """Its reader computes the measure from it; a single figure would be taken for the measure."""
    [sheet] = (await engine.ask(question, None)).sheets
    assert sheet.rows == 253
    assert [column.name for column in sheet.columns] == ["date", "AAPL.close_adj"]
