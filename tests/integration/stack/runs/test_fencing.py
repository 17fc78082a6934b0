"""A planner that is stopped dead (SIGSTOP) loses its run to another, wakes up, and must not say another word of it."""

from __future__ import annotations

import asyncio
import signal
from contextlib import aclosing
from pathlib import Path

import pytest

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, connect
from fathom.clients.runs import watch
from fathom.core.ids import new_id
from fathom.services.local import Endpoints
from tests.integration.stack.planners import Planners, planners
from tests.integration.stack.runs.test_resume import QUESTION
from tests.support.observer import list_logged
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]


def pause_holder(found: Planners, run_id: str, method: str) -> list[str]:
    """Stop the planner that holds the run at its first call of a method, whose answer then waits for it."""
    asleep: list[str] = []

    async def before(name: str, request_id: str) -> None:
        # While its call is out: it has begun something that another planner will do again.
        if name == method and not asleep:
            asleep.append(found.holder(run_id))
            found.processes[asleep[0]].send_signal(signal.SIGSTOP)

    found.on_call.append(before)
    return asleep


async def follow_run(url: str, run_id: str) -> list[pb.RunEvent]:
    clients = connect({"planner": url})
    try:
        return [event async for event in watch(clients, run_id, 0, patience_s=20.0)]
    finally:
        await clients.close()


@pytest.mark.parametrize("method", ["Generate", "Query", "Execute"])
async def test_a_planner_that_wakes_up_says_nothing_more_of_a_run_it_has_lost(
    stack: Stack, tmp_path: Path, method: str
) -> None:
    endpoints, stacked = stack
    async with planners(endpoints, tmp_path, "first", "second") as (found, clients):
        run_id = new_id("run")
        asleep = pause_holder(found, run_id, method)
        request = pb.RunRequest(request_id=run_id, question=QUESTION)
        async with aclosing(clients.planner.run(request)) as responses:
            await anext(responses)
        await eventually(lambda: asleep)
        other = "second" if asleep == ["first"] else "first"
        async with asyncio.timeout(60):
            events = await follow_run(found.urls[other], run_id)
        assert found.holder(run_id) == other
        finished = events[-1].finished
        assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
        before = await state(found.urls[other], run_id)
        # It wakes up in the middle of its work and believes the run to be its own.
        found.processes[asleep[0]].send_signal(signal.SIGCONT)
        await eventually(  # it finds out
            lambda: "lost to another planner" in found.logs[asleep[0]].read_text(), within_s=40, every_s=0.1
        )
        assert await follow_run(found.urls[other], run_id) == events
        logged = list_logged(events)
        assert [event.sequence for event in logged] == list(range(1, len(logged) + 1))
        # Two ends would be two answers, of which readers saw one and the record keeps the other.
        assert sum(event.HasField("finished") for event in events) == 1
        assert await state(found.urls[other], run_id) == before
        assert [step.index for step in before.trajectory.steps] == list(range(len(before.trajectory.steps)))
        assert before.trajectory.answer == finished.answer
        calls = [call.id for step in before.trajectory.steps for call in step.completion.tool_calls]
        told = [event.tool_finished.result.tool_call_id for event in events if event.HasField("tool_finished")]
        # A call that both have made is told once.
        assert len(told) == len(set(told)) <= len(calls)
        # The one that lost its run goes on with others.
        again = await followed_new(found.urls[asleep[0]])
        assert again.stop_reason == trajectory.STOP_REASON_FINISHED
        turns = (await stacked.memory.list_turns(memory.ListTurnsRequest(conversation_id=conversation(events)))).turns
        assert len(turns) == 1


def conversation(events: list[pb.RunEvent]) -> str:
    return next(event.started.conversation_id for event in events if event.HasField("started"))


async def followed_new(url: str) -> pb.RunFinished:
    """Return how another run of this planner ends."""
    clients, finished = connect({"planner": url}), pb.RunFinished()
    try:
        async for response in clients.planner.run(pb.RunRequest(question="Hello")):
            finished = response.event.finished
        return finished
    finally:
        await clients.close()


async def state(url: str, run_id: str) -> pb.GetRunResponse:
    clients = connect({"planner": url})
    try:
        return await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))
    finally:
        await clients.close()
