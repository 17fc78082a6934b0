"""Many runs at once on one stack: each ends with an answer, none is lost."""

from __future__ import annotations

import asyncio
import time

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.core.ids import new_id
from fathom.services.local import Endpoints
from tests.support.observer import list_logged

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
QUESTIONS = ("What is maximum drawdown?", "What is CAGR?", "How did the share price of Apple develop in 2019?")
# Fifty runs take fifteen seconds on two idle cores: for a hang, not for slowness.
LIMIT_S = 600.0


async def run_to_end(clients: Clients, run_id: str, question: str) -> list[pb.RunEvent]:
    return [event async for event in run(clients, pb.RunRequest(request_id=run_id, question=question))]


@pytest.mark.slow
async def test_fifty_runs_at_once_all_end(stack: Stack) -> None:
    _, clients = stack
    asked = {new_id("run"): QUESTIONS[number % len(QUESTIONS)] for number in range(50)}
    started = time.monotonic()
    async with asyncio.timeout(LIMIT_S):
        runs = await asyncio.gather(*(run_to_end(clients, run_id, question) for run_id, question in asked.items()))
    print(f"{len(asked)} runs in {time.monotonic() - started:.1f} s")
    for (run_id, question), events in zip(asked.items(), runs, strict=True):
        finished = events[-1].finished
        assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, f"{question}: {finished.error}"
        logged = list_logged(events)  # more runs than slots: some wait
        assert [event.sequence for event in logged] == list(range(1, len(logged) + 1))
        assert {event.run_id for event in events} == {run_id}
    listed = await clients.planner.list_runs(pb.ListRunsRequest(page_size=1000))
    states = {summary.run_id: summary.stop_reason for summary in listed.runs}
    assert [run_id for run_id in asked if states.get(run_id) != trajectory.STOP_REASON_FINISHED] == []


async def test_the_commands_list_show_and_replay(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.integration.stack.test_ask import command

    endpoints, clients = stack
    run_id = new_id("run")
    await run_to_end(clients, run_id, QUESTIONS[0])
    url = ("--planner", endpoints.services["planner"])
    runs = ("-m", "fathom.cli.main", "runs")
    status, stdout, stderr = await command(*runs, "list", "--limit", "5", *url)
    assert status == 0, stderr
    assert "finished" in stdout
    status, stdout, stderr = await command(*runs, "show", run_id, *url)
    assert (status, "finished, resumed 0 times" in stdout) == (0, True), stderr
    status, stdout, stderr = await command(*runs, "replay", run_id, *url)
    assert (status, "the same: " in stdout) == (0, True), stdout + stderr
    status, stdout, _ = await command(*runs, "stop", run_id, *url)
    assert (status, "not running" in stdout) == (0, True)
    status, _, stderr = await command(*runs, "resume", run_id, *url)
    assert (status, "has its answer" in stderr) == (1, True)
    status, _, stderr = await command(*runs, "show", "run_nope", *url)
    assert (status, "run_nope" in stderr, "Traceback" in stderr) == (1, True, False)
