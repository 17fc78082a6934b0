"""A question that leaves something out or denies a comparison is never answered as though it did not."""

from __future__ import annotations

import pytest

from fathom.domain import frames
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.parser.operators import Conditions, find_conditions

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("question", "phrase"),
    [
        ("average S&P 500 close 2018 to 2021 excluding 2020", "excluding 2020"),
        ("S&P 500 returns by year from 2018 to 2021, except 2020", "except 2020"),
        ("标普500 2018到2021年剔除2020年的平均收盘价", "剔除2020年"),
        ("2018到2021年（不包括2020年）标普500的平均收盘价", "不包括2020年"),
        ("除了苹果，2020年涨幅超过50%的股票有哪些", "除了苹果"),
        ("Apple's return in 2020 without dividends", "without dividends"),
        ("months since 2000 when unemployment was never above 4%", "never above"),
        ("2018年失业率从未超过4%的月份", "从未超过"),
        ("years in which the S&P 500 never fell", "never fell"),
    ],
)
async def test_what_no_query_expresses_is_refused_by_name(engine: Engine, question: str, phrase: str) -> None:
    result = await engine.ask(question, None)
    assert result.sheets == ()
    (item,) = result.missing
    assert (item.subject, item.reason) == (phrase, "NOT_UNDERSTOOD")
    assert f"I do not understand {phrase!r}" in item.detail


@pytest.mark.parametrize(
    ("question", "indicators"),
    [
        ("CPI excluding food and energy in March 2020", ("cpilfesl",)),
        ("2020年3月剔除食品和能源的CPI", ("cpilfesl",)),
        ("unemployment without seasonal adjustment in March 2020", ("unratensa",)),
        ("除了苹果，还要微软2020年的涨幅", ("close_adj",)),
        ("苹果2020年有没有超过100美元的交易日", ("close_adj",)),
        ("How did Apple close on 2015-07-15? I do not need a chart", ("close_adj",)),
    ],
)
async def test_the_same_words_in_names_and_harmless_use_are_answered(
    engine: Engine, question: str, indicators: tuple[str, ...]
) -> None:
    result = await engine.ask(question, None)
    assert result.sheets
    assert result.missing == ()
    assert result.understood.indicators == indicators


@pytest.mark.parametrize(
    ("question", "operator", "value"),
    [
        ("months of 2018 and 2019 when unemployment was not above 4%", "<=", 4.0),
        ("months of 2018 when unemployment was not more than 4%", "<=", 4.0),
        ("months of 2018 when unemployment did not fall below 4%", ">=", 4.0),
        ("2018年失业率没有超过4%的月份有哪些", "<=", 4.0),
        ("2018年失业率未超过4%的月份有哪些", "<=", 4.0),
        ("how many months of 2019 was the yield curve not inverted", ">=", 0.0),
        ("标普500 2018年没有下跌的月份有多少个", ">=", 0.0),
    ],
)
async def test_a_denied_comparison_of_single_values_is_turned_round(question: str, operator: str, value: float) -> None:
    found = find_conditions(question)[0].meaning
    assert isinstance(found, Conditions)
    assert [(bound.operator, bound.value) for bound in found.bounds] == [(operator, value)]


async def test_the_rows_of_not_above_are_those_at_most(engine: Engine) -> None:
    result = await engine.ask("months of 2018 and 2019 when unemployment was not above 3.6%", None)
    (sheet,) = result.sheets
    values = frames.from_arrow(sheet.arrow)["US.unrate"].round(6)
    assert len(values)
    assert values.max() <= 3.6
