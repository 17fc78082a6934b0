"""``delegate`` on the real stack: sub-runs over the bus, each with a window and a budget of its own."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run, watch
from fathom.core.ids import new_id
from fathom.services.local import Endpoints
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
COMPARISON = (
    "Two things for a note:\n1. What was the maximum drawdown of Apple from 2015 to 2020, and why?\n"
    "2. What was the maximum drawdown of Microsoft from 2015 to 2020, and why?"
)
LISTED = "1. What was Apple's price return from 2015 to 2018?\n2. How volatile was Microsoft in 2020?"


async def record(clients: Clients, run_id: str) -> pb.GetRunResponse:
    return await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))


async def test_a_comparison_is_shared_out_and_its_material_comes_back(stack: Stack) -> None:
    _, clients = stack
    run_id = new_id("run")
    events = [event async for event in run(clients, pb.RunRequest(request_id=run_id, question=COMPARISON))]
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    parent = await record(clients, run_id)
    assert len(parent.children) == 2
    assert {child.stop_reason for child in parent.children} == {trajectory.STOP_REASON_FINISHED}
    steps = parent.trajectory.steps
    assert [result.tool for result in steps[0].tool_results] == ["delegate", "delegate"]
    # Both were asked before either came back.
    kinds = [
        event.WhichOneof("event")
        for event in events
        if (event.HasField("tool_started") and event.tool_started.call.name == "delegate")
        or (event.HasField("tool_finished") and event.tool_finished.result.tool == "delegate")
    ]
    assert kinds == ["tool_started", "tool_started", "tool_finished", "tool_finished"]
    for child in parent.children:
        found = (await record(clients, child.run_id)).trajectory
        assert found.parent_run_id == run_id
        # A window of its own: nothing of the parent's conversation is in its opening.
        opening = " ".join(message.content for message in found.steps[0].new_messages)
        assert child.question in opening
        assert "for a note" not in opening
        assert len(found.steps) <= 8
    await held_together(clients, run_id, finished)


async def held_together(clients: Clients, run_id: str, finished: pb.RunFinished) -> None:
    """Citations resolve to material that came from the children, and no number is in doubt."""
    answer = finished.answer
    numbers = {item.number: item for item in finished.material}
    cited = {int(number) for number in re.findall(r"\[(\d+)\]", answer.markdown)}
    assert cited <= set(numbers)
    assert set(cited) <= set(answer.cited)
    foreign = [item for number, item in numbers.items() if number in cited and item.code.run_id]
    assert len({item.code.run_id for item in foreign}) == 2, "code records of both children are cited"
    assert "-38.5%" in answer.markdown
    assert [(mark.text, mark.detail) for mark in answer.findings] == []
    replayed = await clients.planner.replay_run(pb.ReplayRunRequest(run_id=run_id))
    assert replayed.same, replayed


async def test_a_list_of_questions_is_shared_out_unasked(stack: Stack) -> None:
    _, clients = stack
    run_id = new_id("run")
    events = [event async for event in run(clients, pb.RunRequest(request_id=run_id, question=LISTED))]
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    children = (await record(clients, run_id)).children
    assert sorted(child.question for child in children) == [
        "How volatile was Microsoft in 2020?", "What was Apple's price return from 2015 to 2018?",
    ]  # fmt: skip
    assert "annualised volatility" in finished.answer.markdown
    assert [mark.text for mark in finished.answer.findings] == []


async def wait_for_children(clients: Clients, run_id: str) -> list[str]:
    """Return the ids of both sub-runs, as soon as they are there."""

    async def both() -> list[str]:
        children = [child.run_id for child in (await record(clients, run_id)).children]
        return children if len(children) == 2 else []

    return await eventually(both)


async def test_a_stopped_child_is_made_up_for_by_its_parent(stack: Stack) -> None:
    _, clients = stack
    run_id = new_id("run")
    handed_on = asyncio.Event()
    finished = asyncio.create_task(last(clients, pb.RunRequest(request_id=run_id, question=COMPARISON), handed_on))
    await asyncio.wait_for(handed_on.wait(), 30)

    async def find_first() -> str:
        return next((child.run_id for child in (await record(clients, run_id)).children), "")

    # As soon as it is there: a short sub-run ends before the other one begins.
    await clients.planner.stop_run(pb.StopRunRequest(run_id=await eventually(find_first)))
    ended = await finished
    assert ended.stop_reason == trajectory.STOP_REASON_FINISHED, ended.error
    results = (await record(clients, run_id)).trajectory.steps[0].tool_results
    states = {result.status for result in results}
    assert states == {trajectory.TOOL_STATUS_FAILED, trajectory.TOOL_STATUS_OK}
    failed = next(result for result in results if result.status == trajectory.TOOL_STATUS_FAILED)
    assert "was not answered (stopped)" in json.loads(failed.content.split("\n")[0])["error"]
    # The parent answers that part by itself, and says that a sub-question failed.
    assert "-38.5%" in ended.answer.markdown
    assert "delegate" in ended.answer.markdown


async def last(clients: Clients, request: pb.RunRequest, handed_on: asyncio.Event | None = None) -> pb.RunFinished:
    """How the run ends; ``handed_on`` is set at its first call."""
    finished = pb.RunFinished()
    async for event in run(clients, request):
        if event.HasField("tool_started") and handed_on is not None:
            handed_on.set()
        finished = event.finished
    return finished


async def test_a_stopped_parent_stops_its_children(stack: Stack) -> None:
    _, clients = stack
    run_id = new_id("run")
    handed_on = asyncio.Event()
    finished = asyncio.create_task(last(clients, pb.RunRequest(request_id=run_id, question=COMPARISON), handed_on))
    await asyncio.wait_for(handed_on.wait(), 30)
    children = await wait_for_children(clients, run_id)
    await clients.planner.stop_run(pb.StopRunRequest(run_id=run_id))
    assert (await finished).stop_reason == trajectory.STOP_REASON_STOPPED
    for child in children:
        async with asyncio.timeout(30):
            events = [event async for event in watch(clients, child, 0)]
        assert events[-1].finished.stop_reason == trajectory.STOP_REASON_STOPPED


async def test_a_child_without_time_fails_as_a_result(stack: Stack) -> None:
    """The parent's time is too short for sub-runs: the tool says so, and the parent does the work."""
    _, clients = stack
    request = pb.RunRequest(request_id=new_id("run"), question=COMPARISON, budget=pb.Budget(max_ms=3_500, max_rounds=9))
    finished = await last(clients, request)
    results = (await record(clients, request.request_id)).trajectory.steps[0].tool_results
    assert [result.status for result in results] == [trajectory.TOOL_STATUS_INVALID] * 2
    assert "no time is left for a sub-question" in results[0].content
    assert finished.stop_reason in (trajectory.STOP_REASON_FINISHED, trajectory.STOP_REASON_BUDGET)
