"""A rollout in a conversation of the memory service is given what a user's run of it is given, byte for byte."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.call import Call
from fathom.core.errors import InvalidField, PermissionDenied
from fathom.domain.consent import Consent, ConsentRecords
from fathom.services.memory.config import Config
from fathom.services.memory.engine import Engine
from fathom.services.memory.retaining.erasing import Eraser
from fathom.services.memory.segments.middle import MiddleTerm
from fathom.services.memory.server import MemoryServicer
from tests.unit.planner.rollouts.test_same_environment import AUTO, INSTANT, WORKFLOW, Both

CALL = Call.new()


@pytest_asyncio.fixture
async def house(tmp_path: Path) -> AsyncIterator[Both]:
    """Yield a planner with the real memory, in which two turns with a table each have been remembered."""
    engine = Engine(tmp_path / "memory.sqlite3")
    await engine.start()
    config = Config(path=tmp_path / "memory.sqlite3")
    servicer = MemoryServicer(engine, config, MiddleTerm(engine.database), Eraser(engine.database))

    async def get_window(request: memory.GetWindowRequest) -> memory.GetWindowResponse:
        return await servicer.GetWindow(request, CALL)

    async def append_turn(request: memory.AppendTurnRequest) -> memory.AppendTurnResponse:
        return await servicer.AppendTurn(request, CALL)

    ours = Both()
    ours.clients.__dict__["memory"] = SimpleNamespace(get_window=get_window, append_turn=append_turn)
    for number, name in enumerate(("Apple", "Gold"), 1):
        run_id = f"run_{name.lower()}"
        async with ours.working():
            await ours.ask(run_id, question=f"How did {name} do?", conversation_id="conv_1", consent=GIVEN)
            await ours.events(run_id)
        await add_table(ours, run_id, number, name)
    yield ours
    await engine.close()


GIVEN = trajectory.CONSENT_GIVEN


async def add_table(ours: Both, run_id: str, number: int, name: str) -> None:
    """Write a table into a run's record, as if one of its tools had made it."""
    ended = await ours.record.find_end(run_id)
    assert ended is not None
    record, stored = ended
    sheet = Sheet(id=f"sheet-{name}", title=f"Prices of {name}", rows=3)
    sheet.data.size_bytes = 10
    record.steps[0].material.add(number=1, sheet=sheet, variable=f"sheet_{number}")
    await ours.record.put_trajectory(record, stored.key)


def follow_up(turns: int, **more: Any) -> dict[str, Any]:
    return {"conversation_id": "conv_1", "conversation_turns": turns, **more}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "as of a day": ({}, {"as_of": INSTANT}),
    "after turns of the caller's own": (
        {}, {"history": [policy.Message(role=policy.ROLE_USER, content="Be short.")]}
    ),
    "routed": ({"protocol": AUTO}, {"question": "and Microsoft?"}),
    "workflow": ({"protocol": WORKFLOW}, {"question": "and Microsoft?"}),
    "deep": ({"effort": pb.EFFORT_DEEP}, {"question": "and Microsoft?"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_run_and_rollout_of_a_conversation_ask_the_model_for_the_same(house: Both, name: str) -> None:
    asked, task = CASES[name]
    run, production = await house.run(**asked, **task, conversation_id="conv_1")
    # The run is a turn of the conversation now, which had not been there when its question was asked.
    rollout, training = await house.roll(follow_up(2, **task), **asked)
    assert len(run) >= 2
    assert rollout == run
    assert training.given == production.given
    if name != "workflow":
        assert "How did Apple do?" in run[0][0].decode()
        assert [item.variable for item in training.given] == ["sheet_1", "sheet_2"]


async def test_an_earlier_turn_has_the_conversation_of_then(house: Both) -> None:
    """Whatever was said since, in the same conversation, is unknown to the episode."""
    first, one = await house.roll(follow_up(1))
    text = first[0][0].decode()
    assert "How did Apple do?" in text
    assert "Gold" not in text
    assert [item.variable for item in one.given] == ["sheet_1"]
    await house.run(conversation_id="conv_1")
    again, _ = await house.roll(follow_up(1))
    assert again == first


async def test_a_conversation_without_consent_of_all_its_runs_is_not_trained_on(house: Both) -> None:
    records = ConsentRecords(house.record.store)
    await records.put_run("run_gold", Consent.REFUSED, "ann")
    with pytest.raises(PermissionDenied, match="turn 2 of conversation conv_1") as refused:
        await house.roll(follow_up(2))
    assert refused.value.metadata["field"] == "tasks[0].conversation_id"
    assert house.requests == [], "nothing has been sampled"
    # The turn before it has been given.
    await house.roll(follow_up(1))
    await records.put_run("run_gold", Consent.GIVEN, "ann")
    await house.roll(follow_up(2))


async def test_nothing_stated_is_a_refusal(house: Both) -> None:
    await house.run(conversation_id="conv_2")
    with pytest.raises(PermissionDenied, match="turn 1 of conversation conv_2"):
        await house.roll(follow_up(1, conversation_id="conv_2"))


@pytest.mark.parametrize(
    ("fields", "task", "field"),
    [
        ({}, {"conversation_id": "conv_1"}, "tasks[0].conversation_turns"),
        ({}, {"conversation_turns": 1}, "tasks[0].conversation_turns"),
        ({}, follow_up(3), "tasks[0].conversation_turns"),
        ({}, follow_up(1, conversation_id="conv_unknown"), "tasks[0].conversation_turns"),
        ({}, follow_up(1, conversation_id="a/b"), "tasks[0].conversation_id"),
        ({}, follow_up(1, sheets=[Sheet(id="s")]), "tasks[0].sheets"),
        ({"protocol": trajectory.PROTOCOL_SEARCH_R1}, follow_up(1), "tasks[0].conversation_id"),
    ],
)
async def test_what_no_conversation_can_be_is_refused(
    house: Both, fields: dict[str, Any], task: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        await house.roll(task, **fields)
    assert caught.value.field == field
