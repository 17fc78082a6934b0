"""The agent's question set and its grader: what is expected can be computed, and wrong answers are found wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.golden.agent.grading import Given, judge, trace_numbers
from tests.golden.agent.reference import Reference
from tests.golden.agent.schema import HELD, SEEN, Expected, Question, load_questions


@pytest.fixture(scope="module")
def reference(tables_dir: Path) -> Reference:
    return Reference(tables_dir)


def test_the_set_is_large_enough_bilingual_and_a_third_is_held_out() -> None:
    seen, held = load_questions(SEEN), load_questions(HELD)
    together = [*seen, *held]
    assert len(together) >= 60
    assert len(held) >= len(together) / 3
    assert len({question.id for question in together}) == len({question.ask for question in together}) == len(together)
    assert min(sum(question.lang == lang for question in together) for lang in ("en", "zh")) >= 25
    assert {question.kind for question in held} <= {question.kind for question in seen}


def test_all_expected_values_can_be_computed(reference: Reference) -> None:
    for question in (*load_questions(SEEN), *load_questions(HELD)):
        for expected in question.expected:
            for expression in (expected.is_, expected.says, expected.order):
                assert not expression or reference.value(expression) is not None


def test_an_expectation_is_of_one_kind() -> None:
    with pytest.raises(ValidationError, match="exactly one"):
        Expected.model_validate({"is": "1", "says": "'a'"})
    with pytest.raises(ValidationError, match="extra"):
        Expected.model_validate({"wants": "1"})


QUESTION = Question.model_validate(
    {
        "id": "x",
        "kind": "compare",
        "lang": "en",
        "ask": "How did Apple and Microsoft do from 2015 to 2020?",
        "expected": [
            {"name": ["Apple"], "is": "ret('AAPL', '2015', '2020')"},
            {"order": "['MSFT', 'AAPL']"},
            {"missing": ["Tesla"]},
        ],
    }
)
MATERIAL = {1: "Apple from 2015-01-02 to 2020-12-31", 2: '{"return_pct": 432.92, "n": 1511}'}
GOOD = "Best first: Microsoft, Apple.\n\n**Apple** rose by 432.9% over 1,511 days [2].\n\nMissing: Tesla."


def test_a_good_answer_is_right_and_traceable(reference: Reference) -> None:
    verdict = judge(QUESTION, Given(GOOD, MATERIAL), reference)
    assert (verdict.faults, verdict.loose, verdict.numbers) == ([], [], 2)


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("432.9", "433.5", "is not among"),
        ("**Apple** rose", "**Microsoft** rose", "is not among"),
        ("432.9", "-432.9", "is not among"),
        ("Microsoft, Apple.", "Apple, Microsoft.", "in this order"),
        ("Missing: Tesla.", "Tesla did well.", "is missing"),
    ],
)
def test_wrong_answers_are_found(reference: Reference, before: str, after: str, fault: str) -> None:
    verdict = judge(QUESTION, Given(GOOD.replace(before, after), MATERIAL), reference)
    assert [part for part in verdict.faults if fault in part]


@pytest.mark.parametrize(
    ("text", "loose"),
    [
        ("It rose by 432.9% [2].", []),
        ("It rose by 433% [2].", []),
        ("It rose by 433.1% [2].", ["433.1"]),
        ("It rose by 432.9% [1].", ["432.9"]),
        ("It rose by 432.9%.", ["432.9"]),
        ("收益率为432.9%[2]，从2015-01-02起[1]。", []),
        ("It began on 2015-01-05 [1].", ["2015-01-05"]),
        ("See {{table:sheet_7}} and S&P 500 of “page 9”.", []),
    ],
)
def test_numbers_and_dates_must_stand_in_what_is_cited(text: str, loose: list[str]) -> None:
    assert trace_numbers(Given(text, MATERIAL), "From 2015 on?")[1] == loose
