"""Conversations of two tenants that chose the same ids."""

from __future__ import annotations

import pytest

from fathom.core.call import Call, calling
from fathom.core.errors import NotFound
from fathom.services.memory.engine import Engine, Judgement, Turn
from tests.unit.memory.judgements import list_judgements

A, B, OPERATOR = Call.new(tenant="fund-7"), Call.new(tenant="fund-8"), Call.new()


async def remember(engine: Engine, call: Call, answer: str) -> None:
    with calling(call):
        await engine.append("run_1", "conv_1", Turn("why?", "", answer, "run_1"))
        await engine.record_feedback("fb_1", Judgement("run_1", True, (), answer))


async def test_equal_ids_of_two_tenants_are_two_conversations(engine: Engine) -> None:
    for call in (OPERATOR, A, B):
        await remember(engine, call, f"of {call.tenant}")
    for call in (OPERATOR, A, B):
        with calling(call):
            (turn,), _ = await engine.list_turns("conv_1")
            assert (turn.answer, turn.run) == (f"of {call.tenant}", "run_1")
            assert [item.comment for item in (await list_judgements(engine))] == [f"of {call.tenant}"]
            window, _ = await engine.get_window("conv_1", 2, 10)
            assert window[0].answer == f"of {call.tenant}"
            (listed,), _ = await engine.list_conversations()
            assert (listed.id, listed.turns) == ("conv_1", 1)


@pytest.mark.parametrize("call", [OPERATOR, B], ids=["default", "other"])
@pytest.mark.parametrize("guess", ["conv_1", "fund-7=conv_1"])
async def test_another_tenants_conversation_is_not_there(engine: Engine, call: Call, guess: str) -> None:
    await remember(engine, A, "secret")
    with calling(call):
        assert await engine.list_conversations() == ([], "")
        for ask in (engine.list_turns(guess), engine.update(guess, "mine", None), engine.delete(guess)):
            with pytest.raises(NotFound):
                await ask
        if "=" not in guess:
            assert await engine.get_window(guess, 2, 10) == ([], 0)
    with calling(A):
        (turn,), _ = await engine.list_turns("conv_1")
        assert turn.answer == "secret"


async def test_deleting_a_conversation_leaves_the_feedback_of_other_tenants(engine: Engine) -> None:
    for call in (A, B):
        await remember(engine, call, "same")
    with calling(B):
        assert await engine.delete("conv_1") == 1
    with calling(A):
        # Known still: another judgement under its request id would be a conflict.
        await engine.record_feedback("fb_1", Judgement("run_1", True, (), "same"))
        assert (await engine.list_conversations())[0][0].turns == 1


async def test_pages_go_on_among_the_tenants_own(engine: Engine) -> None:
    for call in (OPERATOR, A, B):
        with calling(call):
            for number in range(3):
                await engine.append(f"run_{number}", f"conv_{number}", Turn("why?", "", "so", ""))
    for call in (OPERATOR, A):
        with calling(call):
            found, token = [], ""
            while not found or token:
                page, token = await engine.list_conversations(1, token)
                found += [item.id for item in page]
            assert sorted(found) == ["conv_0", "conv_1", "conv_2"]
