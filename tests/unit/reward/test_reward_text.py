"""Test how graders read text: normalisation, tokens, numbers; and Search-R1's tags."""

from __future__ import annotations

import re
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.domain.grading.tags import contents, fault, is_spam, last_answer
from fathom.domain.grading.text import normalize_text, numbers, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Beatles!", "beatles"), ("An apple, a day", "apple day"), ("U.S.A.", "usa"), ("ＡＢＣ", "abc"),
        ("北京。", "北京"), ("“北京”、《上海》", "北京上海"), ("theory", "theory"), ("  ", ""), ("Anne", "anne"),
        ("a.n", ""), ("The-end", "theend"), ("tab\tand\nline", "tab and line"), ("don’t", "dont"),
    ],
)  # fmt: skip
def test_normalisation(text: str, expected: str) -> None:
    assert normalize_text(text) == expected


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_is_normalised_as_squad_does(text: str) -> None:
    """The reference's four steps, written out: lower, punctuation, articles, whitespace."""
    lowered = "".join(character for character in text.lower() if character not in set(string.punctuation))
    assert normalize_text(text) == " ".join(re.sub(r"\b(a|an|the)\b", " ", lowered).split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The red cat", ["red", "cat"]),
        ("苹果AAPL上涨", ["苹", "果", "aapl", "上", "涨"]),
        ("", []),
        ("上涨。", ["上", "涨"]),
    ],
)
def test_tokens_of_an_answer(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,234.5 and 12% and 3.2亿 and -7", [1234.5, 0.12, 3.2e8, -7.0]),
        ("−5% to +3%", [-0.05, 0.03]),
        ("2020-03-01", [2020.0, 3.0, 1.0]),
        ("5-10", [5.0, 10.0]),
        (".5 and -.25", [0.5, -0.25]),
        ("$1.5bn, 2 billion, 3k, 4 mn", [1.5e9, 2e9, 3e3, 4e6]),
        ("3千万、2万亿、十", [3e7, 2e12]),
        ("１２．５％", [0.125]),
        ("1,2,3", [1.0, 2.0, 3.0]),
        ("(-3)", [-3.0]),
        ("5 tons, 5 men, 5kg", [5.0, 5.0, 5.0]),
        ("1.5e3", [1500.0]),
        ("1e400", []),
        ("none", []),
        ("", []),
    ],
)
def test_numbers(text: str, expected: list[float]) -> None:
    assert numbers(text) == pytest.approx(expected)


@given(st.floats(-1e12, 1e12, allow_nan=False))
def test_a_printed_number_is_read_back(value: float) -> None:
    assert numbers(f"about {value:,.3f}.") == [pytest.approx(value, abs=1e-3)]


S, T, N, W = "<search>q</search>", "<think>t</think>", "<information>i</information>", "<answer>x</answer>"


@pytest.mark.parametrize(
    ("response", "loose", "strict"),
    [
        (W, True, False),
        (T + W, True, True),
        (T + S + N + T + W, True, True),
        (f"\n{T}\n{S}\n\n{N}\n\n{T}\n{W}\n", True, True),
        (T + S + N + T + S + N + T + W, True, True),
        (S + N + W, True, False),
        (T + S + N + W, True, False),
        (T + T + W, False, False),
        (T + W + " more", False, False),
        (T + "text" + W, False, False),
        ("text" + T + W, False, False),
        (T, False, False),
        (T + S, False, False),
        (T + S + W, False, False),
        (T + S + T + W, False, False),
        (T + N + W, False, False),
        (T + W + W, False, False),
        (T + W + T, False, False),
        ("<think>a" + W, False, False),
        ("<think>a" + W + "</think>", False, False),
        ("<answer>x", False, False),
        ("x</answer>", False, False),
        ("</answer><answer>", False, False),
        ("<think>a</answer>", False, False),
        ("", False, False),
        ("plain", False, False),
    ],
)
def test_form(response: str, loose: bool, strict: bool) -> None:
    assert (not fault(response, thoughts=False), not fault(response, thoughts=True)) == (loose, strict)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("<answer>a</answer> <answer> b </answer>", "b"),
        ("<answer>a\nb</answer>", "a\nb"),
        ("<answer>a</answer><answer>b", "a"),
        ("<answer><answer>a</answer>", "<answer>a"),
        ("</answer>a<answer>", None),
        ("no tag", None),
        ("", None),
    ],
)
def test_the_last_answer_of_the_response_counts(response: str, expected: str | None) -> None:
    assert last_answer(response) == expected


@given(st.lists(st.sampled_from(["<answer>", "</answer>", "a", " ", "\n"])).map("".join))
def test_contents_are_those_of_the_lazy_expression(response: str) -> None:
    """Search-R1 takes all ``<answer>(.*?)</answer>``; ours finds the same without its quadratic time."""
    expected = re.findall(r"<answer>(.*?)</answer>", response, re.DOTALL)
    assert contents(response, "answer") == [item.strip() for item in expected]


def test_only_more_than_ten_tags_are_spam() -> None:
    assert [is_spam("<answer>" * n) for n in (0, 10, 11)] == [False, False, True]
    assert is_spam("</answer>" * 11)


@pytest.mark.parametrize("piece", ["<answer>", "</answer>", "<think></think>", "1,", "1", ".", "-", "e1", ",111", "1 "])
def test_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    text = piece * 20_000
    start = time.process_time()
    fault(text, thoughts=True)
    numbers(text)
    last_answer(text)
    assert time.process_time() - start < 20, "what is quadratic takes minutes"
