"""A model that is in no table works on first contact: what its endpoint refuses by name is changed once and kept."""

from __future__ import annotations

import asyncio

import pytest

from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import Sampling
from tests.integration.policy.endpoints.asking import ANSWER, CALLS, QUESTION, continue_with, model
from tests.support.endpoint import FAMILIES, Family, Reply
from tests.support.endpoint.families import Body, Refusal, Sent, openai_error, refuse_field
from tests.support.endpoint.replies import Wire

ASKED = Sampling(temperature=0.7, top_p=0.9, seed=5)


def rename(name: str) -> Family:
    """Return a family under a name that is in no table."""
    return Family("unheard-of-2", FAMILIES[name].rules, FAMILIES[name].wire, FAMILIES[name].error)


@pytest.mark.parametrize("name", ["gpt-5", "deepseek", "kimi", "claude", "mistral"])
async def test_an_unknown_model_with_the_rules_of_any_family_answers(name: str) -> None:
    async with model(rename(name), CALLS, ANSWER, family="unknown") as far:
        first = await far.ask(sampling=ASKED)
        # Ids are the one rule that no message of a refusal explains; the fake endpoint's own are accepted.
        second = await far.ask((*QUESTION, *continue_with(first.completion)), sampling=ASKED)
        refused = len(far.far.refusals)
        await far.ask((*QUESTION, *continue_with(first.completion)), sampling=ASKED)
    assert second.completion.text == "Apple rose."
    assert len(far.far.refusals) == refused, "learned once"


async def test_a_limit_of_tokens_is_renamed_and_not_lost() -> None:
    async with model(rename("gpt-5"), ANSWER, family="unknown") as far:
        await far.ask(sampling=Sampling(max_tokens=50))
    assert far.far.requests[-1].body["max_completion_tokens"] == 50
    assert [str(correction) for correction in far.backend.learned.corrections] == [
        "max_tokens of requests renamed to max_completion_tokens"
    ]


async def test_requests_at_once_learn_the_same() -> None:
    async with model(rename("gpt-5"), ANSWER, family="unknown") as far:
        answers = await asyncio.gather(*(far.ask(sampling=ASKED) for _ in range(5)))
    assert [answer.completion.text for answer in answers] == ["Apple rose."] * 5
    assert len(far.backend.learned.corrections) == 3


async def test_a_thought_that_was_not_kept_is_filled_where_it_is_missed() -> None:
    async with model(rename("kimi"), CALLS, ANSWER, family="unknown") as far:
        first = await far.ask()
        said, *results = continue_with(first.completion)
        forgotten = type(said)(said.role, said.content, said.tool_calls)
        answered = await far.ask((*QUESTION, forgotten, *results))
    assert answered.completion.text == "Apple rose."


async def test_a_field_that_settings_add_is_never_dropped_in_silence() -> None:
    strict = Family("unheard-of-3", (refuse_field("reasoning_effort"),))
    async with model(strict, ANSWER, add={"reasoning_effort": "high"}) as far:
        with pytest.raises(InvalidField, match=r"models\.m\.add\.reasoning_effort"):
            await far.ask()
    assert len(far.far.requests) == 1


async def test_a_refusal_that_names_no_field_is_passed_on_at_once() -> None:
    async with model("bare", Reply(status=400, message="I do not like this")) as far:
        with pytest.raises(InvalidField, match="I do not like this"):
            await far.ask()
    assert len(far.far.requests) == 1


async def test_an_endpoint_that_refuses_whatever_it_is_sent_is_given_up() -> None:
    def refuse_all(body: Body, sent: Sent) -> Refusal | None:
        optional = sorted(set(body) - {"model", "messages", "stream", "tools"})
        name = optional[0] if optional else "messages"
        return Refusal(400, openai_error(f"Unsupported parameter: '{name}'", name))

    async with model(Family("never", (refuse_all,), Wire()), ANSWER) as far:
        with pytest.raises(InvalidField):
            await far.ask(sampling=Sampling(temperature=1.5, top_p=0.5, top_k=2, seed=3))
    assert len(far.far.requests) <= 7
