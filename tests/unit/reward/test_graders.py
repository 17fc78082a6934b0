"""Graders, case by case; and the batch that names the item at fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.core.errors import InvalidField
from fathom.domain.grading import verifier
from fathom.domain.grading.graders import GRADERS, Grader, Item, Score
from fathom.domain.grading.verifier import grade_item
from fathom.services.reward.config import Config
from fathom.services.reward.engine import validate_request
from fathom.services.reward.request import GradingRequest
from tests.unit.reward.house import House

NONE: Mapping[str, float] = {}


def grade(
    grader: str, answer: str, references: list[str], parameters: Mapping[str, float] = NONE, response: str = ""
) -> Score:
    return only(grader, Item(answer, references, parameters, response))


def only(grader: str, item: Item) -> Score:
    """The checked item's score."""
    score = grade_item(grader, validate_request("items[0]", GradingRequest(grader, item), GRADERS, {}).item)
    assert isinstance(score, Score)
    return score


async def score(items: list[tuple[str, Item]], max_items: int = 100) -> list[Score]:
    """The same by way of the engine."""
    house = House(Config(max_items=max_items))
    return await house.engine.score([GradingRequest(name, item) for name, item in items])


@pytest.mark.parametrize(
    ("grader", "answer", "references", "expected"),
    [
        # Search-R1's exact match: several targets, articles, punctuation, case, blanks.
        # Over all cases below, Chinese counterparts beside the English ones: widths, quotation marks, units of 万 and 亿.
        ("em", "The Beijing.", ["beijing"], 1.0), ("em", "Shanghai", ["Beijing"], 0.0), ("em", "", ["a"], 0.0),
        ("em", "b", ["a", "b"], 1.0), ("em", "  new \n york ", ["New York"], 1.0), ("em", "U.S.", ["us"], 1.0),
        ("em", "Beijing, China", ["Beijing"], 0.0), ("em", "the", ["an"], 0.0), ("em", "北京！", ["北京"], 1.0),
        ("em", "《红楼梦》", ["红楼梦"], 1.0), ("em", "ＡＢＣ１", ["abc1"], 1.0), ("em", "北京市", ["北京"], 0.0),
        ("sub_em", "It is Beijing today", ["Beijing"], 1.0), ("sub_em", "no", ["Beijing"], 0.0),
        ("sub_em", "x", ["the", "y"], 0.0), ("sub_em", "答案是北京。", ["北京"], 1.0), ("sub_em", "", ["x"], 0.0),
        ("f1", "red blue", ["blue green"], 0.5), ("f1", "", ["a b"], 0.0), ("f1", "a cat", ["the cat"], 1.0),
        ("f1", "上涨了", ["上涨"], 0.8), ("f1", "x x y", ["x y y"], 2 / 3), ("f1", "cat", ["dog", "cat"], 1.0),
        ("f1", "AAPL上涨", ["aapl 上 涨"], 1.0), ("f1", "x", ["y"], 0.0),
        ("number", "about 1,234.5", ["1234.5"], 1.0), ("number", "12%", ["0.12"], 1.0), ("number", "12", ["12%"], 0.0),
        ("number", "3.2亿", ["320,000,000"], 1.0), ("number", "5 million", ["5,000,000"], 1.0),
        ("number", "1.02", ["1"], 0.0), ("number", "1.01", ["1"], 1.0), ("number", "none", ["1"], 0.0),
        ("number", "first 3, then 7", ["7"], 1.0), ("number", "-5", ["5"], 0.0), ("number", "−5%", ["-0.05"], 1.0),
        ("number", "2万", ["20000"], 1.0), ("number", "3千万", ["30,000,000"], 1.0), ("number", "0", ["0"], 1.0),
        ("number", "7", ["x 3", "about 7"], 1.0), ("number", "1.5e3", ["1500"], 1.0), ("number", "1e400", ["1"], 0.0),
    ],
)  # fmt: skip
def test_graders(grader: str, answer: str, references: list[str], expected: float) -> None:
    assert grade(grader, answer, references).value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "parameters", "expected"),
    [
        # 1 % of the reference by default; 102 is just outside, and with 2 % just inside.
        ("101", {}, 1.0), ("102", {}, 0.0), ("102", {"rel_tol": 0.02}, 1.0), ("100.5", {"rel_tol": 0.0}, 0.0),
        ("100.5", {"rel_tol": 0.0, "abs_tol": 0.5}, 1.0), ("98.9", {}, 0.0), ("-100", {"abs_tol": 199.0}, 0.0),
        ("1000000", {"rel_tol": 0.5}, 0.0),
    ],
)  # fmt: skip
def test_tolerances_are_those_of_the_reference(answer: str, parameters: dict[str, float], expected: float) -> None:
    assert grade("number", answer, ["100"], parameters).value == expected


