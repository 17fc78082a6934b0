"""Words that exclude or deny are found where they stand, and nowhere else."""

from __future__ import annotations

import pytest

from fathom.domain.chat.negation import Denial, denial_ahead, find_denials, find_exclusions


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("average close from 2018 to 2021 excluding 2020", "excluding 2020"),
        ("2018 to 2021, except for 2020", "except for 2020"),
        ("every year but 2020", "every year but 2020"),
        ("total return without dividends", "without dividends"),
        ("all companies other than Apple", "other than Apple"),
        ("2018到2021年剔除2020年的平均收盘价", "剔除2020年"),
        ("2018到2021年（不包括2020年）", "不包括2020年"),
        ("除了苹果，2020年哪些股票上涨", "除了苹果"),
        ("2015到2020年除2018年外的均值", "除2018年外"),
        ("苹果以外的公司", "苹果以外"),
    ],
)
def test_an_exclusion_is_found_with_what_it_excludes(text: str, phrase: str) -> None:
    assert [text[start:end] for start, end in find_exclusions(text)] == [phrase]


@pytest.mark.parametrize(
    "text",
    ["负债除以资产", "除权价格", "除此之外，黄金价格如何", "除了苹果，还要微软的收盘价", "an exceptional year"],
)
def test_words_that_only_look_like_an_exclusion_are_none(text: str) -> None:
    assert find_exclusions(text) == []


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("months never above 1.5%", "never above"),
        ("months in which the index did not fall", "not fall"),
        ("the index didn't rise", "didn't rise"),
        ("in no month above 5%", "no month above"),
        ("没有超过3%的月份", "没有超过"),
        ("失业率从未低于4%", "从未低于"),
        ("没有下跌的年份", "没有下跌"),
    ],
)
def test_a_denied_comparison_is_found(text: str, phrase: str) -> None:
    assert [text[start:end] for start, end in find_denials(text)] == [phrase]


@pytest.mark.parametrize(
    "text",
    [
        "no more than 1.5%",
        "not only did gold rise",
        "I don't know how far gold fell",
        "有没有超过3%的月份",
        "未来涨幅",
        "涨没涨",
        "不断上涨",
    ],
)
def test_questions_whether_and_harmless_words_deny_nothing(text: str) -> None:
    assert find_denials(text) == []


@pytest.mark.parametrize(
    ("text", "comparison", "how"),
    [
        ("was not above 5%", "above", Denial.NOT),
        ("did not close above 30", "above", Denial.NOT),
        ("没有超过4%", "超过", Denial.NOT),
        ("was never above 5%", "above", Denial.NEVER),
        ("从未超过4%", "超过", Denial.NEVER),
        ("有没有超过4%", "超过", None),
        ("was above 5%", "above", None),
    ],
)
def test_the_words_ahead_of_a_comparison_say_how_it_is_denied(text: str, comparison: str, how: Denial | None) -> None:
    denied = denial_ahead(text, text.index(comparison))
    assert (denied[0] if denied else None) == how
