"""A question that leaves something out or denies a comparison is never answered as though it did not."""

from __future__ import annotations

import pytest

from fathom.services.datafetch.engine import Engine

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("question", "phrase"),
    [
        ("average S&P 500 close 2018 to 2021 excluding 2020", "excluding 2020"),
        ("S&P 500 returns by year from 2018 to 2021, except 2020", "except 2020"),
        ("标普500 2018到2021年剔除2020年的平均收盘价", "剔除2020年"),
        ("2018到2021年（不包括2020年）标普500的平均收盘价", "不包括2020年"),
        ("Apple's return in 2020 without dividends", "without dividends"),
        ("months since 2000 when unemployment was never above 4%", "never above 4%"),
        ("2018年失业率从未超过4%的月份", "从未超过4%"),
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