def test_f1_says_its_parts() -> None:
    # One of three words right, and the one that was wanted found.
    assert grade("f1", "red blue green", ["blue"]).components == pytest.approx({"precision": 1 / 3, "recall": 1.0})


SEARCHED = "<think>t</think><search>q</search><information>It is 7.</information><think>t</think>"


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("<answer>7</answer>", 1.0),
        (f"{SEARCHED}<answer> 7 </answer>\n", 1.0),
        ("<answer>7</answer> and more", 0.8),
        ("<answer>3</answer>", 0.2),
        (f"{SEARCHED}<answer>3</answer>", 0.25),
        (f"{SEARCHED}<answer>3</answer> more", 0.1),
        ("<answer>3</answer> more", 0.1),
        # Weights 0.2, 0.1 and 0.05: form, an answer at all, and a search that found the target.
        ("<answer></answer> more", 0.1),
        ("nothing", 0.0),
        ("", 0.0),
        ("<answer>7", 0.0),
        ("<answer>3</answer><answer>7</answer>", 0.8),
        ("<answer>7</answer><answer>3</answer>", 0.1),
        # Ten answers are a limit: an eleventh is a guess in every tag, and worth a quarter.
        ("<answer>7</answer>" * 10, 0.8),
        ("<answer>7</answer>" * 11, 0.2),
        ("<answer>" * 11 + "</answer><answer>7</answer>", 0.2),
        ("<answer>3</answer>" * 11, 0.1),
    ],
)
def test_search_r1_composition(response: str, expected: float) -> None:
    weights = {"structure_weight": 0.2, "final_weight": 0.1, "retrieval_weight": 0.05}
    assert grade("search_r1", "", ["7", "seven"], weights, response).value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("response", "loose", "strict"),
    [
        ("<answer>7</answer>", 1.0, 0.8),
        ("<think>t</think><answer>7</answer>", 1.0, 1.0),
        (f"{SEARCHED}<answer>7</answer>", 1.0, 1.0),
        ("<search>q</search><information>i</information><answer>7</answer>", 1.0, 0.8),
    ],
)
def test_thoughts_are_demanded_on_request(response: str, loose: float, strict: float) -> None:
    assert grade("search_r1", "", ["7"], {}, response).value == pytest.approx(loose)
    assert grade("search_r1", "", ["7"], {"thoughts": 1}, response).value == pytest.approx(strict)
    assert grade("format", "", [], {"thoughts": 1}, response).value == float(strict == 1.0)


def test_search_r1_says_its_parts_and_its_reason() -> None:
    right = grade("search_r1", "", ["7"], {}, f"{SEARCHED}<answer>7</answer>")
    assert right == Score(1.0, {"correct": 1.0, "valid": 1.0, "retrieved": 1.0})
    wrong = grade("search_r1", "", ["7"], {}, "<answer>7</answer> more")
    assert wrong.components == {"correct": 1.0, "valid": 0.0, "retrieved": 0.0}
    assert wrong.reason == "text follows the answer"


def test_all_weights_of_zero_leave_exact_match() -> None:
    # What the paper trains with.
    """The paper's main reward: 1 for a right answer and 0 for all else, whatever the form."""
    weights = {"structure_weight": 0.0, "final_weight": 0.0}
    for response, expected in (("x <answer>7</answer> y", 1.0), ("<answer>3</answer>", 0.0), ("7", 0.0)):
        assert grade("search_r1", "", ["7"], weights, response).value == expected


