"""Recorded episodes played again on the whole stack, and runs that branch: equal hashes, no model, one version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run, watch
from fathom.core import errors
from fathom.core.ids import new_id
from fathom.services.local import Endpoints
from fathom.transport.store import open_store
from tests.integration.stack.scripted_model import ScriptedModel, Scripts

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.timeout(240)]
Stack = tuple[Endpoints, Clients]
QUESTION = "How far did Apple rise in 2020?"
CODE = """
closes = sheet_1.set_index('date')['AAPL.close_adj']
show_table(closes.iloc[[0, -1]].rename('close').reset_index(), 'Ends of 2020')
print(round((closes.iloc[-1] / closes.iloc[0] - 1) * 100, 2))
"""
SCRIPTS: Scripts = {
    QUESTION: [
        ("search", {"query": "Apple"}),
        ("data", {"question": "adjusted close of Apple, daily, 2020"}),
        ("python", {"code": CODE}),
        *[("finish", {"answer": "It rose [3].", "restated_question": QUESTION})] * 2,
    ]
}


def rollout(name: str, mode: pb.RecordingMode, question: str = QUESTION) -> pb.RolloutRequest:
    return pb.RolloutRequest(
        request_id=new_id("rollout"),
        tasks=[pb.RolloutTask(id="t", question=question)],
        group_size=1,
        protocol=trajectory.PROTOCOL_RESEARCH,
        model="scripted",
        recording=pb.Recording(name=name, mode=mode),
    )


async def play(clients: Clients, request: pb.RolloutRequest) -> trajectory.Trajectory:
    [response] = [response async for response in clients.planner.rollout(request, timeout_s=120.0)]
    return response.trajectory


async def test_twenty_replays_of_a_recorded_episode_have_one_hash(
    stack: Stack, scripted_door: tuple[ScriptedModel, str]
) -> None:
    endpoints, clients = stack
    name = new_id("tape")
    with scripted_door[0].telling(SCRIPTS) as model:
        first = await play(clients, rollout(name, pb.RECORDING_MODE_RECORD))
        assert first.stop_reason == trajectory.STOP_REASON_FINISHED, first.error
        assert [result.tool for step in first.steps for result in step.tool_results][:3] == ["search", "data", "python"]
        asked = len(model.seen[QUESTION].tokens)
        model.scripts = {}  # from here on the model has nothing to say
        hashes = {first.hash}
        for _ in range(20):
            again = await play(clients, rollout(name, pb.RECORDING_MODE_REPLAY_STRICT))
            assert again.stop_reason == trajectory.STOP_REASON_FINISHED, again.error
            assert again.answer.markdown == first.answer.markdown
            hashes.add(again.hash)
        assert len(model.seen[QUESTION].tokens) == asked
    assert hashes == {first.hash}

    missed = await play(clients, rollout(name, pb.RECORDING_MODE_REPLAY_STRICT, "How far did Microsoft rise?"))
    assert (missed.stop_reason, missed.culprit, missed.error_code) == (
        trajectory.STOP_REASON_FAILED,
        "recording",
        "FAILED_PRECONDITION",
    )
    with scripted_door[0].telling({"Microsoft": [("finish", {"answer": "Far."})] * 2}):
        live = await play(clients, rollout(name, pb.RECORDING_MODE_REPLAY_FALLBACK, "How far did Microsoft rise?"))
    assert live.stop_reason == trajectory.STOP_REASON_FINISHED, live.error
    await refuse_another_version(endpoints, clients, name)


async def refuse_another_version(endpoints: Endpoints, clients: Clients, name: str) -> None:
    """Results of two versions do not mix, whichever way."""
    store, key = open_store(endpoints.store), f"recordings/default/{name}/manifest.json"
    made = json.loads(await store.get(key))
    await store.put(key, json.dumps({**made, "fathom": "0.0.1"}).encode(), "application/json")
    for mode in (pb.RECORDING_MODE_RECORD, pb.RECORDING_MODE_REPLAY_STRICT, pb.RECORDING_MODE_REPLAY_FALLBACK):
        with pytest.raises(errors.FailedPrecondition, match=r"was made with fathom 0\.0\.1") as refused:
            await play(clients, rollout(name, mode))
        assert refused.value.metadata["field"] == "recording"
    with pytest.raises(errors.FailedPrecondition, match="does not exist"):
        await play(clients, rollout(new_id("tape"), pb.RECORDING_MODE_REPLAY_STRICT))
    for recording in (pb.Recording(name="a/b", mode=pb.RECORDING_MODE_RECORD), pb.Recording(name="x")):
        request: Any = rollout(name, pb.RECORDING_MODE_RECORD)
        request.recording.CopyFrom(recording)
        with pytest.raises(errors.InvalidField, match="recording"):
            await play(clients, request)


async def test_a_run_branches_at_a_round(stack: Stack, scripted_door: tuple[ScriptedModel, str]) -> None:
    _, clients = stack
    run_id, branch_id = new_id("run"), new_id("run")
    with scripted_door[0].telling(SCRIPTS):
        events = [
            event async for event in run(clients, pb.RunRequest(request_id=run_id, question=QUESTION, model="scripted"))
        ]
        assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED, events[-1].finished.error
    before = (await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))).trajectory
    request = pb.BranchRunRequest(request_id=branch_id, run_id=run_id, steps=2)
    # The model says something else from the third round on; the table of the second is in its Python session.
    with scripted_door[0].telling(
        {
            QUESTION: [
                ("python", {"code": "print(len(sheet_1))"}),
                *[("finish", {"answer": "253 days [3].", "restated_question": QUESTION})] * 2,
            ]
        }
    ):
        assert (await clients.planner.branch_run(request)).run_id == branch_id
        assert (await clients.planner.branch_run(request)).run_id == branch_id
        further = [event async for event in watch(clients, branch_id)]
    assert further[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED, further[-1].finished.error
    after = (await clients.planner.get_run(pb.GetRunRequest(run_id=branch_id))).trajectory
    assert list(after.steps[:2]) == list(before.steps[:2])
    assert "253" in after.steps[2].tool_results[0].content
    assert after.answer.markdown != before.answer.markdown
    assert after.question == QUESTION
    untouched = (await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))).trajectory
    assert untouched.SerializeToString(deterministic=True) == before.SerializeToString(deterministic=True)
    replayed = await clients.planner.replay_run(pb.ReplayRunRequest(run_id=branch_id))
    assert replayed.same, replayed
    with pytest.raises(errors.InvalidField, match="steps: must be 0 to"):
        await clients.planner.branch_run(pb.BranchRunRequest(run_id=run_id, steps=99))
    with pytest.raises(errors.Conflict, match="another run"):
        await clients.planner.branch_run(pb.BranchRunRequest(request_id=run_id, run_id=branch_id, steps=0))
    with pytest.raises(errors.NotFound):
        await clients.planner.branch_run(pb.BranchRunRequest(run_id="run_nobody", steps=0))
