"""A question that names the turn it follows: asked again, otherwise, or as a branch, over the real memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from fathom.api.common.v1.common_pb2 import LANE_INTERACTIVE
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.call import Call
from fathom.core.errors import InvalidField
from fathom.services.memory.config import Config
from fathom.services.memory.engine import Engine, Turn
from fathom.services.memory.retaining.erasing import Eraser
from fathom.services.memory.segments.middle import MiddleTerm
from fathom.services.memory.server import MemoryServicer
from fathom.services.planner.runs.branching import make_header
from fathom.services.planner.runs.conversation import find_parent
from tests.unit.planner.house import House, finish


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    """Return a memory with a conversation of two turns."""
    engine = Engine(tmp_path / "memory.sqlite3")
    await engine.start()
    for text in ("one", "two"):
        await engine.append(text, "conv_1", Turn(f"{text}?", "", f"It is {text}.", ""))
    yield engine
    await engine.close()


def make_house(engine: Engine) -> House:
    servicer = MemoryServicer(engine, Config(), MiddleTerm(engine.database), Eraser(engine.database))
    call = Call("req_1")

    async def get_window(request: memory.GetWindowRequest, timeout_s: float = 0.0) -> memory.GetWindowResponse:
        return await servicer.GetWindow(request, call)

    async def append_turn(request: memory.AppendTurnRequest) -> memory.AppendTurnResponse:
        return await servicer.AppendTurn(request, call)

    house = House(finish("It is so."))
    house.clients.__dict__["memory"] = SimpleNamespace(get_window=get_window, append_turn=append_turn)
    return house


async def play(house: House, **asked: Any) -> list[str]:
    """Return what the model is shown of the conversation."""
    await house.ask(conversation_id="conv_1", **asked)
    async with house.working():
        await house.events()
    opening = (await house.runs.get("run_1", LANE_INTERACTIVE)).trajectory.steps[0].new_messages
    return [message.content for message in opening[1:-1]]


@pytest.mark.parametrize(
    ("asked", "shown", "parent"),
    [
        ({"parent_turn": 1}, ["one?", "It is one."], 1),
        ({"parent_turn": 0}, [], 0),
        ({}, ["one?", "It is one.", "two?", "It is two."], 2),
    ],
)
async def test_a_run_knows_what_leads_to_it_and_its_turn_stands_there(
    engine: Engine, asked: dict[str, int], shown: list[str], parent: int
) -> None:
    house = make_house(engine)
    assert await play(house, question="again?", **asked) == shown
    newest = (await engine.list_turns("conv_1"))[0][-1]
    assert (newest.number, newest.parent, newest.question) == (3, parent, "again?")
    assert (await house.runs.replay("run_1")).same


@pytest.mark.parametrize(
    "asked",
    [
        {"conversation_id": "conv_1", "parent_turn": 3},
        {"conversation_id": "conv_1", "parent_turn": -1},
        {"conversation_id": "conv_2", "parent_turn": 1},
        {"parent_turn": 0},
    ],
)
async def test_a_turn_that_the_conversation_has_not_is_refused_by_name(engine: Engine, asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidField, match="parent_turn"):
        await make_house(engine).ask(**asked)


async def test_a_branch_of_a_run_begins_a_conversation_of_its_own(engine: Engine) -> None:
    house = make_house(engine)
    await play(house, parent_turn=1)
    header = await house.record.get_header("run_1")
    assert find_parent(header) == 1
    branch = pb.BranchRunRequest(request_id="run_2", run_id="run_1", steps=0)
    assert find_parent(make_header(header, "run_2", branch, "s")) is None
