"""Grades of blind questions: what counts as right, as a refusal and as silently wrong."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.golden.blind.grading import Given, Grade, judge, read_numbers
from tests.golden.blind.schema import FOLDER, Claim, Question, Value, load_claims, load_questions


def ask(**fields: object) -> Question:
    known = {"id": "x-1", "kind": "fact", "language": "en", "question": "How much?", "answerable": True}
    return Question.model_validate({**known, **fields})


RETURN = Value(name="return", any_of=(82.3, 80.7), unit="%", tolerance=0.2)
APPLE = ask(values=(RETURN,), words=(("Apple", "AAPL"),))
ABSENT = ask(answerable=False, missing=(("Tesla",),), kind="unanswerable")


@pytest.mark.parametrize(
    ("question", "given", "grade"),
    [
        (APPLE, Given("AAPL returned 80.8% [1].", False, False), Grade.RIGHT),
        (APPLE, Given("AAPL closed at 132.69 [1].", False, False), Grade.SILENT),
        (APPLE, Given("AAPL closed at 132.69 [1]. Not computed: return.", True, False), Grade.PARTLY),
        (APPLE, Given("It closed at 132.69. Not computed: return.", True, False), Grade.WRONG_MARKED),
        (APPLE, Given("No data.", True, True), Grade.REFUSED_WRONGLY),
        (APPLE, Given("It rose by 412% [1].", False, False, unsupported=1), Grade.INVENTED),
        (ABSENT, Given("There are no data on Tesla.", True, True), Grade.REFUSED_RIGHTLY),
        (ABSENT, Given("Ford closed at 8.79.", False, False), Grade.SILENT),
    ],
)
def test_an_answer_is_graded_as_its_reader_would(question: Question, given: Given, grade: Grade) -> None:
    assert judge(question, given).grade is grade


def test_numbers_are_read_with_their_scale_and_without_dates_and_citations() -> None:
    numbers = read_numbers("On 2020-03-16 it was −1.5 billion USD [12], M2 {{table:sheet_3}}")
    assert numbers[0] == -1.5
    assert -1_500 in numbers
    assert not {2020, 3, 12, 2} & set(numbers)


def test_the_sets_can_be_read_and_no_question_stands_in_two() -> None:
    questions = [question for path in sorted(FOLDER.glob("*.jsonl")) for question in load_questions(path)]
    assert len({question.id for question in questions}) == len(questions)
    assert len({(question.turns, question.question) for question in questions}) == len(questions)
    for question in questions:
        assert question.values or question.words or question.missing or not question.answerable, question.id


CLAIM = {"id": "x-1", "kind": "unit", "language": "en", "true": "It is 5% [1].", "wrong": "It is 5 bp [1]."}


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"columns": [{"entity": "BAC"}]}, "either indicator or values"),
        (
            {"columns": [{"entity": "BAC", "indicator": "close_adj", "values": {"2020-12-31": 1}}]},
            "either indicator or",
        ),
        ({"title": "nothing in it"}, "either columns or passage"),
        (
            {"passage": "It rose.", "columns": [{"entity": "BAC", "indicator": "close_adj"}]},
            "either columns or passage",
        ),
        ({"passage": "It rose.", "author": "me"}, "Extra inputs"),
    ],
)
def test_material_of_a_claim_is_a_table_or_a_passage(item: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Claim.model_validate({**CLAIM, "material": [item]})


def test_each_set_of_claims_has_twenty_of_each_kind() -> None:
    for path in sorted((FOLDER.parent / "other").glob("claims_*.jsonl")):
        kinds = [claim.kind for claim in load_claims(path)]
        assert [kinds.count(kind) for kind in ("cause", "comparison", "unit")] == [20, 20, 20], path.name
