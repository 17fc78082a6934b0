"""Conditions on values, as they are found in questions of both languages; no query is made of them."""

from __future__ import annotations

import pytest

from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.parser.operators import find_conditions

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("text", "words", "operator"),
    [
        ("失业率高于10%的月份有哪些", "高于10%", ">"),
        ("months in which unemployment exceeded 8% between 2008 and 2014", "exceeded 8%", ">"),
        ("标普500在2020年有多少天收在3000点以下", "3000点以下", "<="),
        ("how many days did the VIX close above 40 in 2020", "above 40", ">"),
        ("when did the 10-year Treasury yield first fall below 1%?", "below 1%", "<"),
        ("which stocks returned more than 40% in 2019?", "more than 40%", ">"),
        ("失业率不低于9.5%的月份", "不低于9.5%", ">="),
        ("2-year Treasury yield between 1% and 2% in which months of 2018-2022", "between 1% and 2%", "between"),
        ("months since 2000 when unemployment was never above 4%", "never above 4%", ">"),
        ("how many days did Apple not close above 100 dollars", "not close above 100 dollars", "<="),
        ("美国CPI同比没有超过1.5%的月份有几个", "没有超过1.5%", "<="),
    ],
)
async def test_a_condition_is_found_with_its_denial(text: str, words: str, operator: str) -> None:
    (found,) = find_conditions(text)
    assert (text[slice(*found.span)].strip(), found.value) == (words, operator)


@pytest.mark.parametrize(
    "text",
    [
        "苹果2020年的股价",
        "S&P 500 return over 10 years",
        "unemployment over 2019 and 2020",
        "unemployment between 2019 and 2021",
        "近5年以上的数据",
        "保留两位小数",
        "2020年二季度英伟达股价上涨百分之多少",
        "Apple over the past 3 years",
    ],
)
async def test_no_condition_is_found_where_none_is(text: str) -> None:
    assert find_conditions(text) == []


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("how many days did the VIX close above 40 in 2020", "above 40"),
        ("失业率高于10%的月份有哪些", "高于10%"),
        ("which stocks returned more than 40% in 2019?", "more than 40%"),
        ("苹果2020年有没有超过100美元的交易日", "超过100美元"),
    ],
)
async def test_a_question_that_chooses_values_is_refused_by_its_condition(
    engine: Engine, question: str, words: str
) -> None:
    """All values would look like those that pass; the program of the question chooses."""
    result = await engine.ask(question, None)
    assert result.sheets == ()
    assert [(item.subject, item.reason) for item in result.missing] == [(words, "NOT_UNDERSTOOD")]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Apple in 2019, Microsoft in 2020", "2020"),
        ("Apple close at the start of 2019 and at the start of 2021", "the start of 2021"),
        ("2014年和2018年，美国非农就业平均每个月分别新增多少人？", "每个月"),
        ("annual returns of Apple from 2015 to 2020", "annual"),
        ("average monthly close of Apple in 2020", "monthly"),
    ],
)
async def test_figures_per_period_are_refused_by_what_is_no_single_one(
    engine: Engine, question: str, words: str
) -> None:
    result = await engine.ask(question, None)
    assert result.sheets == ()
    assert any(words in item.subject for item in result.missing), result.missing


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Apple's worst month in 2020", "worst"),
        ("spread between the 10-year and the 2-year Treasury yields in 2019", "spread"),
        ("gold to oil ratio in 2018", "ratio"),
        ("US goods imports from Canada and Mexico in 2021", "Mexico"),
        ("能源、食品两项CPI 2021年", "食品"),
        ("the 2-, 10- and 30-year Treasury yields in 2020", "2-"),
        ("Median duration of unemployment in June 2010", "duration of unemployment"),
        ("unemploymnt rate in 2015", "unemploymnt"),
    ],
)
async def test_words_that_only_programs_read_are_named(engine: Engine, question: str, words: str) -> None:
    result = await engine.ask(question, None)
    assert any(words in item.subject for item in result.missing), result.missing
