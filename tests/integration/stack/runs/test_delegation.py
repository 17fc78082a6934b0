"""``delegate`` on the real stack: sub-runs over the bus, each with a window and a budget of its own."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run, watch
from fathom.core.ids import new_id
from fathom.services.local import Endpoints
from tests.integration.stack.scripted_model import Line, Said, ScriptedModel

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
COMPARISON = (
    "Two things for a note:\n1. What was the maximum drawdown of Apple from 2015 to 2020, and why?\n"
    "2. What was the maximum drawdown of Microsoft from 2015 to 2020, and why?"
)
HEAD, PART = "A note on one thing", "What was the maximum drawdown of Apple from 2015 to 2020?"
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
        # The bound on a sub-run's rounds, below that of its parent.
        assert len(found.steps) <= 8
    await held_together(clients, run_id, finished)


async def held_together(clients: Clients, run_id: str, finished: pb.RunFinished) -> None:
    """Citations resolve to material that came from the children, and no number is in doubt."""
    answer = finished.answer
    numbers = {item.number: item for item in finished.material}
    cited = {int(number) for number in re.findall(r"\[(\d+)\]", answer.markdown)}
    assert cited <= set(numbers)
    assert set(cited) <= set(answer.cited)
    # A calculation keeps the run in which it was made: its code is not run again here.
    foreign = [item for number, item in numbers.items() if number in cited and item.code.run_id]
    assert len({item.code.run_id for item in foreign}) == 2, "code records of both children are cited"
    assert "-38.52%" in answer.markdown
    # What nothing has computed is said to be unchecked, and is no error.
    wrong = [mark for mark in answer.findings if mark.kind != trajectory.FINDING_KIND_UNCHECKED]
    assert [(mark.text, mark.detail) for mark in wrong] == []
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


@contextmanager
def holding_the_child(model: ScriptedModel) -> Iterator[asyncio.Event]:
    """Script a parent that delegates and then ends by itself, and a child whose first reply does not end.

    Yield an event that is set when the child waits; the model's ``may_end`` lets its reply end.
    """
    is_waiting = asyncio.Event()

    def wait(_: Said) -> Line:
        # The reply begins and does not end, so that the child is found at work, whatever the machine's speed.
        model.may_end.clear()
        is_waiting.set()
        return "data", {"question": PART}

    closing: Line = ("finish", {"answer": "I found nothing, since `delegate` gave no answer [1]."})
    scripts = {HEAD: [("delegate", {"question": PART}), closing, closing, closing], PART: [wait]}
    # The parent's key comes first: its conversation has the child's question, too.
    with model.telling(scripts, pause_s=0.001):  # type: ignore[arg-type]
        try:
            yield is_waiting
        finally:
            model.may_end.set()


async def find_child(clients: Clients, run_id: str) -> str:
    (child,) = (await record(clients, run_id)).children
    return str(child.run_id)


async def test_a_stopped_child_is_a_failed_result_of_its_parent(
    stack: Stack, scripted_door: tuple[ScriptedModel, str]
) -> None:
    _, clients = stack
    run_id, model = new_id("run"), scripted_door[0]
    with holding_the_child(model) as is_waiting:
        request = pb.RunRequest(request_id=run_id, question=f"{HEAD}: {PART}", model="scripted")
        finished = asyncio.create_task(last(clients, request))
        async with asyncio.timeout(60):
            await is_waiting.wait()
        await clients.planner.stop_run(pb.StopRunRequest(run_id=await find_child(clients, run_id)))
        model.may_end.set()
        ended = await finished
    assert ended.HasField("answer"), ended.error
    (result,) = (await record(clients, run_id)).trajectory.steps[0].tool_results
    assert result.status == trajectory.TOOL_STATUS_FAILED
    assert "was not answered (stopped)" in json.loads(result.content.split("\n")[0])["error"]


async def test_a_stopped_parent_stops_its_children(stack: Stack, scripted_door: tuple[ScriptedModel, str]) -> None:
    _, clients = stack
    run_id = new_id("run")
    with holding_the_child(scripted_door[0]) as is_waiting:
        request = pb.RunRequest(request_id=run_id, question=f"{HEAD}: {PART}", model="scripted")
        finished = asyncio.create_task(last(clients, request))
        async with asyncio.timeout(60):
            await is_waiting.wait()
        child = await find_child(clients, run_id)
        await clients.planner.stop_run(pb.StopRunRequest(run_id=run_id))
        assert (await finished).stop_reason == trajectory.STOP_REASON_STOPPED
        async with asyncio.timeout(60):
            events = [event async for event in watch(clients, child, 0)]
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_STOPPED


async def last(clients: Clients, request: pb.RunRequest) -> pb.RunFinished:
    """Return how the run ends."""
    finished = pb.RunFinished()
    async for event in run(clients, request):
        finished = event.finished
    return finished


async def test_a_child_without_time_fails_as_a_result(stack: Stack) -> None:
    """The parent's time is too short for sub-runs: the tool says so, and the parent does the work."""
    _, clients = stack
    # Enough for the parent's own rounds, and less than a sub-run is given at least.
    request = pb.RunRequest(request_id=new_id("run"), question=COMPARISON, budget=pb.Budget(max_ms=3_500, max_rounds=9))
    finished = await last(clients, request)
    results = (await record(clients, request.request_id)).trajectory.steps[0].tool_results
    assert [result.status for result in results] == [trajectory.TOOL_STATUS_INVALID] * 2
    assert "no time is left for a sub-question" in results[0].content
    assert finished.stop_reason in (trajectory.STOP_REASON_FINISHED, trajectory.STOP_REASON_BUDGET)
