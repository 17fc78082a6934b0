"""Test what every engine must do alike: streams, ids, stops, ends, retries of a request, usage, company."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace
from typing import Any

import pytest

from fathom.core.errors import Conflict, FathomError, InvalidField
from fathom.core.ids import new_id
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Sampling, ToolFormat
from fathom.services.policy.model import Request
from tests.integration.policy.conftest import TOOLS, Ask, Contender, text_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_ids_are_those_sampled_and_text_is_theirs(contender: Contender, ask: Ask) -> None:
    completion = await ask("short")
    assert completion.exact is contender.exact is contender.engine.get_model("").exact
    if not contender.exact:
        assert completion.sampled_token_ids == completion.prompt_token_ids == completion.log_probs == ()
        with pytest.raises(InvalidField, match="token ids"):
            await text_of(contender, (1,))
        return
    whole = await text_of(contender, completion.sampled_token_ids)
    assert whole.removesuffix("<|im_end|>") == completion.text
    assert whole != completion.text
    assert len(completion.log_probs) == len(completion.sampled_token_ids)
    # Logarithms of probabilities: above zero by rounding alone.
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
    # Engines without ids are to refuse any.
    ids = [*completion.prompt_token_ids, *completion.sampled_token_ids] or [1, 2]
    if not contender.scores:
        with pytest.raises(InvalidField, match="model"):
            await contender.engine.score("", [ids], temperature)
        return
    # The same conversation without its last token: a longer neighbour in the batch must not change it.
    [scores, again], version = await contender.engine.score("", [ids, ids[:-1]], temperature)
    assert scores[0] == 0.0
    # Sampled token by token with a cache, scored in one pass: the same sums in another order.
    assert scores[-len(completion.log_probs) :] == pytest.approx(completion.log_probs, abs=2e-3)
    assert again == pytest.approx(scores[:-1], abs=2e-3)
    assert version == completion.version_min == completion.version_max == 0


async def test_a_seed_decides(contender: Contender, ask: Ask) -> None:
    # Hot, so that two seeds that give the same words would be no chance.
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
    # Three tokens end no call: the reason is the limit, and nothing half written is read as a call.
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
    # Without a seed: two runs of it would hardly say the same.
    fields: dict[str, Any] = {"sampling": Sampling(temperature=1.5, max_tokens=30), "request_id": new_id("same")}
    one, two = await asyncio.gather(ask("call", **fields), ask("call", **fields))
    assert one is two
    assert await ask("call", **fields) is one
    with pytest.raises(Conflict):
        await ask("short", **fields)


async def test_company_changes_nothing(contender: Contender, ask: Ask) -> None:
    cases = ["short", "call", "tag", "short", "call", "tag", "long", "short", "call", "tag"]
    # Of different lengths and ends, so that a batch gains and loses rows at different steps.
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
    # A tag that ends inside a token, Chinese, and a character of four bytes: what byte-level tokenizers split.
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
