"""Streams as endpoints write them: any index convention, thoughts in any place, breaks, silence, floods."""

from __future__ import annotations

import json

import pytest

from fathom.core.errors import DeadlineExceeded, DependencyFailed, PayloadTooLarge
from fathom.domain.chat.messages import FinishReason, Sampling, ToolFormat
from fathom.services.policy.model import Request
from tests.integration.policy.endpoints.asking import ANSWER, CALLS, QUESTION, model
from tests.support.endpoint import Call, Family, Reply
from tests.support.endpoint.replies import Wire

LONG = Reply(text="Apple rose by a third in that year, gold did not.")


@pytest.mark.parametrize("indices", ["counted", "zero", "missing", "from_one"])
@pytest.mark.parametrize("manner", ["pieces", "whole_calls", "names_repeated", "arguments_as_object"])
async def test_parallel_calls_come_together_under_any_convention(indices: str, manner: str) -> None:
    manners = {} if manner == "pieces" else {manner: True}
    wire = Wire(indices=indices, **manners)  # type: ignore[arg-type]
    calls = (Call("data", {"query": "Apple"}), Call("python", {"code": "print({})"}), Call("data", {}))
    async with model(Family("far", (), wire), Reply(calls=calls)) as far:
        answered = await far.ask()
    found = [(call.name, json.loads(call.arguments_json)) for call in answered.completion.tool_calls]
    assert found == [("data", {"query": "Apple"}), ("python", {"code": "print({})"}), ("data", {})]
    assert answered.completion.finish_reason is FinishReason.TOOL_CALLS


@pytest.mark.parametrize(
    ("deltas", "names"),
    [
        ([{"tool_calls": [{"function": {"name": "a", "arguments": "{}"}}, {"function": {"name": "b", "arguments": "{}"}}]}], "ab"),
        ([{"tool_calls": [{"index": 0, "function": {"name": n, "arguments": "{}"}}]} for n in "ab"], "ab"),
        ([{"tool_calls": [{"index": 0, "id": "", "function": {"name": "a", "arguments": p}}]} for p in ('{"x"', ":1}")], "a"),
        ([{"tool_calls": [{"index": 0, "function": {"name": "a", "arguments": '{"x"'}}]},
          {"tool_calls": [{"index": 0, "id": "late", "function": {"arguments": ":1}"}}]}], "a"),
    ],
    ids=["no ids and no indices", "one index for whole calls", "name in each piece", "id behind the first piece"],
)  # fmt: skip
async def test_calls_without_ids_are_told_apart(deltas: list[dict[str, object]], names: str) -> None:
    async with model("bare", Reply(deltas=deltas, finish="tool_calls")) as far:
        answered = await far.ask()
    calls = answered.completion.tool_calls
    assert "".join(call.name for call in calls) == names
    assert all(isinstance(json.loads(call.arguments_json), dict) for call in calls)


@pytest.mark.parametrize(
    ("content", "thought", "text"),
    [
        ("<think>a b</think>\n\nc", "a b", "c"),
        ("<thinking>a</thinking>c<think>b</think>d", "ab", "cd"),
        ("<think>never closed", "never closed", ""),
        ("began before\n</think>\n\nc", "began before\n", "c"),
        ("a < b and b > c", "", "a < b and b > c"),
        ('<think>hm <tool_call>\n{"name": "data", "arguments": {}}\n</tool_call>', "hm ", None),
    ],
)
async def test_tags_in_content_are_thoughts(content: str, thought: str, text: str | None) -> None:
    async with model("bare", Reply(text=content)) as far:
        answered = await far.ask()
    assert answered.completion.reasoning == thought
    if text is None:
        assert [call.name for call in answered.completion.tool_calls] == ["data"]
    else:
        assert answered.completion.text == text


async def test_a_model_that_begins_within_its_thought_is_known_after_one_reply() -> None:
    async with model("vllm", ANSWER, family="unknown") as far:
        await far.ask()
        answered = await far.ask()
    assert "".join(answered.texts) == "Apple rose."
    assert "".join(answered.thoughts).strip() == "Now I know."


