"""Test what a model at an endpoint does at the end of a run, on the whole path from its stream to the run's events."""

from __future__ import annotations

import json

import pytest

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from tests.support.endpoint import Call, Reply
from tests.unit.planner.scenarios.path import finish, look, play

REPORT = "Apple rose by 80 % in 2020 [1]."
SOURCE = "Apple rose by 80 % in 2020."


async def test_a_competent_model_answers_in_as_many_replies_as_it_needs() -> None:
    played = await play("gpt-4", [Reply(calls=(look(SOURCE),)), finish(REPORT)])
    assert (played.stop, played.text, played.rounds) == ("finished", REPORT, 2)
    assert played.finished.answer.cited == [1]


async def test_parallel_calls_have_their_results_in_order() -> None:
    played = await play("gpt-4", [Reply(calls=tuple(look(f"note {n}") for n in range(4))), finish("So [1][4].")])
    assert played.stop == "finished"
    results = [message["content"] for message in played.far.requests[1].body["messages"] if message["role"] == "tool"]
    assert [json.loads(content.splitlines()[0])["hits"] for content in results] == [[f"note {n}"] for n in range(4)]


async def test_a_call_that_is_written_as_text_is_made() -> None:
    written = '<tool_call>\n{"name": "look", "arguments": {"intent": "see", "text": "a note"}}\n</tool_call>'
    played = await play("gpt-4", [Reply(text=written), finish("So [1].")])
    assert (played.stop, played.text) == ("finished", "So [1].")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (Call("look", '{"intent": "see", "text": "a" "b"'), "are no JSON"),
        (Call("look", {"intent": "see", "wrong": 1}), "expected: intent* (string), text* (string)"),
        (Call("nope", {"intent": "see"}), "nearest: finish, look, think"),
    ],
)
async def test_a_faulty_call_is_answered_with_what_is_expected_and_the_run_goes_on(call: Call, said: str) -> None:
    played = await play("gpt-4", [Reply(calls=(call,)), finish("Done.")])
    assert (played.stop, played.text, played.rounds) == ("finished", "Done.", 2)
    assert said in played.read_prompt(1)


async def test_python_literals_in_arguments_are_read() -> None:
    played = await play(
        "gpt-4", [Reply(calls=(Call("look", "{'intent': 'see', 'text': 'a note'}"),)), finish("So [1].")]
    )
    assert played.text == "So [1]."


async def test_a_finish_among_other_calls_is_asked_for_again_when_their_results_are_there() -> None:
    both = Reply(calls=(look(SOURCE), Call("finish", {"intent": "end", "answer": "Blind."})))
    played = await play("gpt-4", [both, finish(REPORT)])
    assert played.text == REPORT
    assert "when you have read the results" in played.read_prompt(1)


async def test_a_report_in_prose_is_the_answer_and_is_sampled_once() -> None:
    played = await play("gpt-4", [Reply(calls=(look(SOURCE),)), Reply(text=REPORT)])
    assert (played.stop, played.text, played.rounds) == ("finished", REPORT, 2)


async def test_prose_that_the_limit_cuts_is_continued() -> None:
    cut = Reply(text="Apple rose by 80 % in 2020 [1]. The reason for this strong ri", finish="length")
    rest = Reply(text="The reason for this strong rise is demand.")
    played = await play("gpt-4", [Reply(calls=(look(SOURCE),)), cut, rest])
    assert played.text == "Apple rose by 80 % in 2020 [1]. The reason for this strong rise is demand."
    assert "was cut off" in played.read_prompt(2)


async def test_a_finish_that_the_limit_cuts_is_continued() -> None:
    cut = Reply(calls=(Call("finish", '{"intent": "end", "answer": "Apple rose by 80 % in 20'),), finish="length")
    played = await play("gpt-4", [Reply(calls=(look(SOURCE),)), cut, finish("rose by 80 % in 2020 [1].")])
    assert (played.stop, played.text) == ("finished", REPORT)
    assert "no JSON" not in played.read_prompt(2)
    assert played.far.refusals == [], "each call has its result"


