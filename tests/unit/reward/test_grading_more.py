"""Graders of mathematics, tools, short thinking and tolerant matches, case by case."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.domain.grading.brevity import brevity
from fathom.domain.grading.graders import GRADERS, Item, Score, ToolStep
from fathom.domain.grading.mathematics import final_answer, same_value
from fathom.domain.grading.pool import Pool, Verifier
from fathom.domain.grading.text import normalize_spelling
from fathom.domain.grading.verifier import MAX_BYTES


@pytest.mark.parametrize(
    ("given_answer", "reference", "same"),
    [
        ("42", "42", True), ("42.0", "42", True), ("1/2", "0.5", True), ("\\frac{1}{2}", "0.5", True), ("\\frac12", "0.5", True),
        ("so it is \\boxed{\\frac{3}{4}}.", "3/4", True), ("\\boxed{1} or \\boxed{2}", "2", True), ("\\boxed{2} or \\boxed{1}", "2", False),
        ("The answer is 7.", "7", True), ("The answer is 3. No, the answer is 7.", "7", True), ("答案是 3.5。", "7/2", True), ("work\n#### 1,234", "1234", True),
        ("<answer>5</answer>", "5", True), ("<answer>5</answer><answer>6</answer>", "5", False), ("1,234.5", "1234.5", True), ("-3", "3", False),
        ("2^{10}", "1024", True), ("2**10", "1024", True), ("\\sqrt{16}", "4", True), ("\\sqrt{2}", "1.41421356", True), ("2\\sqrt{2}", "\\sqrt{8}", True),
        ("2\\pi", "6.283185307", True), ("(1, 2)", "(1,2)", True), ("(1, 2)", "(2,1)", False), ("(1,2,3)", "(1,2)", False), ("(1/2, 3)", "(0.5, 3.0)", True),
        ("50%", "0.5", True), ("50%", "50", True), ("50\\%", "50", True), ("50%", "5", False), ("x = 4", "4", True), ("x=2+2", "4", True),
        ("\\$5", "5", True), ("90^\\circ", "90", True), ("5 \\text{ cm}", "5", True), ("\\left(1, 2\\right)", "(1,2)", True), ("\\frac{\\sqrt{9}}{3}", "1", True),
        ("x^2 + 1", "x^2+1", True), ("x+1", "1+x", True), ("x+1", "x-1", False), ("", "1", False), ("nothing", "1", False), ("1e3", "1000", True), ("0.333333333", "1/3", True), ("0.33", "1/3", False),
        ("9**9**9**9", "1", False), ("1/0", "1", False), ("__import__('os')", "1", False), ("(-1)**0.5", "1", False), ("１２", "12", True),
        ("2x(x^4-3x^2)", "2x^5-6x^3", True), ("\\{1, 2\\}", "\\{2, 1\\}", True), ("[0, 1)", "[0, 1]", False), ("\\sin^2 x + \\cos^2 x", "1", True),
        ("1.07e16", "1.07 \\times 10^{16}", True), ("3.3e-10", "3.4e-10", False), ("\\frac{\\ln 2}{0.1}", "10\\ln 2", True), ("\\pm 2", "-2, 2", True),
    ],
)  # fmt: skip
def test_values_are_compared(given_answer: str, reference: str, same: bool) -> None:
    assert same_value(given_answer, reference) is same
    assert GRADERS["math"].grade(Item(given_answer, ["no", reference])).value == float(same)


@pytest.mark.parametrize(
    "hostile",
    [
        "9" * 5000,
        "(" * 3000,
        "2**" * 130 + "2",
        "\\frac{1}{" * 60,
        "1+" * 300 + "1",
        "10^{10^{10}}",
        "10^9!",
        "\\boxed{" * 500,
        "answer is " * 500,
    ],
)
async def test_no_expression_keeps_the_grader_busy(hostile: str) -> None:
    pool = Pool(1, 60.0)
    try:
        found = await pool.grade([("math", Item(hostile, ["1"])), ("math", Item("2/4", ["1/2"]))])
        assert [score.value for score in found if isinstance(score, Score)] == [0.0, 1.0]
    finally:
        await pool.close()


async def test_an_expression_has_no_more_memory_than_the_verifier() -> None:
    verifier = Verifier(60.0)
    try:
        await verifier.grade([("math", Item("1", ["2"]))])
        assert verifier._process is not None
        limit = resource.prlimit(verifier._process.pid, resource.RLIMIT_AS)
        assert limit == (MAX_BYTES, MAX_BYTES)
    finally:
        await verifier.close()


def test_a_thread_grades_mathematics_as_a_process_does() -> None:
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(same_value, "x+1", "1+x").result()


@settings(deadline=None, max_examples=30)
@given(st.fractions(max_denominator=10_000), st.fractions(max_denominator=10_000))
def test_fractions_are_exact(first: object, second: object) -> None:
    assert same_value(f"\\boxed{{{first}}}", str(second)) is (first == second)


@settings(deadline=None, max_examples=30)
@given(st.text(max_size=60))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert same_value(text, "no value") is (text.strip() == "no value")
    assert isinstance(final_answer(text), str)


@pytest.mark.parametrize(
    ("grader", "answer", "reference", "expected"),
    [
        ("em_tolerant", "二〇二四年", "2024年", 1.0), ("em_tolerant", "贵州 茅台", "贵州茅台", 1.0), ("em_tolerant", "Apple 公司", "Apple公司", 1.0),
        ("em_tolerant", "3.2亿元", "320,000,000", 1.0), ("em_tolerant", "391.04 billion", "391,035 million", 1.0), ("em_tolerant", "391 billion", "392 billion", 0.0),
        ("em_tolerant", "12%", "0.12", 1.0), ("em_tolerant", "12.5%", "12.6%", 0.0), ("em_tolerant", "from 3 to 5", "5", 0.0), ("em_tolerant", "", "5", 0.0),
        ("em_tolerant", "The Beatles", "beatles", 1.0), ("em_tolerant", "北京市", "北京", 0.0), ("em", "贵州 茅台", "贵州茅台", 0.0),
    ],
)  # fmt: skip
def test_tolerant_matches(grader: str, answer: str, reference: str, expected: float) -> None:
    parameters = {name: parameter.default for name, parameter in GRADERS[grader].parameters.items()}
    assert GRADERS[grader].grade(Item(answer, [reference], parameters)).value == expected


def test_loosened_leaves_single_chinese_digits() -> None:
    """三星 is a name, no 3星."""
    assert normalize_spelling("三星 电子 二〇二三") == "三星电子2023"


def steps(text: str) -> list[ToolStep]:
    """ "search python! search*": ! is an error, * was called before."""
    return [ToolStep(word.strip("!*"), "!" not in word, "*" in word) for word in text.split()]


@pytest.mark.parametrize(
    ("used", "expected", "value"),
    [
        ("search python", ["search", "python"], 1.0), ("search", ["search", "python"], 2 / 3), ("search query", ["search"], 2 / 3),
        ("search search search", ["search"], 1.0), ("", ["search"], 0.0), ("query", ["search"], 0.0),
    ],
)  # fmt: skip
def test_tool_choice(used: str, expected: Sequence[str], value: float) -> None:
    assert GRADERS["tool_choice"].grade(
        Item("", [], steps=steps(used), expected_tools=expected)
    ).value == pytest.approx(value)


@pytest.mark.parametrize(
    ("used", "cost", "value", "failed"),
    [("a b", 0.0, 1.0, 0), ("a b!", 0.0, 0.5, 1), ("a a*", 0.0, 0.5, 0), ("a! a!*", 0.0, 0.0, 2), ("a b", 0.05, 0.9, 0), ("a b", 1.0, 0.0, 0)],
)  # fmt: skip
def test_tool_steps(used: str, cost: float, value: float, failed: int) -> None:
    score = GRADERS["tool_steps"].grade(Item("", [], {"cost": cost}, steps=steps(used)))
    assert score.value == pytest.approx(value)
    assert score.components["without_result"] == failed


def test_no_call_earns_nothing() -> None:
    assert GRADERS["tool_steps"].grade(Item("", [], {"cost": 0.0})) == Score(0.0, {"calls": 0.0}, "no tool was called")


@pytest.mark.parametrize(
    ("length", "right", "value"),
    [(0, True, 0.5), (64, True, 0.5), (544, True, 0.0), (1024, True, -0.5), (9999, True, -0.5), (0, False, 0.0), (64, False, 0.0), (784, False, -0.25), (9999, False, -0.5)],
)  # fmt: skip
def test_short_thinking_pays_and_wrong_answers_are_never_paid(length: int, right: bool, value: float) -> None:
    assert brevity(length, right, target=64, most=1024) == pytest.approx(value)
    response = f"<think>{'word ' * length}</think><answer>{'7' if right else '8'}</answer>"
    score = GRADERS["short_thinking"].grade(Item("", ["7"], {"target": 64.0, "most": 1024.0}, response))
    assert score.value == pytest.approx(value)
    assert score.components == {"thinking_tokens": float(length), "correct": float(right)}
