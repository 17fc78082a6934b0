"""Index terms and summaries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.text import summary, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The S&P 500 fell", ["s&p", "500", "fell"]),
        ("Apple's shares", ["apple", "share"]),
        ("companies", ["company"]),
        ("最大回撤", ["最大", "大回", "回撤"]),
        ("苹果AAPL股价", ["苹果", "aapl", "股价"]),
        ("ＡＡＰＬ", ["aapl"]),
        ("涨", ["涨"]),
        ("3.5% in 2020-03", ["3.5", "2020-03"]),
        ("basis crisis gas", ["basis", "crisis", "gas"]),
        ("", []),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@given(st.text(), st.integers(40, 400))
def test_summaries_are_bounded(text: str, limit: int) -> None:
    assert len(summary(text, set(tokens(text)), limit)) <= limit


def test_summary_is_the_best_stretch() -> None:
    text = "Nothing here. The drawdown was 30% in March. It recovered. Other things."
    assert summary(text, {"drawdown"}, 60).startswith("The drawdown was 30% in March.")
