"""Memory's RPCs: fields and times on the way in and out, tokens, what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.core import errors
from fathom.core.call import Call
from fathom.services.memory.config import Config
from fathom.services.memory.engine import Engine
from fathom.services.memory.retaining.erasing import Eraser
from fathom.services.memory.segments.middle import MiddleTerm
from fathom.services.memory.server import MemoryServicer
from fathom.transport.rpc.contract import contract

CALL = Call("req_1")


@pytest_asyncio.fixture
async def servicer(tmp_path: Path) -> AsyncIterator[MemoryServicer]:
    engine = Engine(tmp_path / "memory.sqlite3")
    await engine.start()
    yield MemoryServicer(engine, Config(), MiddleTerm(engine.database), Eraser(engine.database))
    await engine.close()


def append(number: int, **fields: Any) -> pb.AppendTurnRequest:
    turn = pb.Turn(question=f"q{number}", answer=f"It rose {number}.5%.", run_id=f"run_{number}", number=99)
    usual: dict[str, Any] = {"request_id": f"r{number}", "conversation_id": "c", "turn": turn}
    return pb.AppendTurnRequest(**(usual | fields))


async def test_turns_go_in_and_come_out(servicer: MemoryServicer) -> None:
    for number in range(1, 4):
        stored = (await servicer.AppendTurn(append(number), CALL)).turn
        assert (stored.number, stored.bullets[:]) == (number, [f"It rose {number}.5%."])
        assert stored.end_time.seconds > 1_700_000_000
    window = await servicer.GetWindow(pb.GetWindowRequest(conversation_id="c"), CALL)
    assert [bool(turn.answer) for turn in window.turns] == [False, True, True]
    first = await servicer.ListTurns(pb.ListTurnsRequest(conversation_id="c", page_size=2), CALL)
    request = pb.ListTurnsRequest(conversation_id="c", page_size=2, page_token=first.next_page_token)
    rest = await servicer.ListTurns(request, CALL)
    assert [turn.number for turn in (*first.turns, *rest.turns)] == [1, 2, 3]
    assert rest.next_page_token == ""
    with pytest.raises(errors.NotFound):
        await servicer.ListTurns(pb.ListTurnsRequest(conversation_id="d", page_token=""), CALL)
    with pytest.raises(errors.InvalidField, match="page_token"):
        await servicer.ListTurns(pb.ListTurnsRequest(conversation_id="d", page_token=first.next_page_token), CALL)


async def test_conversations(servicer: MemoryServicer) -> None:
    await servicer.AppendTurn(append(1), CALL)
    changed = await servicer.UpdateConversation(pb.UpdateConversationRequest(conversation_id="c", pinned=True), CALL)
    assert (changed.conversation.title, changed.conversation.pinned) == ("q1", True)
    (listed,) = (await servicer.ListConversations(pb.ListConversationsRequest(), CALL)).conversations
    assert (listed.id, listed.turns, listed.update_time.seconds > 1_700_000_000) == ("c", 1, True)
    feedback = pb.RecordFeedbackRequest(run_id="run_1", helpful=True, tags=["clear"], comment="good")
    assert await servicer.RecordFeedback(feedback, CALL) == pb.RecordFeedbackResponse()
    mended = pb.RecordFeedbackRequest(run_id="run_1", helpful=False, edited_answer="It is *seven*.")
    await servicer.RecordFeedback(mended, CALL)
    first = await servicer.ListFeedback(pb.ListFeedbackRequest(page_size=1), CALL)
    assert [(item.run_id, item.helpful, item.tags, item.comment) for item in first.feedback] == [
        ("run_1", True, ["clear"], "good")
    ]
    rest = await servicer.ListFeedback(pb.ListFeedbackRequest(page_token=first.next_page_token), CALL)
    assert [(item.helpful, item.edited_answer) for item in rest.feedback] == [(False, "It is *seven*.")]
    newest = pb.ListFeedbackRequest(page_size=1, run_id="run_1", own=True, newest_first=True)
    assert (await servicer.ListFeedback(newest, CALL)).feedback == rest.feedback
    assert rest.feedback[0].create_time.ToNanoseconds() >= first.feedback[0].create_time.ToNanoseconds() > 0
    assert not rest.next_page_token
    assert (await servicer.DeleteConversation(pb.DeleteConversationRequest(conversation_id="c"), CALL)).turns == 1


async def test_every_rpc_is_built_or_planned(servicer: MemoryServicer) -> None:
    built = {name for name in contract("memory").methods if hasattr(servicer, name)}
    assert built | set(servicer.unimplemented) == set(contract("memory").methods)
    assert not built & set(servicer.unimplemented)
