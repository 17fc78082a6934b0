"""Cues in questions, English and Chinese."""

import pytest

from fathom.services.policy.backends.rules.question import Kind, read_question
from fathom.services.policy.backends.rules.terms import keywords, sentences, words

KINDS = [
    ("Compare the price performance and drawdown of Apple and Microsoft from 2015 to 2020", Kind.ANALYSIS),
    ("How did Tesla shares do in 2021?", Kind.ANALYSIS),
    ("How has the unemployment rate changed since 2000?", Kind.ANALYSIS),
    ("Why did oil prices fall in 2014 and 2015?", Kind.ANALYSIS),
    ("What was the maximum drawdown of Apple between 2007 and 2009?", Kind.ANALYSIS),
    ("比较苹果和微软2018年到2022年的股价表现", Kind.ANALYSIS),
    ("2020年美国失业率走势如何？", Kind.ANALYSIS),
    ("What was Apple's closing price on 2020-03-23?", Kind.LOOKUP),
    ("What was the US unemployment rate in April 2020?", Kind.LOOKUP),
    ("What is the current federal funds rate?", Kind.LOOKUP),
    ("最新的人民币对欧元汇率是多少？", Kind.LOOKUP),
    ("苹果2021年6月的收盘价", Kind.LOOKUP),
    ("What is maximum drawdown?", Kind.DOCUMENT),
    ("How is the Sharpe ratio calculated?", Kind.DOCUMENT),
    ("什么是复权价格？", Kind.DOCUMENT),
    ("Any news about airlines in 2001?", Kind.DOCUMENT),
    ("Who is the head of the central bank?", Kind.DOCUMENT),
    ("hello", Kind.CHAT),
    ("你好！", Kind.CHAT),
    ("who are you?", Kind.CHAT),
    ("?!", Kind.CHAT),
]


@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_kinds(text: str, kind: Kind) -> None:
    assert read_question(text).kind is kind


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("on 2020-03-23", "2020-03-23"),
        ("on 2020/3/5", "2020-03-05"),
        ("2020年3月23日的收盘价", "2020-03-23"),
        ("2021年6月", "2021-06"),
        ("in April 2020", "2020-04"),
        ("in Sep. 2019", "2019-09"),
        ("on March 23, 2020", "2020-03-23"),
        ("on 23rd March 2020", "2020-03-23"),
        ("from May 2019 to June 2020", ""),
        ("in 2020", ""),
        ("may rise in 2020", ""),
        ("", ""),
    ],
)
def test_moments(text: str, moment: str) -> None:
    assert read_question(text).moment == moment


def test_the_specific_measure_comes_first() -> None:
    aspects = read_question("Returns, volatility and drawdown, please; and the Sharpe ratio").aspects
    assert [aspect.name for aspect in aspects] == ["drawdown", "volatility", "sharpe", "return"]
    assert [aspect.computed for aspect in aspects] == [True, True, False, True]


def test_words_leave_out_what_carries_no_meaning() -> None:
    assert words("What is the price of Apple's shares?") == ["price", "apple", "share"]
    assert words("请问什么是最大回撤？") == ["最大", "大回", "回撤"]
    assert keywords("How did the S&P 500 do in 2020?") == "S&P 500 2020"


def test_a_very_long_question_is_read_in_part_and_fast() -> None:
    assert read_question("how is " * 14_000 + "?").kind in set(Kind)


def test_sentences_leave_out_headings_and_keep_decimals() -> None:
    text = "# Title\nIt rose 3.5 percent. Then it fell again.\n- a list mark\n涨了很多年以后。接着又跌了好几年。"
    assert sentences(text) == [
        "It rose 3.5 percent.",
        "Then it fell again.",
        "涨了很多年以后。",
        "接着又跌了好几年。",
    ]