async def test_a_call_that_the_limit_cuts_is_told_the_limit() -> None:
    cut = Reply(calls=(Call("look", '{"intent": "see", "text": "a very long'),), finish="length")
    played = await play("gpt-4", [cut, finish("Done.")])
    assert "your call was cut off at" in played.read_prompt(1)
    assert "no JSON" not in played.read_prompt(1)


async def test_an_answer_that_stays_cut_says_so_first_and_as_a_finding() -> None:
    script = [Reply(text=f"Part {n} of what has no end, {n}", finish="length") for n in range(9)]
    played = await play("gpt-4", script)
    assert (played.stop, played.rounds) == ("finished", 3)
    assert played.text.startswith("**Cut off:**")
    assert trajectory.FINDING_KIND_TRUNCATED in [mark.kind for mark in played.finished.answer.findings]


@pytest.mark.parametrize("finish_reason", ["stop", "content_filter"])
async def test_empty_replies_end_the_run_with_what_was_found(finish_reason: str) -> None:
    played = await play("gpt-4", [Reply(calls=(look(SOURCE),)), Reply(finish=finish_reason)], "How did Apple do?")
    assert (played.stop, played.rounds) == ("unfinished", 3)
    assert played.text.startswith("**No answer:**")
    assert ("content filter" in played.text) == (finish_reason == "content_filter")
    assert (list(played.finished.answer.cited), played.finished.answer.model) == ([1], "fathom")
    prompt = [played.far.requests[1].body["messages"], played.far.requests[2].body["messages"]]
    assert prompt[0] != prompt[1], "the same request is never sent twice"


async def test_the_same_call_again_and_again_is_offered_finish_alone_and_then_ended() -> None:
    played = await play("gpt-4", [Reply(calls=(look(SOURCE),))])
    assert (played.stop, played.rounds, played.list_tools(4)) == ("unfinished", 5, ["finish"])
    assert "went on repeating calls" in played.text
    assert SOURCE.removesuffix(".") in played.text, "what was found is listed"


async def test_a_model_that_never_stops_calling_tools_ends_with_its_budget_and_what_it_found() -> None:
    script = [lambda body, n=n: Reply(calls=(look(f"note {n}"),)) for n in range(40)]
    played = await play("gpt-4", script, max_rounds=8)
    assert (played.stop, played.rounds, played.list_tools(7)) == ("budget", 8, ["finish"])
    assert "This is the last round" in played.read_prompt(7)
    assert "- note 0" in played.text


async def test_a_finish_in_the_last_round_counts_behind_other_calls() -> None:
    last = Reply(calls=(look("more"), Call("finish", {"intent": "end", "answer": "In time [1]."})))
    played = await play("gpt-4", [Reply(calls=(look(SOURCE),)), last], max_rounds=2)
    assert (played.stop, played.text) == ("finished", "In time [1].")


async def test_budgets_bind_where_the_endpoint_counts_nothing() -> None:
    script = [lambda body, n=n: Reply(calls=(look(f"note {n}"),), usage={}) for n in range(40)]
    played = await play("gpt-4", script, ask={"budget": {"max_tokens": 100}})
    assert played.stop == "budget"
    assert played.rounds < 12
    assert played.finished.usage.completion_tokens > 0


async def test_cached_and_thought_tokens_and_the_cost_are_in_the_accounting() -> None:
    usage = {
        "prompt_tokens": 1_000, "completion_tokens": 500, "total_tokens": 1_500,
        "prompt_tokens_details": {"cached_tokens": 800}, "completion_tokens_details": {"reasoning_tokens": 400},
    }  # fmt: skip
    played = await play(
        "gpt-4", [Reply(calls=finish("Done.").calls, usage=usage)],
        model_profiles={"far": {"prompt_price": 10.0, "cached_price": 1.0, "completion_price": 20.0}},
    )  # fmt: skip
    used = played.finished.usage
    assert (used.prompt_tokens, used.cached_tokens, used.reasoning_tokens) == (1_000, 800, 400)
    assert used.cost == pytest.approx((200 * 10 + 800 * 1 + 500 * 20) / 1e6)
