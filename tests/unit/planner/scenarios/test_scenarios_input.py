"""Questions and endpoints that are out of the ordinary, on the whole path."""

from __future__ import annotations

import pytest

from fathom.core.errors import InvalidField
from tests.support.endpoint import Reply
from tests.unit.planner.scenarios.path import finish, look, play

HTML = "<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>"


@pytest.mark.parametrize(
    "question",
    [
        "Why did Apple lose half of its value in 2020, when its shares rose by 80 %?",
        "Compare Apple 和 微软 im Jahr 2020: welche a mieux performé?",
        "Why is it so? " * 571,
    ],
    ids=["a false premise", "several languages", "8,000 characters"],
)
async def test_a_question_reaches_the_model_word_for_word(question: str) -> None:
    played = await play("gpt-4", [Reply(calls=(look("a note"),)), finish("The premise is wrong [1].")], question)
    assert (played.stop, played.text) == ("finished", "The premise is wrong [1].")
    assert question.strip() in played.read_prompt(0)


async def test_a_question_over_the_limit_is_refused_with_its_length() -> None:
    with pytest.raises(InvalidField, match="question: has 8,001 characters; at most 8,000 are allowed"):
        await play("gpt-4", [finish("x")], "x" * 8_001)


@pytest.mark.parametrize("status", [200, 404, 502])
async def test_an_endpoint_that_answers_with_html_fails_the_run_with_its_name(status: int) -> None:
    played = await play("gpt-4", [Reply(status=status, body=HTML, content_type="text/html")])
    assert played.stop == "failed"
    assert "far" in played.finished.error
    assert "<html>" not in played.finished.error, "a page is no message"


async def test_an_endpoint_that_is_busy_once_is_asked_again() -> None:
    busy = Reply(status=429, headers={"Retry-After": "0.01"}, message="slow down")
    played = await play("gpt-4", [busy, finish("Done.")])
    assert (played.stop, played.rounds) == ("finished", 2)


@pytest.mark.parametrize("status", [429, 500])
async def test_an_endpoint_that_stays_out_of_order_fails_the_run_with_its_words(status: int) -> None:
    played = await play("gpt-4", [Reply(status=status, message="on fire", headers={"Retry-After": "0.01"})])
    assert played.stop == "failed"
    assert "on fire" in played.finished.error


async def test_a_silent_endpoint_costs_no_more_than_its_own_timeout() -> None:
    played = await play("gpt-4", [Reply(text="Begun and", silent_after=2)], model={"timeout_s": 0.2})
    assert played.stop == "failed"
    assert "far" in played.finished.error


async def test_a_number_that_no_source_holds_is_sent_back_once_and_then_marked() -> None:
    script = [Reply(calls=(look("Apple rose by 80 % in 2020."),)), finish("Apple rose by 95 % in 2020 [1].")]
    played = await play("gpt-4", script, "How much did Apple rise in 2020?")
    assert (played.stop, played.rounds) == ("finished", 3)
    assert "95 %" in [mark.text for mark in played.finished.answer.findings]
