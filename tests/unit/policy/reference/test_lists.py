"""Lists of questions, which are given to researchers of their own."""

from __future__ import annotations

from fathom.domain.conversation import Conversation
from fathom.domain.tool_results import Step
from fathom.services.policy.reference.policy import next_call

TOOLS = ("data", "delegate", "finish")
LIST = "1. How did gold do in 2019?\n2. How did oil do in 2019?"
PARTS = ["How did gold do in 2019?", "How did oil do in 2019?"]


def make_answer(part: str, body: str, status: str = "ok") -> Step:
    return Step("delegate", {"question": part}, {"status": status, "error": "out of time"}, body)


def test_each_question_of_a_list_goes_to_a_researcher_in_one_round() -> None:
    call = next_call(Conversation(LIST, (), False), TOOLS)
    assert [(one.tool, one.arguments["question"]) for one in (call, *call.beside)] == [
        ("delegate", one) for one in PARTS
    ]
    assert all(one.arguments["intent"] for one in (call, *call.beside))


def test_without_researchers_a_list_is_one_question() -> None:
    call = next_call(Conversation(LIST, (), False), ("data", "finish"))
    assert (call.tool, call.beside) == ("data", ())


def test_the_answers_stand_under_their_questions() -> None:
    steps = (make_answer(PARTS[0], "Up 18 % [1]."), make_answer(PARTS[1], "Up 34 % [2]."))
    call = next_call(Conversation(LIST, steps, False), TOOLS)
    assert call.tool == "finish"
    assert call.arguments["answer"] == f"### {PARTS[0]}\n\nUp 18 % [1].\n\n### {PARTS[1]}\n\nUp 34 % [2]."
    assert "reading" not in call.arguments


def test_a_question_that_no_researcher_answered_is_open() -> None:
    steps = (make_answer(PARTS[0], "Up 18 % [1]."), make_answer(PARTS[1], "", status="failed"))
    call = next_call(Conversation(LIST, steps, False), TOOLS)
    assert call.arguments["answer"].endswith(f"### {PARTS[1]}\n\nI found nothing that answers this.")
    assert call.arguments["reading"] == {"open": [PARTS[1]]}


def test_what_all_answers_say_stands_once_with_the_citations_of_all() -> None:
    bodies = [f"**Not covered:** more.\n\n- Return: 5 % [{n}]\n\nData as of 2022 [{n + 1}]." for n in (1, 3)]
    steps = tuple(make_answer(part, body) for part, body in zip(PARTS, bodies, strict=True))
    answer = next_call(Conversation(LIST, steps, False), TOOLS).arguments["answer"]
    ahead, first, own, second, other, behind = answer.split("\n\n")
    assert (ahead, behind) == ("**Not covered:** more.", "Data as of 2022 [2] [4].")
    assert (first, second) == tuple(f"### {part}" for part in PARTS)
    assert (own, other) == ("- Return: 5 % [1]", "- Return: 5 % [3]"), "a value belongs to its own question"
