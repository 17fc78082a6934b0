"""Graders, case by case; and the batch that names the item at fault."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.errors import InvalidField
from services.reward.engine import score
from services.reward.graders import GRADERS, Item, last_answer, normalised, numbers, well_formed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Beatles!", "beatles"), ("An apple, a day", "apple day"), ("U.S.A.", "usa"), ("ＡＢＣ", "abc"),
        ("北京。", "北京"), ("theory", "theory"), ("  ", ""), ("Anne", "anne"),
    ],
)  # fmt: skip
def test_normalisation(text: str, expected: str) -> None:
    assert normalised(text) == expected


@pytest.mark.parametrize(
    ("grader", "answer", "references", "expected"),
    [
        ("em", "The Beijing.", ["beijing"], 1.0), ("em", "Shanghai", ["Beijing"], 0.0), ("em", "", ["a"], 0.0),
        ("em", "b", ["a", "b"], 1.0), ("em", "北京！", ["北京"], 1.0),
        ("sub_em", "It is Beijing today", ["Beijing"], 1.0), ("sub_em", "no", ["Beijing"], 0.0), ("sub_em", "x", ["the"], 0.0),
        ("f1", "red blue", ["blue green"], 0.5), ("f1", "", ["a b"], 0.0), ("f1", "a cat", ["the cat"], 1.0),
        ("f1", "上涨了", ["上涨"], 0.8),
        ("number", "about 1,234.5", ["1234.5"], 1.0), ("number", "12%", ["0.12"], 1.0), ("number", "3.2亿", ["320,000,000"], 1.0),
        ("number", "5 million", ["5,000,000"], 1.0), ("number", "1.02", ["1"], 0.0), ("number", "none", ["1"], 0.0),
        ("number", "first 3, then 7", ["7"], 1.0), ("number", "-5", ["5"], 0.0), ("number", "2万", ["20000"], 1.0),
    ],
)  # fmt: skip
def test_graders(grader: str, answer: str, references: list[str], expected: float) -> None:
    assert score([(grader, Item(answer, references))], 10)[0].value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("response", "valid"),
    [
        ("<answer>x</answer>", True),
        ("<think>a</think><answer>x</answer>", True),
        ("<think>a</think><search>q</search><information>i</information><think>b</think><answer>x</answer> ", True),
        ("<answer>x</answer> more", False), ("<think>a</think>", False), ("<think>a<answer>x</answer>", False),
        ("<search>q</search><answer>x</answer>", False), ("<answer>x", False), ("x</answer>", False), ("", False),
        ("<answer>x</answer><answer>y</answer>", False), ("<information>i</information><answer>x</answer>", False),
    ],
)  # fmt: skip
def test_form(response: str, valid: bool) -> None:
    assert well_formed(response) is valid


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("<answer>7</answer>", 1.0), ("<answer>7</answer> and more", 0.8), ("<answer>3</answer>", 0.2),
        ("<answer>3</answer> more", 0.05), ("nothing", 0.0), ("<answer>3</answer><answer>7</answer>", 0.8),
        ("<answer>7</answer>" * 11, 0.2),
    ],
)  # fmt: skip
def test_search_r1_composition(response: str, expected: float) -> None:
    item = Item("", ["7"], {"structure_weight": 0.2, "final_weight": 0.05}, response)
    assert score([("search_r1", item)], 10)[0].value == pytest.approx(expected)


def test_the_last_answer_of_the_response_counts() -> None:
    assert last_answer("<answer>a</answer> <answer> b </answer>") == "b"
    assert last_answer("no tag") is None


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([], "items"),
        ([("em", Item("a", ["a"]))] * 11, "items"),
        ([("em", Item("a", ["a"])), ("nope", Item("a", ["a"]))], "items[1].grader"),
        ([("em", Item("a", []))], "items[0].references"),
        ([("em", Item("a", ["a"], {"rel_tol": 1.0}))], "items[0].parameters"),
    ],
)
def test_bad_items_are_named(items: list[tuple[str, Item]], field: str) -> None:
    with pytest.raises(InvalidField) as bad:
        score(items, 10)
    assert bad.value.field == field


@given(st.sampled_from(sorted(GRADERS)), st.text(), st.lists(st.text(), min_size=1), st.text())
def test_any_text_gives_a_finite_score(grader: str, answer: str, references: list[str], response: str) -> None:
    value = score([(grader, Item(answer, references, {}, response))], 1)[0].value
    assert math.isfinite(value)
    assert 0.0 <= value <= 1.0


def test_numbers() -> None:
    assert numbers("1,234.5 and 12% and 3.2亿 and -7") == [1234.5, pytest.approx(0.12), 3.2e8, -7.0]
