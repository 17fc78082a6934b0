"""What every engine must do alike: streams, ids, stops, ends, retries of a request, usage, the next turn."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from fathom.errors import Conflict, FathomError, InvalidField
from fathom.ids import new_id
from fathom.protocol.messages import Completion, FinishReason, Message, Role, Sampling, ToolCall, ToolFormat, ToolSpec
from services.policy.model import Request
from tests.integration.policy.conftest import TOOLS, Contender

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]
Ask = Callable[..., Coroutine[Any, Any, Completion]]


@pytest.fixture
def ask(contender: Contender) -> Ask:
    """Generates a case with changed fields; every answer must be the sum of its pieces."""

    async def run(case: str, **fields: Any) -> Completion:
        request = Request(**{"request_id": new_id("t"), "model": "", **contender.cases[case], **fields})
        items = [item async for item in contender.engine.generate(request, lambda: None)]
        completion = items[-1]
        assert isinstance(completion, Completion)
        assert all(isinstance(item, str) and item for item in items[:-1])
        assert "".join(item for item in items if isinstance(item, str)) == completion.text
        return completion

    return run


async def text_of(contender: Contender, ids: tuple[int, ...]) -> str:
    return await contender.engine.detokenize("", ids)


async def test_ids_are_those_sampled_and_text_is_theirs(contender: Contender, ask: Ask) -> None:
    completion = await ask("short")
    assert completion.exact is contender.exact is contender.engine.model("").exact
    if not contender.exact:
        assert completion.sampled_token_ids == completion.prompt_token_ids == completion.log_probs == ()
        with pytest.raises(InvalidField, match="token ids"):
            await text_of(contender, (1,))
        return
    whole = await text_of(contender, completion.sampled_token_ids)
    assert whole.removesuffix("<|im_end|>") == completion.text
    assert whole != completion.text
    assert len(completion.log_probs) == len(completion.sampled_token_ids)
    assert all(value <= 1e-6 and math.isfinite(value) for value in completion.log_probs)
    rendered = await contender.engine.tokenize("", contender.cases["short"]["messages"], (), True, "")
    assert list(completion.prompt_token_ids) == rendered
    assert completion.boundary_tokens == 0


async def test_it_streams(contender: Contender) -> None:
    """The first piece comes while the engine still works."""
    request = Request(new_id("t"), "", **contender.cases["long"], sampling=Sampling(max_tokens=200))
    items = contender.engine.generate(request, lambda: None)
    first = await anext(items)
    assert isinstance(first, str)
    assert contender.running() > 0
    rest = [item async for item in items]
    assert isinstance(rest[-1], Completion)
    assert rest[-1].text == first + "".join(item for item in rest if isinstance(item, str))


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5])
async def test_scores_are_the_log_probs_of_the_sampling(contender: Contender, ask: Ask, temperature: float) -> None:
    sampling = Sampling(temperature=temperature, top_k=40, top_p=0.95, max_tokens=48, seed=11)
    completion = await ask("call", sampling=sampling)
    ids = [*completion.prompt_token_ids, *completion.sampled_token_ids] or [1, 2]
    if not contender.scores:
        with pytest.raises(InvalidField, match="model"):
            await contender.engine.score("", [ids], temperature)
        return
    [scores, again], version = await contender.engine.score("", [ids, ids[:-1]], temperature)
    assert scores[0] == 0.0
    assert scores[-len(completion.log_probs) :] == pytest.approx(completion.log_probs, abs=2e-3)
    assert again == pytest.approx(scores[:-1], abs=2e-3)
    assert version == completion.version_min == completion.version_max == 0


async def test_a_seed_decides(contender: Contender, ask: Ask) -> None:
    hot = Sampling(temperature=2.0, max_tokens=24, seed=7)
    one, same, other = [await ask("call", sampling=replace(hot, seed=seed)) for seed in (7, 7, 8)]
    assert one.text == same.text
    assert one.sampled_token_ids == same.sampled_token_ids
    assert (one.text != other.text) is contender.endless


async def test_it_stops_after_the_token_that_completes_the_tag(contender: Contender, ask: Ask) -> None:
    free = await ask("tag")
    stopped = await ask("tag", sampling=Sampling(stop=("</answer>", "</search>")))
    assert stopped.finish_reason is FinishReason.STOP
    assert "</search>" in stopped.text
    assert free.text.startswith(stopped.text)
    if contender.exact:
        ids = stopped.sampled_token_ids
        assert free.sampled_token_ids[: len(ids)] == ids
        assert "</search>" in await text_of(contender, ids)
        assert "</search>" not in await text_of(contender, ids[:-1])
        assert len(stopped.log_probs) == len(ids)
    if contender.exact and contender.endless:
        assert stopped.text.endswith("</search>.")  # the tag ends inside a token, which is kept whole
    await contender.idle()


async def test_why_it_ended(contender: Contender, ask: Ask) -> None:
    ended = await ask("short")
    assert (ended.finish_reason, ended.tool_calls) == (FinishReason.STOP, ())
    called = await ask("call", tools=TOOLS) if contender.name == "rules" else await ask("call")
    assert called.finish_reason is FinishReason.TOOL_CALLS
    assert isinstance(json.loads(called.tool_calls[0].arguments_json), dict)
    assert called.tool_calls[0].name
    tagged = await ask("tag")
    assert (tagged.finish_reason, tagged.tool_calls) == (FinishReason.STOP, ())
    unread = await ask("call", tool_format=ToolFormat.TAGS)
    assert unread.tool_calls == ()
    cut = await ask("call", sampling=Sampling(max_tokens=3))
    assert cut.finish_reason is FinishReason.LENGTH
    assert cut.usage.completion_tokens == 3
    if contender.exact:
        assert len(cut.sampled_token_ids) == 3


async def test_usage_counts_everything(contender: Contender, ask: Ask) -> None:
    completion = await ask("short")
    usage = completion.usage
    assert 0 <= usage.cached_tokens < usage.prompt_tokens
    assert usage.completion_tokens > 0
    assert usage.duration_ms >= 0
    if contender.exact:
        assert usage.prompt_tokens == len(completion.prompt_token_ids)
        assert usage.completion_tokens == len(completion.sampled_token_ids)


async def test_a_request_id_runs_once(contender: Contender, ask: Ask) -> None:
    fields: dict[str, Any] = {"sampling": Sampling(temperature=1.5, max_tokens=30), "request_id": new_id("same")}
    one, two = await asyncio.gather(ask("call", **fields), ask("call", **fields))
    assert one is two
    assert await ask("call", **fields) is one
    with pytest.raises(Conflict):
        await ask("short", **fields)


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "cut"])
async def test_the_next_turn_appends(contender: Contender, ask: Ask, ended: bool) -> None:
    """Earlier ids come back verbatim; only what is new is rendered, and what closes the turn before is marked."""
    opening = (Message(Role.SYSTEM, "Be brief."), *contender.cases["call"]["messages"])
    sampling = Sampling(max_tokens=0 if ended else 4)
    first = await ask("call", messages=opening, tools=TOOLS, sampling=sampling)
    following = (*opening, Message(Role.ASSISTANT, first.text, first.tool_calls), *results(first))
    context = (*first.prompt_token_ids, *first.sampled_token_ids)
    second = await ask(
        "call",
        messages=following,
        tools=TOOLS,
        context_token_ids=context,
        context_messages=len(opening) + 1 if context else 0,
        sampling=Sampling(max_tokens=8),
    )
    if not contender.exact:
        assert second.prompt_token_ids == ()
        assert second.boundary_tokens == 0
        return
    boundary = await text_of(contender, second.prompt_token_ids[: second.boundary_tokens])
    assert boundary == ("\n" if first.sampled_token_ids[-1] == context_end(contender, first) else "<|im_end|>\n")
    assert second.usage.prompt_tokens == len(context) + len(second.prompt_token_ids)
    whole = await text_of(contender, (*context, *second.prompt_token_ids))
    assert whole == await text_of(contender, tuple(await contender.engine.tokenize("", following, TOOLS, True, "")))


def results(completion: Completion) -> tuple[Message, ...]:
    ids = [call.id for call in completion.tool_calls] or [""]
    return tuple(Message(Role.TOOL, '{"tool": "search", "status": "empty"}', tool_call_id=ident) for ident in ids)


def context_end(contender: Contender, completion: Completion) -> int:
    """The id that ends a turn, or -1 for a completion that was cut before it."""
    return -1 if completion.finish_reason is FinishReason.LENGTH else completion.sampled_token_ids[-1]


async def test_the_next_turn_reuses_what_was_computed(contender: Contender, ask: Ask) -> None:
    if not contender.granule:
        pytest.skip("nothing is computed, or far away")
    opening = (Message(Role.SYSTEM, f"{new_id('s')} {'the fox in the den ' * 20}"), Message(Role.USER, "short"))
    first = await ask("short", messages=opening, sampling=Sampling(max_tokens=20))
    assert first.usage.cached_tokens < 16 + contender.granule
    context = (*first.prompt_token_ids, *first.sampled_token_ids)
    following = (*opening, Message(Role.ASSISTANT, first.text), Message(Role.USER, "call"))
    fields: dict[str, Any] = {"messages": following, "sampling": Sampling(max_tokens=20)}
    second = await ask("call", **fields, context_token_ids=context, context_messages=3)
    assert len(context) - contender.granule <= second.usage.cached_tokens <= len(context)
    # The reuse changes nothing: scoring computes everything anew.
    ids = [*context, *second.prompt_token_ids, *second.sampled_token_ids]
    [scores], _ = await contender.engine.score("", [ids], 0.0)
    assert scores[-len(second.log_probs) :] == pytest.approx(second.log_probs, abs=2e-3)


SCHEMA = {
    "type": "object",
    "properties": {
        "rating": {"enum": ["good", "bad", "差"]},
        "pages": {"type": "integer", "minimum": 0, "maximum": 99},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 2},
    },
    "required": ["rating", "pages", "tags"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("temperature", [0.0, 2.0])
async def test_a_schema_is_followed(contender: Contender, ask: Ask, temperature: float) -> None:
    if not contender.schema:
        pytest.skip("this engine follows no schema: its callers read tolerantly")
    sampling = Sampling(temperature=temperature, max_tokens=200, seed=3)
    completion = await ask("short", sampling=sampling, response_schema_json=json.dumps(SCHEMA))
    assert completion.finish_reason is FinishReason.STOP
    jsonschema.validate(json.loads(completion.text), SCHEMA)
    if contender.exact:
        ids = [*completion.prompt_token_ids, *completion.sampled_token_ids]
        [scores], _ = await contender.engine.score("", [ids], temperature)
        assert scores[-len(completion.log_probs) :] == pytest.approx(completion.log_probs, abs=2e-3)


async def test_a_schema_that_is_none_is_refused(contender: Contender, ask: Ask) -> None:
    if not contender.schema:
        pytest.skip("this engine follows no schema: its callers read tolerantly")
    with pytest.raises(InvalidField) as raised:
        await ask("short", response_schema_json='{"type": "nonsense"}')
    assert raised.value.field in ("response_schema_json", "messages")  # an endpoint says it in its own words
    assert (await ask("short")).text


async def test_a_context_of_another_conversation_is_refused(contender: Contender, ask: Ask) -> None:
    if not contender.exact:
        pytest.skip("earlier ids are not sent to an endpoint")
    first = await ask("short")
    messages = (*contender.cases["short"]["messages"], Message(Role.ASSISTANT, first.text), Message(Role.USER, "x"))
    context = (*first.prompt_token_ids, *first.sampled_token_ids)
    for ids in (context[1:], (10**6, *context[1:]), (-1, *context[1:])):
        with pytest.raises(InvalidField, match="context_token_ids"):
            await ask("short", messages=messages, context_token_ids=ids, context_messages=2)
    with pytest.raises(InvalidField, match="context_token_ids"):
        await ask("short", messages=messages, context_messages=2)
    with pytest.raises(InvalidField, match="context_messages"):
        await ask("short", messages=messages, context_token_ids=context, context_messages=1)


@pytest.mark.parametrize("arguments", ['{"a": 1}', "not json", ""])
async def test_a_tool_that_nobody_offers_may_stand_in_the_history(
    contender: Contender, ask: Ask, arguments: str
) -> None:
    """A model may have called what does not exist; the conversation goes on."""
    [user] = contender.cases["short"]["messages"]
    call = ToolCall("c1", "no_such_tool", arguments)
    history = (user, Message(Role.ASSISTANT, "", (call,)), Message(Role.TOOL, "unknown tool", tool_call_id="c1"), user)
    completion = await ask("short", messages=history, tools=TOOLS, sampling=Sampling(max_tokens=8))
    assert completion.usage.completion_tokens > 0


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"sampling": Sampling(temperature=-0.1)}, "sampling.temperature"),
        ({"sampling": Sampling(temperature=float("nan"))}, "sampling.temperature"),
        ({"sampling": Sampling(temperature=float("inf"))}, "sampling.temperature"),
        ({"sampling": Sampling(top_p=0.0)}, "sampling.top_p"),
        ({"sampling": Sampling(top_p=1.5)}, "sampling.top_p"),
        ({"sampling": Sampling(top_k=-1)}, "sampling.top_k"),
        ({"sampling": Sampling(max_tokens=-1)}, "sampling.max_tokens"),
        ({"sampling": Sampling(stop=("",))}, "sampling.stop"),
        ({"sampling": Sampling(seed=-(2**70))}, "sampling.seed"),
        ({"messages": ()}, "messages"),
        ({"messages": (Message(Role.USER, "x"), Message(Role.ASSISTANT, "y"))}, "messages"),
        ({"tools": (ToolSpec("t", "d", "no json"),)}, "tools"),
        ({"tools": (ToolSpec("t", "d", "[]"),)}, "tools"),
        ({"response_schema_json": "no json"}, "response_schema_json"),
        ({"response_schema_json": "[1]"}, "response_schema_json"),
    ],
)
async def test_bad_input_names_its_field(contender: Contender, ask: Ask, fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidField) as raised:
        await ask("short", **fields)
    assert raised.value.field == name


async def test_a_heat_that_an_engine_does_not_know_is_named(contender: Contender, ask: Ask) -> None:
    sampling = Sampling(temperature=contender.hottest, max_tokens=4)
    assert (await ask("short", sampling=sampling)).usage.completion_tokens > 0
    with pytest.raises(InvalidField) as raised:
        await ask("short", sampling=replace(sampling, temperature=contender.hottest + 1))
    assert raised.value.field == "sampling.temperature"


async def test_a_conversation_over_the_window_is_refused(contender: Contender, ask: Ask) -> None:
    long = Message(Role.USER, "drawdown " * 20_000)
    with pytest.raises(InvalidField) as raised:
        await ask("short", messages=(long,))
    assert raised.value.field == "messages"
    assert "window" in raised.value.message
    await contender.idle()


async def test_company_changes_nothing(contender: Contender, ask: Ask) -> None:
    cases = ["short", "call", "tag", "short", "call", "tag", "long", "short", "call", "tag"]
    limits = [0, 0, 0, 5, 11, 17, 60, 0, 0, 0]
    alone = [await ask(c, sampling=Sampling(max_tokens=n)) for c, n in zip(cases, limits, strict=True)]
    together = await asyncio.gather(
        *(ask(c, sampling=Sampling(max_tokens=n)) for c, n in zip(cases, limits, strict=True))
    )
    for one, other in zip(alone, together, strict=True):
        assert one.text == other.text
        assert one.sampled_token_ids == other.sampled_token_ids
        assert one.log_probs == pytest.approx(other.log_probs, abs=2e-3)


async def test_long_prompts_come_together(contender: Contender, ask: Ask) -> None:
    """More than an engine computes in one step, each with a seed of its own."""
    prompts = [(Message(Role.USER, f"{index} " + "the fox in the den " * 16),) for index in range(20)]
    sampling = Sampling(temperature=1.0, max_tokens=6, seed=5)
    alone = [await ask("short", messages=messages, sampling=sampling) for messages in prompts[:3]]
    together = await asyncio.gather(*(ask("short", messages=messages, sampling=sampling) for messages in prompts))
    assert [item.sampled_token_ids for item in together[:3]] == [item.sampled_token_ids for item in alone]
    assert all(item.usage.completion_tokens <= 6 for item in together)


async def test_tokens_of_text_and_back(contender: Contender) -> None:
    text = 'a </search>.b "引号" 🦊 the fox'
    if not contender.exact:
        with pytest.raises(InvalidField, match="token ids"):
            await contender.engine.tokenize("", (), (), False, text)
        return
    ids = await contender.engine.tokenize("", (), (), False, text)
    assert await text_of(contender, tuple(ids)) == text
    with pytest.raises(InvalidField, match="token_ids"):
        await text_of(contender, (10**7,))
    with pytest.raises(FathomError):
        await contender.engine.tokenize("", (Message(Role.USER, "x"),), (), False, text)
