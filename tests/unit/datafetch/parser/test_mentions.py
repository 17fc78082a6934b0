"""Every word of a question is said to be something, or to be unknown, at its place in the question."""

from __future__ import annotations

import pytest

from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.parser.mention import Mention, MentionKind, resolve_overlaps

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def read(engine: Engine, question: str) -> list[tuple[str, str, str]]:
    seen = await engine.read(question, None)
    return [(str(item.kind), question[item.start : item.end], item.value) for item in seen.mentions]


async def test_entities_measures_and_periods_have_canonical_values(engine: Engine) -> None:
    assert await read(engine, "maximum drawdown of Apple and Microsoft from 2015 to 2020") == [
        ("MEASURE", "maximum drawdown", "max_drawdown"),
        ("ENTITY", "Apple", "AAPL"),
        ("ENTITY", "Microsoft", "MSFT"),
        ("PERIOD", "from 2015 to 2020", "2015-01-01/2020-12-31"),
    ]


async def test_a_chinese_question_is_read_the_same_way(engine: Engine) -> None:
    found = await read(engine, "失业率在2009年10月之后低于5%是什么时候")
    assert found == [
        ("INDICATOR", "失业率", "unrate"),
        ("PERIOD", "2009年10月之后", "2009-11-01/.."),
        ("CONDITION", "低于5%", "<"),
    ]


async def test_measures_that_are_not_computed_here_are_named_too(engine: Engine) -> None:
    found = await read(engine, "weekly correlation between gold and oil in 2020")
    assert ("FREQUENCY", "weekly", "weekly") in found
    assert ("MEASURE", "correlation", "correlation") in found


async def test_words_that_nothing_was_made_of_are_unknown(engine: Engine) -> None:
    found = await read(engine, "zorbified close of Apple in 2020")
    assert [text for kind, text, _ in found if kind == "UNKNOWN"] == ["zorbified"]


async def test_excluded_words_are_unknown_and_leave_no_query(engine: Engine) -> None:
    question = "苹果2018到2021年剔除2020年的平均收盘价"
    assert ("UNKNOWN", "剔除2020年", "") in await read(engine, question)
    assert (await engine.read(question, None)).query.entities == ()


@pytest.mark.parametrize(
    "question",
    ["  Apple close in 2020", "苹果 公司 2020 年 收盘价", "volatility of EURUSD in 2020", "ＡＡＰＬ的最大回撤"],
)
async def test_positions_are_those_of_the_question_as_written(engine: Engine, question: str) -> None:
    for kind, text, value in await read(engine, question):
        assert text == text.strip() != ""
        assert (kind == "UNKNOWN") == (value == "")


async def test_of_overlapping_mentions_the_longest_counts_and_equal_ones_all() -> None:
    short, long = Mention(MentionKind.INDICATOR, 0, 4, "a"), Mention(MentionKind.ENTITY, 0, 9, "b")
    twin, weak = Mention(MentionKind.FREQUENCY, 0, 9, "c"), Mention(MentionKind.PERIOD, 0, 9, "d", 0.5)
    assert resolve_overlaps([short, long, twin, weak]) == [long, twin]
