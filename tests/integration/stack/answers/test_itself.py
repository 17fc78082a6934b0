"""Questions about the system itself through every service: which data there are, and what it cannot know."""

from __future__ import annotations

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.services.local import Endpoints
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]


async def answer(stack: Stack, question: str, protocol: trajectory.Protocol) -> tuple[str, list[str]]:
    """The answer to a question, and the tools that were called for it."""
    _, clients = stack

    async def is_classified() -> bool:
        return not (await clients.planner.route_question(pb.RouteQuestionRequest(question=question))).unsure

    # The encoder loads beside the first questions, which are then researched.
    await eventually(is_classified, within_s=60, every_s=0.5)
    events = [event async for event in run(clients, pb.RunRequest(question=question, protocol=protocol))]
    run_id = next(event.run_id for event in events if event.run_id)
    steps = (await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))).trajectory.steps
    tools = [result.tool for step in steps for result in step.tool_results]
    return events[-1].finished.answer.markdown, tools


@pytest.mark.parametrize(
    ("question", "kinds"),
    [("What data do you have?", ("Stocks", "Currencies", "21 in all")), ("你们有哪些数据", ("股票", "货币", "共21个"))],
)
async def test_the_data_that_there_are_are_named(stack: Stack, question: str, kinds: tuple[str, ...]) -> None:
    text, tools = await answer(stack, question, trajectory.PROTOCOL_RESEARCH)
    assert "search" not in tools
    assert all(kind in text for kind in kinds), text
    assert "1990-01-02" in text


@pytest.mark.parametrize("protocol", [trajectory.PROTOCOL_RESEARCH, trajectory.PROTOCOL_AUTO])
async def test_what_nobody_here_can_know_is_handed_off_without_evidence(
    stack: Stack, protocol: trajectory.Protocol
) -> None:
    text, tools = await answer(stack, "How do I reset my password?", protocol)
    assert "whoever operates this installation" in text
    assert "“" not in text
    assert not {"search", "fetch", "data"} & set(tools)