async def test_protocol_tags_stay_in_the_text() -> None:
    async with model("bare", Reply(text="<think>a</think><search>q</search>, more")) as far:
        asked = {"tool_format": ToolFormat.TAGS, "sampling": Sampling(stop=("</search>",))}
        answered = await far.ask(**asked)  # type: ignore[arg-type]
    assert answered.completion.text == "<think>a</think><search>q</search>" == "".join(answered.texts)


@pytest.mark.parametrize("fault", ["break_after", "end_after"])
async def test_a_reply_that_breaks_off_is_asked_for_again_and_goes_on_where_it_was(fault: str) -> None:
    async with model("bare", Reply(text=LONG.text, **{fault: 3}), LONG) as far:  # type: ignore[arg-type]
        answered = await far.ask()
    assert answered.completion.text == LONG.text == "".join(answered.texts)
    assert len(far.far.requests) == 2


async def test_a_reply_that_begins_otherwise_after_a_break_comes_with_the_completion() -> None:
    async with model("bare", Reply(text=LONG.text, break_after=3), Reply(text="Gold fell.")) as far:
        answered = await far.ask()
    assert answered.completion.text == "Gold fell."
    assert "Gold" not in "".join(answered.texts)


@pytest.mark.parametrize(("reply", "requests"), [(Reply(text=LONG.text, break_after=3), 3), (Reply(end_after=1), 1)])
async def test_a_reply_that_breaks_off_again_and_again_is_given_up(reply: Reply, requests: int) -> None:
    async with model("bare", reply) as far:
        with pytest.raises(DependencyFailed, match="broke off"):
            await far.ask()
    # Before its first piece it is the caller's turn to try again.
    assert len(far.far.requests) == requests


async def test_silence_after_the_first_byte_is_named_and_costs_one_pause() -> None:
    async with model("bare", Reply(text=LONG.text, silent_after=1), timeout_s=0.2) as far:
        with pytest.raises(DeadlineExceeded, match=r"sent nothing for 0\.2 s \(timeout_s\)") as raised:
            await far.ask()
        assert raised.value.metadata["culprit"] == "m"
        await far.far.left.wait()
    assert len(far.far.requests) == 1


async def test_a_flood_is_refused_and_the_connection_closed() -> None:
    async with model("bare", Reply(text="x" * 100_000, endless=True)) as far:
        with pytest.raises(PayloadTooLarge):
            await far.ask()
        await far.far.left.wait()


async def test_an_endpoint_that_ignores_streaming_is_read_all_the_same() -> None:
    whole = {
        "choices": [{"message": {"content": "Apple rose."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3},
    }
    async with model("bare", Reply(body=json.dumps(whole, indent=1))) as far:
        answered = await far.ask()
    assert answered.completion.text == "Apple rose."
    assert answered.completion.usage.prompt_tokens == 3


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("length", FinishReason.LENGTH), ("content_filter", FinishReason.CONTENT_FILTER), ("stop", FinishReason.STOP),
        ("eos", FinishReason.STOP),
    ],
)  # fmt: skip
async def test_the_caller_learns_why_a_reply_ended(finish: str, reason: FinishReason) -> None:
    async with model("bare", Reply(text="Apple", finish=finish)) as far:
        assert (await far.ask()).completion.finish_reason is reason


async def test_a_prompt_that_a_filter_refuses_is_a_filtered_completion() -> None:
    body = json.dumps({"error": {"code": "content_filter", "message": "The response was filtered"}})
    async with model("bare", Reply(status=400, body=body)) as far:
        completion = (await far.ask()).completion
    assert (completion.text, completion.finish_reason) == ("", FinishReason.CONTENT_FILTER)


async def test_leaving_closes_the_connection() -> None:
    async with model("bare", Reply(text="word ", endless=True)) as far:
        items = far.backend.generate(Request("r", "m", QUESTION))
        assert await anext(items)
        await items.aclose()
        await far.far.left.wait()


async def test_several_calls_stream_as_they_would_be_written() -> None:
    async with model("deepseek", CALLS) as far:
        answered = await far.ask()
    assert "".join(answered.texts).count("<tool_call>") == 2
