"""Tokens of a request: what the meter adds up is what the model's template renders, and each message is asked once."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.core.errors import InvalidField
from fathom.domain.chat.hermes import format_tool_call, parse_tool_calls
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Sampling, ToolSpec, Usage
from fathom.services.planner.model.episode import Episode, Limits, Step, Task
from fathom.services.planner.window.meter import ENTRY_BYTES, Meter, RequestOverhead, TokenCache
from tests.support.tokens import TOKENIZER, RulesTokens

TOOLS = (ToolSpec("data", "Fetches tables.", '{"type": "object", "properties": {"question": {"type": "string"}}}'),)
TASK = Task("run_1", "why?", "rules", Sampling(), Limits(9, 9_999, time.monotonic() + 60))


class Endpoint(RulesTokens):
    """A model that tells no ids."""

    async def count(self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], prompt: bool) -> int:
        raise InvalidField("model", "is behind an endpoint that gives no token ids")


class Picky(RulesTokens):
    """A template that takes no tool result behind a system message."""

    async def count(self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], prompt: bool) -> int:
        # As some chat templates do, which raise an error from within.
        if any(message.role is Role.TOOL for message in messages):
            raise InvalidField("messages", "a tool result needs a call")
        return await super().count(model, messages, tools, prompt)


def opening(question: str = "why?") -> tuple[Message, ...]:
    return (Message(Role.SYSTEM, "You are an analyst."), Message(Role.USER, question))


def completion(text: str, exact: bool = True, usage: Usage | None = None, prompt: Sequence[int] = ()) -> Completion:
    sampled = tuple(TOKENIZER.encode(f"{text}<|im_end|>")) if exact else ()
    calls = parse_tool_calls(text)[1]
    used = usage or Usage(len(prompt), len(sampled), 0, 1)
    log_probs = (0.0,) * len(sampled)
    reason = FinishReason.TOOL_CALLS
    return Completion(tuple(prompt), sampled, log_probs, text, calls, reason, 0, 0, used, exact, "rules")


contents = st.text(alphabet=st.characters(codec="utf-8"), max_size=200)


@given(st.lists(st.tuples(st.sampled_from([Role.USER, Role.ASSISTANT, Role.TOOL]), contents), max_size=6))
async def test_the_sum_of_messages_is_the_whole(said: list[tuple[Role, str]]) -> None:
    messages = (*opening(), *(Message(role, content) for role, content in said))
    # The whole conversation rendered at once is the witness.
    whole = len(TOKENIZER.encode(TOKENIZER.render(messages, TOOLS, True)))
    assert await Meter(RulesTokens(), "rules").count_messages(messages, TOOLS) == whole
    assert await Meter(RulesTokens(), "rules").count_request(Episode(TASK, ()), messages, TOOLS) == whole


async def test_a_round_asks_for_its_new_messages_only_and_counts_the_ids_as_they_are() -> None:
    rules, episode = RulesTokens(), Episode(TASK, opening())
    meter = Meter(rules, "rules")
    await meter.count_request(episode, opening(), TOOLS)
    prompt = TOKENIZER.encode(TOKENIZER.render(opening(), TOOLS, True))
    call = format_tool_call("data", {"question": "x"})
    episode.append(Step(0, opening(), completion(call, prompt=prompt)))
    rules.asked.clear()
    result = Message(Role.TOOL, "1,250 rows", tool_call_id="call_0")
    counted = await meter.count_request(episode, (result,), TOOLS)
    # One question to the tokenizer for the new result; everything before is known by its ids.
    assert len(rules.asked) == 1
    whole = (*opening(), Message(Role.ASSISTANT, call), result)
    assert counted == len(TOKENIZER.encode(TOKENIZER.render(whole, TOOLS, True)))
    rules.asked.clear()
    assert await meter.count_request(episode, (result,), TOOLS) == counted
    # The same view again costs nothing.
    assert not rules.asked


async def test_a_template_that_takes_no_lone_result_is_counted_by_its_text() -> None:
    result = Message(Role.TOOL, "twelve words " * 12)
    (counted,) = await Meter(Picky(), "rules").count_each([result])
    # The text's tokens, and eight for the role's markers.
    assert counted == len(TOKENIZER.encode(result.content)) + 8


@pytest.mark.parametrize("scale", [0.4, 1.0])
async def test_an_endpoint_without_ids_is_measured_by_its_own_usage(scale: float) -> None:
    meter, episode = Meter(Endpoint(), "far"), Episode(TASK, opening())
    blind = await meter.count_request(episode, opening(), TOOLS)
    assert blind > 20
    # The endpoint counts fewer tokens than we, or as many.
    real = int(2_000 * scale)
    texts = opening("word " * 2_000)
    episode.append(Step(0, texts, completion("more", exact=False, usage=Usage(real, 10))))
    result = Message(Role.TOOL, "word " * 400)
    counted = await meter.count_request(episode, (result,), TOOLS)
    # A fifth as many words as before are a fifth as many tokens, by its own count.
    fifth = real / 5
    # Overestimates compact a little early; underestimates would be refused.
    assert real + fifth * 0.8 <= counted <= max(real, 2_000) * 1.35 + 100


async def test_a_usage_that_cannot_be_is_not_believed() -> None:
    """An endpoint that says one token for a long request cannot keep it from being compacted."""
    episode = Episode(TASK, opening())
    # One token for 20,000 words, as an endpoint that counts only what its cache lacked.
    episode.append(Step(0, opening("word " * 20_000), completion("more", exact=False, usage=Usage(1, 1))))
    assert await Meter(Endpoint(), "far").count_request(episode, (), TOOLS) >= 20_000


async def test_what_one_episode_has_counted_no_other_asks_for_again() -> None:
    # Three counts are kept.
    rules, counted = RulesTokens(), TokenCache(most=3)
    await Meter(rules, "rules", counted).count_messages(opening(), TOOLS)
    asked = len(rules.asked)
    assert await Meter(rules, "rules", counted).count_messages(opening(), TOOLS) > 0
    assert len(rules.asked) == asked
    await Meter(rules, "other", counted).count_messages(opening(), TOOLS)
    assert len(rules.asked) == 2 * asked, "another model counts for itself"
    for number in range(5):
        await Meter(rules, "rules", counted).count_each(opening(f"{number}?"))
    # "0?" was pushed out by the later ones.
    await Meter(rules, "rules", counted).count_each(opening("0?"))
    assert len(rules.asked) > 2 * asked + 5, "and only the newest are kept"


def test_counts_that_are_held_take_bounded_memory_whatever_the_length_of_the_messages() -> None:
    tokens, most = TokenCache(most=50), 50

    def count(numbers: range) -> int:
        for number in numbers:
            text = f"{number} " * 10_000
            tokens.put("m", Message(Role.USER, text), number)
            tokens.put_overhead("m", (ToolSpec(f"tool{number}", text, "{}"),), RequestOverhead(number, 1))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        empty = tracemalloc.get_traced_memory()[0]
        once, twice = count(range(100)) - empty, count(range(100, 200)) - empty
    finally:
        tracemalloc.stop()
    # Two caches, of messages and of tools; what other threads allocate meanwhile is counted, too.
    assert 0.5 < once / (2 * most * ENTRY_BYTES) < 1.2
    assert 0.5 < twice / (2 * most * ENTRY_BYTES) < 1.2
    assert tokens.get("m", Message(Role.USER, "199 " * 10_000)) == 199
    assert tokens.get_overhead("m", [ToolSpec("tool199", "199 " * 10_000, "{}")]) == RequestOverhead(199, 1)
    assert tokens.get("m", Message(Role.USER, "0 " * 10_000)) is None
