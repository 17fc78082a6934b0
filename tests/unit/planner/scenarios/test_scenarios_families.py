"""Thinking models and strict endpoints, on the whole path from their first reply to the answer."""

from __future__ import annotations

import json

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from tests.support.endpoint import FAMILIES, Call, Reply
from tests.unit.planner.scenarios.path import finish, look, play

SECRET = "sk-0123456789abcdefghijklmnop"


@pytest.mark.parametrize("family", sorted(FAMILIES))
async def test_every_family_answers_over_several_rounds(family: str) -> None:
    script = [
        Reply(reasoning="SECRET-THOUGHT: first the note.", calls=(look("a note"), look("another note"))),
        Reply(reasoning="SECRET-THOUGHT: once more.", calls=(look("a third note"),)),
        Reply(reasoning="SECRET-THOUGHT: done.", calls=finish("It is so [1][2][3].").calls),
    ]
    played = await play(family, script)
    assert (played.stop, played.text) == ("finished", "It is so [1][2][3]."), played.finished.error


@pytest.mark.parametrize("family", ["minimax", "vllm", "deepseek", "ollama", "mistral", "openrouter"])
async def test_a_thought_is_shown_folded_and_never_inside_the_answer(family: str) -> None:
    played = await play(family, [Reply(reasoning="SECRET-THOUGHT", text="It is so.")])
    assert (played.stop, played.text) == ("finished", "It is so.")
    thoughts = [event.thought for event in played.events if event.HasField("thought")]
    assert [(thought.kind, thought.text.strip()) for thought in thoughts] == [("reasoning", "SECRET-THOUGHT")]
    drafts = "".join(event.answer_delta.text for event in played.events if event.HasField("answer_delta"))
    assert "SECRET-THOUGHT" not in drafts


async def test_a_stream_that_breaks_before_anything_was_done_is_begun_again() -> None:
    broken = Reply(calls=(look("a note"),), end_after=1)
    played = await play("gpt-4", [broken, Reply(calls=(look("a note"),)), finish("So [1].")])
    assert (played.stop, played.text) == ("finished", "So [1].")


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_no_key_reaches_the_reader(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_KEY", SECRET)
    refused = Reply(status=status, message=f"Incorrect API key provided: {SECRET}.")
    played = await play("gpt-4", [refused], model={"api_key_env": "FAR_KEY"})
    assert played.stop == "failed"
    assert played.finished.error
    said = "\n".join(str(event) for event in played.events)
    assert SECRET not in said
    assert SECRET[-12:] not in said


async def test_a_model_that_thinks_by_itself_is_not_offered_think() -> None:
    profile = {"model_profiles": {"far": {"is_thinking": True}}}
    played = await play("deepseek", [Reply(calls=(look("a note"),)), finish("So [1].")], **profile)  # type: ignore[arg-type]
    assert [played.list_tools(0), played.list_tools(1)] == [["finish", "look"]] * 2


@pytest.mark.parametrize(
    ("effort", "wanted", "tokens"),
    [(pb.EFFORT_QUICK, "low", 8_192), (pb.EFFORT_STANDARD, None, 32_768), (pb.EFFORT_DEEP, "high", 19_660)],
)
async def test_an_effort_sets_thinking_and_room_of_each_completion(
    effort: pb.Effort, wanted: str | None, tokens: int
) -> None:
    played = await play("gpt-5", [finish("Done.")], ask={"effort": effort})
    body = played.far.requests[-1].body
    assert (body.get("reasoning_effort"), body["max_completion_tokens"]) == (wanted, tokens)


async def test_an_endpoint_that_knows_no_effort_is_asked_without() -> None:
    played = await play("mistral", [finish("Done.")], ask={"effort": pb.EFFORT_DEEP})
    assert (played.stop, played.text) == ("finished", "Done.")
    assert "reasoning_effort" not in played.far.requests[-1].body


async def test_what_a_model_got_wrong_is_sent_back_in_a_form_that_every_endpoint_reads() -> None:
    cut = Reply(calls=(Call("finish", '{"intent": "end", "answer": "It is s'),), finish="length")
    played = await play("gpt-4", [cut, Reply(), finish("It is so.")])
    assert (played.stop, played.text) == ("finished", "It is so.")
    for request in played.far.requests:
        for message in request.body["messages"]:
            assert message.get("content") or message.get("tool_calls"), "nothing empty"
            for call in message.get("tool_calls") or ():
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert "It is s" in json.dumps(played.far.requests[1].body["messages"]), "the model sees what it had written"
