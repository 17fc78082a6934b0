"""Thoughts of a model and what its endpoint wants back: in the record, shown once, and with the model after a kill."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.domain.chat.messages import Completion, Message, Role, Usage
from fathom.services.planner.proto.episode import step_from_proto
from tests.support.policy import PolicyRequest
from tests.unit.planner.house import House, Script, echo, finish
from tests.unit.planner.runs.test_durability import lost_after

LINES = (echo("a"), echo("b"), finish("It is so [1]."))


@dataclass
class Thinker(Script):
    """Script of a model that thinks in each round; it keeps the model's own messages that it was last shown."""

    shown: list[Message] = field(default_factory=list)

    def complete(self, request: PolicyRequest, text: str) -> Completion:
        self.shown = [message for message in request.view.messages if message.role is Role.ASSISTANT]
        usage = Usage(10, 5, 4, 1, reasoning_tokens=3, estimated=request.index == 1, cost=0.25)
        return replace(
            super().complete(request, text), reasoning=f"thought {request.index}", opaque_json=seal(request.index),
            usage=usage,
        )  # fmt: skip


def seal(index: int) -> str:
    return json.dumps({"origin": "thinker", "message": {"reasoning_content": f"thought {index}"}})


def thinking_house(lines: Sequence[str] = LINES) -> House:
    house = House(*lines, ack_wait_s=0.6)
    house.policy = Thinker(lines)
    house.release.set()
    return house


def thoughts(events: Sequence[pb.RunEvent]) -> list[str]:
    return [event.thought.text for event in events if event.thought.kind == "reasoning"]


@pytest.mark.parametrize("writes", [2, 5, 8, 11])
async def test_thoughts_survive_the_planner_and_go_back_to_the_model(writes: int) -> None:
    house = thinking_house()
    await house.ask()
    async with lost_after(house, writes), house.working(house.worker()):
        events = await house.events()
    assert thoughts(events) == ["thought 0", "thought 1", "thought 2"]
    assert isinstance(house.policy, Thinker)
    assert [message.opaque_json for message in house.policy.shown] == [seal(0), seal(1)]


async def test_the_record_has_thoughts_usage_and_cost() -> None:
    house = thinking_house()
    await house.ask()
    async with house.working():
        await house.events()
    trajectory = await house.record.get_trajectory("run_1")
    assert trajectory is not None
    steps = [step_from_proto(step) for step in trajectory.steps]
    assert [step.completion.reasoning for step in steps] == ["thought 0", "thought 1", "thought 2"]
    assert [step.completion.opaque_json for step in steps] == [seal(0), seal(1), seal(2)]
    usage = trajectory.usage
    assert (usage.reasoning_tokens, usage.estimated, usage.cost) == (9, True, 0.75)


async def test_a_run_with_thoughts_replays_to_the_same_hash() -> None:
    house = thinking_house()
    await house.ask()
    async with house.working():
        await house.events()
    response = await house.runs.replay("run_1")
    assert response.same, response.difference
