"""Leaks of training texts into evaluations, by runs of tokens that they share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.domain.text.overlap import Text, find_leaks
from fathom.domain.text.shingles import list_tokens, make_shingles, measure_jaccard

TRAINING = (
    Text("train:1", "Hello. What did the S&P 500 return between the end of 1999 and the end of 2009, after inflation?"),
    Text("train:2", "黄金在2011年至2015年间的最大回撤有多深？"),
)


@pytest.mark.parametrize(
    ("held", "source"),
    [
        ("what did the S&P 500 return between the end of 1999 and the end of 2009", "train:1"),
        ("What did the s&p 500 return between the end of 1999 and the end of 2009!?", "train:1"),
        ("黄金 在２０１１年至２０１５年间的最大回撤有多深", "train:2"),
    ],
)
def test_a_copy_is_found_whatever_its_case_width_and_marks(held: str, source: str) -> None:
    (leak,) = find_leaks(TRAINING, [Text("held:1", held)])
    assert (leak.held.name, leak.training.name) == ("held:1", source)
    assert leak.share > 0.9


@pytest.mark.parametrize(
    "held",
    [
        "What did Microsoft return between the end of 2004 and the middle of 2012, in euros?",
        "and in 2009?",
        "白银在1980年的最高价是多少？",
        "",
    ],
)
def test_what_merely_is_alike_or_too_short_is_none(held: str) -> None:
    assert not find_leaks(TRAINING, [Text("held:1", held)])


def test_the_nearest_training_text_is_named() -> None:
    near = Text("train:3", "what did the S&P 500 return between the end of 1999 and the end of 2019")
    held = Text("held:1", "What did the S&P 500 return between the end of 1999 and the end of 2009")
    # The first one shares most runs, too, and is not the source.
    (leak,) = find_leaks([near, *TRAINING], [held])
    assert (leak.training.name, leak.share) == ("train:1", 1.0)


@given(st.text(alphabet="ab 中文1.", max_size=40), st.text(alphabet="ab 中文1.", max_size=40), st.integers(1, 4))
def test_similarity_is_symmetric_and_one_for_the_same_text(one: str, other: str, length: int) -> None:
    left, right = make_shingles(one, length), make_shingles(other, length)
    assert measure_jaccard(left, right) == measure_jaccard(right, left)
    assert 0.0 <= measure_jaccard(left, right) <= 1.0
    assert measure_jaccard(left, left) == 1.0


def test_tokens_are_words_numbers_and_chinese_characters() -> None:
    assert list_tokens("S&P's 1,200.5点, 上涨Ｒｅ-open") == ["s", "p's", "1,200.5", "点", "上", "涨", "re-open"]