A = Item("x", ["x"])


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([], "items"),
        ([("em", A)] * 11, "items"),
        ([("em", A), ("em", A), ("em", A), ("nope", A)], "items[3].grader"),
        ([("", A)], "items[0].grader"),
        ([("em", Item("a", []))], "items[0].references"),
        ([("em", Item("a", ["", " "]))], "items[0].references"),
        ([("number", Item("1", ["one"]))], "items[0].references"),
        ([("em", Item("a", ["a"], {"rel_tol": 1.0}))], "items[0].parameters"),
        ([("number", Item("1", ["1"], {"rel_tol": -1.0}))], "items[0].parameters['rel_tol']"),
        ([("number", Item("1", ["1"], {"abs_tol": math.nan}))], "items[0].parameters['abs_tol']"),
        ([("search_r1", Item("", ["1"], {"structure_weight": 1.5}))], "items[0].parameters['structure_weight']"),
        ([("search_r1", Item("", ["1"], {"final_weight": math.inf}))], "items[0].parameters['final_weight']"),
    ],
)
async def test_bad_items_are_named(items: list[tuple[str, Item]], field: str) -> None:
    with pytest.raises(InvalidField) as bad:
        await score(items, 10)
    assert bad.value.field == field


async def test_scores_are_aligned_with_the_items() -> None:
    items = [("em", A), ("em", Item("y", ["x"])), ("number", Item("2", ["2"])), ("format", Item("", []))]
    assert [item.value for item in await score(items, 4)] == [1.0, 0.0, 1.0, 0.0]


def raise_error(item: Item) -> Score:
    raise ValueError("cannot")


# Scores that are no numbers would spread through a batch's mean.
@pytest.mark.parametrize(
    "bad", [lambda i: Score(math.nan), lambda i: Score(math.inf), lambda i: Score(0.0, {"part": math.nan}), raise_error]
)
async def test_a_failing_grader_is_worth_0_and_told(
    monkeypatch: pytest.MonkeyPatch, bad: Callable[[Item], Score]
) -> None:
    """A score that is not finite becomes a failure of its item, and the rest of the batch is graded."""
    house = House()
    monkeypatch.setattr(verifier, "GRADERS", {**GRADERS, "f1": Grader(bad, "")})
    found = await house.engine.score([GradingRequest("em", A), GradingRequest("f1", A)])
    assert [one.value for one in found] == [1.0, 0.0]
    assert found[1].components == {"failed": 1.0}
    assert found[1].reason.startswith("failed: ")
    assert house.read_count("fathom_reward_failures_total", grader="f1") == 1
    assert "a grader failed" in house.log.getvalue()


@given(
    st.sampled_from(sorted(GRADERS)), st.text(), st.text(), st.text(), st.dictionaries(st.sampled_from(["structure_weight", "final_weight", "retrieval_weight", "thoughts"]), st.floats(0, 1))
)  # fmt: skip
def test_any_text_gives_a_finite_score(
    grader: str, answer: str, reference: str, response: str, parameters: dict[str, float]
) -> None:
    item = Item(answer, [reference, "1"], parameters if grader == "search_r1" else {}, response)
    value = only(grader, replace(item, expected_tools=["search"])).value
    # The composed reward of code takes something away for its hacks, that of short thinking for long ones.
    # Two graders may take something away; all others stay between 0 and 1.
    assert {"code": -1.0, "short_thinking": -0.5}.get(grader, 0.0) <= value <= 1.0


@given(st.text(), st.text())
def test_exact_is_the_strictest(answer: str, reference: str) -> None:
    # Exact match implies containment and full overlap.
    exact, part, f1 = (grade(name, answer, [reference, "never this"]).value for name in ("em", "sub_em", "f1"))
    assert exact <= part
    assert exact <= f1 + 1e-9 or not answer.strip()
