"""Test what every engine must do alike from turn to turn: append, reuse, refuse what is of another conversation."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.core.errors import InvalidField
from fathom.core.ids import new_id
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Sampling, ToolCall
from tests.integration.policy.conftest import TOOLS, Ask, Contender, text_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


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
    # A turn that was cut has no end of its own: the template's is put there, and marked as not sampled.
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
    # An id that no earlier test has used, right at the start: nothing of the prefix can be known.
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


async def test_a_context_of_another_conversation_is_refused(contender: Contender, ask: Ask) -> None:
    if not contender.exact:
        pytest.skip("earlier ids are not sent to an endpoint")
    first = await ask("short")
    messages = (*contender.cases["short"]["messages"], Message(Role.ASSISTANT, first.text), Message(Role.USER, "x"))
    context = (*first.prompt_token_ids, *first.sampled_token_ids)
    # One id short, one that the vocabulary lacks, and one that would count from its end.
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
