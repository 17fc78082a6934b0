"""Tests of programs: what runs in the sandbox, and what counts as passed."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest

from fathom.services.reward.program_tests import find_program, read_tests, same_text, score_tests

SUM = "a, b = map(int, input().split())\nprint(a + b)"


def play(cell: str) -> str:
    """The output of a cell in this process; the sandbox runs it in one of its own."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO())
        exec(cell, {})
    return said.getvalue()


def run_tests(reference: Any, program: str, most: int = 10) -> list[bool]:
    return [test.accepts(play(test.cell)) for test in read_tests(json.dumps(reference), program, most)]


@pytest.mark.parametrize(
    ("reference", "program", "found"),
    [
        ({"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "8\n"]}, SUM, [True, False]),
        ({"inputs": [["1 2"]], "outputs": [["3"]]}, SUM + "\nexit()", [True]),
        ({"inputs": ["0.5"], "outputs": ["0.3333333333"]}, "print(1 / 3)", [True]),
        ({"fn_name": "add", "inputs": [[1, 2], [2, 2]], "outputs": [3, [5]]}, "def add(a, b):\n  return a + b", [True, False]),
        ({"fn_name": "f", "inputs": ["[1]\n2"], "outputs": ["[1, 2]"]}, "def f(a, b):\n  print(1)\n  return a + [b]", [True]),
        ({"fn_name": "f", "inputs": [["x"]], "outputs": [["xx"]]}, "class Solution:\n  def f(self, a):\n    return a * 2", [True]),
    ],
)  # fmt: skip
def test_programs_read_or_are_called(reference: Any, program: str, found: list[bool]) -> None:
    assert run_tests(reference, program) == found


def test_what_is_expected_is_not_in_the_cell() -> None:
    [test] = read_tests('{"inputs": ["1"], "outputs": ["a secret"]}', "print(1)", 10)
    assert "a secret" not in test.cell


@pytest.mark.parametrize("reference", ["72", "no JSON", '{"inputs": []}', '{"inputs": ["1"], "outputs": []}', "[1]"])
def test_a_reference_that_holds_no_tests_is_said_so(reference: str) -> None:
    with pytest.raises(ValueError, match="the reference"):
        read_tests(reference, "", 10)


def test_only_the_first_tests_are_run() -> None:
    assert len(read_tests(json.dumps({"inputs": ["1"] * 30, "outputs": ["1"] * 30}), "", 10)) == 10


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        ("So:\n```python\nprint(1)\n```\nor\n```\nprint(2)\n```", "print(2)\n"),
        ("```py\nprint(1)", "print(1)"),
        ("print(3)", "print(3)"),
    ],
)
def test_the_last_fenced_program_counts(answer: str, program: str) -> None:
    assert find_program(answer) == program


def test_words_and_numbers_are_compared_and_blanks_are_not() -> None:
    assert same_text("1  yes\n", "1\nyes")
    assert not same_text("1 yes", "1 no")
    assert not same_text("1", "1 1")


def test_the_share_of_tests_is_the_reward() -> None:
    score = score_tests([True, False, True, True])
    assert (score.value, score.components["correct"]) == (0.75, 0.0)
