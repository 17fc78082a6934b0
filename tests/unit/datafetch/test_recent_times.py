"""Words for recent times without a length: of a level the newest value, of a move or a course no figure."""

from __future__ import annotations

import pytest

from fathom.domain import frames
from fathom.services.datafetch.engine import Engine

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("question", "column", "value"),
    [
        ("recent unemployment rate", "US.unrate", 3.5),
        ("最近失业率怎么样", "US.unrate", 3.5),
        ("Apple's price lately", "AAPL.close_adj", 125.674),
    ],
)
async def test_a_level_of_late_is_its_newest_value(engine: Engine, question: str, column: str, value: float) -> None:
    result = await engine.ask(question, None)
    (sheet,) = result.sheets
    assert result.missing == ()
    assert frames.from_arrow(sheet.arrow)[column].tolist() == pytest.approx([value])


@pytest.mark.parametrize(
    ("question", "phrase"),
    [
        ("How has Apple done recently?", "recently"),
        ("Apple's recent return", "recent"),
        ("苹果近期涨幅", "近期"),
        ("最近标普500走势", "最近"),
    ],
)
async def test_a_move_of_late_is_refused_for_want_of_a_length(engine: Engine, question: str, phrase: str) -> None:
    result = await engine.ask(question, None)
    assert result.sheets == ()
    (item,) = result.missing
    assert item.subject == phrase
    assert "says no length of time" in item.detail


@pytest.mark.parametrize(
    "question",
    ["Apple's return over the most recent 3 months", "苹果最近三个月的涨幅", "Apple's recent return in 2020"],
)
async def test_a_length_or_a_year_is_enough(engine: Engine, question: str) -> None:
    result = await engine.ask(question, None)
    assert not any("says no length" in item.detail for item in result.missing)
