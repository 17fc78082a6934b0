"""Two planner processes on one queue: the one that holds a run is killed, the other goes on; stop, resume, replay."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, connect
from fathom.clients.runs import resume, run, watch
from fathom.core import errors
from fathom.core.ids import new_id
from fathom.services.local import Endpoints
from tests.integration.stack.planners import Planners, planners
from tests.support.observer import list_logged

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
QUESTION = "Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020"


def murder(found: Planners, run_id: str, method: str, place: int) -> list[str]:
    """Kills the planner that holds the run when it makes its n-th call of a method; gives the name of the dead."""
    dead: list[str] = []

    async def before(name: str, request_id: str) -> None:
        if name == method and not dead and len(found.list_calls(method)) == place:
            dead.append(found.holder(run_id))
            found.processes[dead[0]].kill()
            await asyncio.Event().wait()  # its caller is gone

    found.on_call.append(before)
    return dead


async def follow_run(found: Planners, run_id: str, dead: list[str]) -> list[pb.RunEvent]:
    """Return the run's events as a reader sees them whose planner may be the one that dies."""
    events: list[pb.RunEvent] = []
    for name in ("first", "second"):
        clients = connect({"planner": found.urls[name]})
        try:
            last = events[-1].sequence if events else 0
            async for event in watch(clients, run_id, last, patience_s=2.0):
                events.append(event)
        except errors.FathomError:
            assert dead == [name]
        finally:
            await clients.close()
        if events and events[-1].HasField("finished"):
            break
    return events


@pytest.mark.parametrize(
    ("method", "place"),
    [("Generate", 3), ("Query", 1), ("Execute", 1)],
    ids=["between two steps", "while data are fetched", "while code runs"],
)
async def test_a_killed_planners_run_is_finished_by_another(
    stack: Stack, tmp_path: Path, method: str, place: int
) -> None:
    endpoints, _ = stack
    async with planners(endpoints, tmp_path, "first", "second") as (found, clients):
        run_id = new_id("run")
        dead = murder(found, run_id, method, place)
        async with aclosing(clients.planner.run(pb.RunRequest(request_id=run_id, question=QUESTION))) as responses:
            # A run that waits tells its place before it starts.
            async for response in responses:
                if response.event.HasField("started"):
                    break
        async with asyncio.timeout(60):
            events = await follow_run(found, run_id, dead)
        assert len(dead) == 1
        survivor = found.holder(run_id)
        assert survivor != dead[0]
        finished = events[-1].finished
        assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
        assert "-38.52%" in finished.answer.markdown
        logged = list_logged(events)
        assert [event.sequence for event in logged] == list(range(1, len(logged) + 1))
        sampled = found.list_calls("Generate")
        assert len(sampled) - len(set(sampled)) == (1 if method == "Generate" else 0)  # the one that was cut off
        queries = found.list_calls("Query")
        assert len(queries) - len(set(queries)) == (1 if method == "Query" else 0)
        survivors = connect({"planner": found.urls[survivor]})
        replayed = await survivors.planner.replay_run(pb.ReplayRunRequest(run_id=run_id))
        await survivors.close()
        assert replayed.same, replayed


async def test_stop_keeps_what_was_collected_and_resume_goes_on(stack: Stack) -> None:
    run_id, clients = new_id("run"), stack[1]
    events: list[pb.RunEvent] = []
    stopped: list[bool] = []
    async for event in run(clients, pb.RunRequest(request_id=run_id, question=QUESTION)):
        events.append(event)
        # A second table may come while the run stops.
        if not stopped and event.HasField("tool_finished") and event.tool_finished.result.tool == "data":
            stopped.append((await clients.planner.stop_run(pb.StopRunRequest(run_id=run_id))).was_running)
    assert stopped == [True]
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_STOPPED
    before = (await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))).trajectory
    assert before.steps
    further = [event async for event in resume(clients, pb.ResumeRunRequest(run_id=run_id))]
    assert further[0].HasField("resumed")
    logged = list_logged((*events, *further))
    assert [event.sequence for event in logged] == list(range(1, len(logged) + 1))
    assert further[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED, further[-1].finished.error
    assert "-38.52%" in further[-1].finished.answer.markdown
    after = (await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))).trajectory
    assert after.steps[: len(before.steps)] == before.steps
    assert list_logged([event async for event in watch(clients, run_id, 0)]) == logged
    replayed = await clients.planner.replay_run(pb.ReplayRunRequest(run_id=run_id))
    assert replayed.same, replayed
    with pytest.raises(errors.Conflict, match="has its answer"):
        async for _ in resume(clients, pb.ResumeRunRequest(run_id=run_id)):
            pass


async def test_a_spent_budget_is_resumed_with_a_new_one(stack: Stack) -> None:
    run_id, clients = new_id("run"), stack[1]
    request = pb.RunRequest(request_id=run_id, question=QUESTION, budget=pb.Budget(max_rounds=1))
    events = [event async for event in run(clients, request)]
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_BUDGET
    further = [event async for event in resume(clients, pb.ResumeRunRequest(run_id=run_id))]
    assert further[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED, further[-1].finished.error
