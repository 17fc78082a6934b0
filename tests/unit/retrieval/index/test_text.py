"""Index terms and summaries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.services.retrieval.index.text import ELLIPSIS, is_single_character, summarise, tokenise

DRAWDOWN = "Nothing here. The drawdown was 30.5% in March. It recovered. Other things."
LONG = st.text(st.sampled_from(list("ab .!?。\n涨跌3")), max_size=600)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The S&P 500 fell", ["s&p", "500", "fell"]),
        ("Apple's shares", ["apple", "share"]),
        ("Apple’s shares", ["apple", "share"]),
        ("companies", ["company"]),
        ("最大回撤", ["最大", "大回", "回撤"]),
        ("苹果AAPL股价", ["苹果", "aapl", "股价"]),
        ("ＡＡＰＬ", ["aapl"]),
        ("涨", ["涨"]),
        ("3.5% in 2020", ["3.5", "2020"]),
        ("1,234,567.8 shares", ["1234567.8", "share"]),
        ("2001,2002", ["2001", "2002"]),
        ("10-year yield", ["10-year", "10", "year", "yield"]),
        ("look-ahead", ["look-ahead", "look", "ahead"]),
        ("the U.S. economy", ["us", "economy"]),
        ("BRK.B", ["brk.b"]),
        ("café Zürich", ["café", "zürich"]),
        ("日本株", ["日本", "本株"]),
        ("snake_case", ["snake", "case"]),
        ("FY2018 capex", ["fy2018", "fy", "2018", "capex"]),
        ("10K, Q2, 3M's", ["10k", "10", "q2", "3m"]),
        ("$5.3bn", ["5.3bn", "5.3", "bn"]),
        ("2018年", ["2018", "年"]),
        ("basis crisis gas", ["basis", "crisis", "gas"]),
        ("", []),
        ("?!…", []),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokenise(text) == expected


@pytest.mark.parametrize(("term", "expected"), [("涨", True), ("a", False), ("回撤", False), ("", False)])
def test_a_lone_chinese_character_is_told_from_other_terms(term: str, expected: bool) -> None:
    assert is_single_character(term) is expected


@pytest.mark.parametrize(
    ("text", "query", "limit", "expected"),
    [
        (DRAWDOWN, {"drawdown"}, 45, "The drawdown was 30.5% in March."),
        (DRAWDOWN, {"drawdown"}, 60, "The drawdown was 30.5% in March. It recovered."),
        (DRAWDOWN, {"thing", "recovered"}, 60, "It recovered. Other things."),
        (DRAWDOWN, set(), 30, "Nothing here."),
        ("股价上涨。回撤为30%。其后恢复。", {"回撤"}, 12, "回撤为30%。"),
        ("one two three four five six", {"five"}, 16, "…four five six"),
        ("Short.", {"short"}, 240, "Sho…"),
        ("", {"a"}, 240, ""),
        ("ab", {"a"}, 240, ""),
    ],
)
def test_a_summary_is_the_best_stretch(text: str, query: set[str], limit: int, expected: str) -> None:
    assert summarise(text, query, limit) == expected


@given(LONG, st.integers(3, 200))
def test_summaries_are_the_texts_own_words_bounded_and_never_the_text(text: str, limit: int) -> None:
    found = summarise(text, set(tokenise(text[len(text) // 2 :])), limit)
    assert len(found) <= limit
    assert "\n" not in found
    whole, words = " ".join(text.split()), " ".join(found.removeprefix(ELLIPSIS).removesuffix(ELLIPSIS).split())
    assert words in whole
    assert not whole or whole not in words


def test_a_text_without_sentences_takes_no_longer_than_its_length_says() -> None:
    for text in ("." * 20_000, "a" * 20_000, "回" * 20_000, "\n" * 20_000, "a-" * 10_000):
        assert len(summarise(text, {"a"}, 240)) <= 240


def test_a_summary_of_a_long_text_is_that_of_its_best_part() -> None:
    filler = "The committee met and spoke of other matters. "
    for place in (0, 3_999, 50_000, 299_000):
        text = (filler * 7_000)[:300_000]
        at = text.rfind(". ", 0, place) + 2 if place else 0
        text = f"{text[:at]}The hurdle rate for U.S. plants is 11.5 percent of 1,200 dollars. {text[at:]}"
        found = summarise(text, set(tokenise("hurdle rates of US plants 1200")), 200)
        assert "The hurdle rate for U.S. plants is 11.5 percent of 1,200 dollars." in found
        assert len(found) <= 200
    wide = "市场平稳。" * 4_000 + "ﬁnal 利率下调。" + "市场平稳。" * 4_000
    assert "利率下调" in summarise(wide, set(tokenise("利率下调")), 60)
