"""Branching: a new run that begins with the first rounds of one that has ended.

The new run is written as one that was stopped after these rounds, and resumed: it goes on as every resumed run does.
"""

from __future__ import annotations

import time
from dataclasses import replace

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Call, Lane, current_call
from fathom.core.errors import Conflict, FailedPrecondition, InvalidField
from fathom.core.ids import checked_id, new_id
from fathom.domain.chat.messages import Sampling
from fathom.services.planner.episode.limits import validate_budget
from fathom.services.planner.model.episode import Limits, Outcome, StopReason, Task, rebuild_episode
from fathom.services.planner.proto.episode import step_from_proto, trajectory_to_proto
from fathom.services.planner.proto.lanes import LANES
from fathom.services.planner.runs.api import Runs
from fathom.services.planner.runs.queue import submit_run
from fathom.services.planner.runs.repository import Header
from fathom.services.planner.runs.routing import take_route
from fathom.transport.rpc.contract import proto_hash


async def branch_run(runs: Runs, request: pb.BranchRunRequest, lane: Lane) -> str:
    """Queue the branch and return its id; a repeated request returns the existing one.

    Raises ``NotFound`` (run, model), ``Conflict`` (it has not ended; the id is another run), ``InvalidField`` (steps,
    budget) and ``FailedPrecondition`` (rounds of another contract).
    """
    validate_budget(request.budget)
    source = await runs.record.get_header(checked_id("run_id", request.run_id))
    recorded = await runs.record.get_trajectory(request.run_id)
    if recorded is None:
        raise Conflict(f"run {request.run_id} has not ended", metadata={"field": "run_id"})
    if not 0 <= request.steps <= len(recorded.steps):
        raise InvalidField("steps", f"must be 0 to {len(recorded.steps)}, the rounds of run {request.run_id}")
    steps = recorded.steps[: request.steps]
    require_one_version(request.run_id, steps)
    run_id = checked_id("request_id", request.request_id or new_id("run"))
    model = await runs.resolve_model(request.model) if request.model else source.model
    wanted = make_header(take_route(source, recorded), run_id, request, model)
    header, is_new = await runs.record.create(wanted)
    if (header.request, header.branch_of) != (wanted.request, wanted.branch_of):
        raise Conflict(f"request_id {run_id!r} is another run", metadata={"field": "request_id"})
    if is_new or await runs.record.get_trajectory(run_id) is None:
        await copy_rounds(runs, header, recorded, steps, lane)
    again = pb.ResumeRunRequest(request_id=f"{run_id}-branch", run_id=run_id, budget=request.budget)
    header, leg = await runs.resume(again)
    await submit_run(runs.worker.bus, header, lane, leg)
    return run_id


def require_one_version(run_id: str, steps: list[trajectory.Step]) -> None:
    """Raise ``FailedPrecondition`` for rounds that were recorded under another contract: a run has one version."""
    others = {step.versions.fathom for step in steps if step.versions.proto_hash != proto_hash()}
    if others:
        made = ", ".join(sorted(others))
        raise FailedPrecondition(
            f"run {run_id} was recorded by fathom {made} under another contract: rounds of two versions do not mix",
            metadata={"field": "run_id", "recorded": made},
        )


def make_header(source: Header, run_id: str, request: pb.BranchRunRequest, model: str) -> Header:
    """Return the header of the branch: the same question, as a run of the caller in a conversation of its own."""
    asked, call = source.run_request(), current_call() or Call.new()
    asked.request_id, asked.model = run_id, request.model or asked.model
    return replace(
        source,
        run_id=run_id,
        conversation_id=run_id.replace("run_", "conv_", 1),
        model=model,
        start_time=time.time(),
        request=asked.SerializeToString(deterministic=True).hex(),
        parent_run_id="",
        depth=0,
        branch_of=f"{request.run_id}@{request.steps}",
        tenant=call.tenant,
        traceparent=call.traceparent,
    )


async def copy_rounds(
    runs: Runs, header: Header, recorded: trajectory.Trajectory, steps: list[trajectory.Step], lane: Lane
) -> None:
    """Write what the branch begins with, its end after these rounds last: without it the branch is copied again."""
    reading = await runs.record.get_reading(recorded.run_id)
    if reading is not None:
        await runs.record.put_reading(header.run_id, reading)
    await runs.record.put_given(header.run_id, recorded.given)
    # Others' branches begin with the rounds that were played by it; nothing of the new asker's own is mixed in.
    await runs.record.put_remembered(header.run_id, recorded.remembered)
    task = Task(header.run_id, recorded.understood or header.question, header.model, Sampling(), Limits(0, 0, 0.0))
    episode = rebuild_episode(task, (), [step_from_proto(step) for step in steps])
    message = trajectory_to_proto(episode, Outcome(StopReason.STOPPED), header.protocol_value, LANES[lane], steps)
    message.question, message.understood, message.report = header.question, recorded.understood, recorded.report
    del message.given[:]
    message.given.extend(recorded.given)
    message.prompts.clear()
    message.prompts.update(recorded.prompts)
    await runs.record.put_trajectory(message)
