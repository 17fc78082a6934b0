"""Operations on runs: begin, queue, resume, read, list, replay. The worker plays them."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1.policy_pb2 import GetModelRequest
from fathom.bus.streams import DAY_S, LEGS
from fathom.call import Call, Lane, current_call
from fathom.clients import Clients
from fathom.errors import Conflict, InvalidField, NotFound
from fathom.ids import checked_id, new_id
from fathom.protocol.messages import Sampling
from services.planner.config import Config
from services.planner.control import current_todo
from services.planner.convert import step_from_proto, trajectory_to_proto
from services.planner.engine import cheaper, checked_question, tightened
from services.planner.model import Limits, Task, rebuilt
from services.planner.record import Header, Leg, Record
from services.planner.replay import replay
from services.planner.window.convert import settings_from_proto
from services.planner.worker import Worker
from services.planner.workflow.convert import PLAYED_BY
from services.planner.workflow.routing import route

# Names that policy takes in the place of a model.
MODEL_ROLES = frozenset({"planner", "writer", "coder", "judge"})
RESUMABLE = (trajectory.STOP_REASON_STOPPED, trajectory.STOP_REASON_BUDGET, trajectory.STOP_REASON_FAILED)


@dataclass
class Runs:
    """Run operations on headers, legs and records."""

    config: Config
    worker: Worker
    record: Record
    clients: Clients

    async def begin(self, request: pb.RunRequest) -> Header:
        """Validate the request and write the run's header; a repeated request joins the existing run."""
        question = checked_question(request.question, self.config.max_question_chars)
        protocol = request.protocol
        if protocol == trajectory.PROTOCOL_AUTO:
            protocol = PLAYED_BY[route(question).mode]
        if protocol not in self.worker.protocols:
            raise InvalidField("protocol", f"{request.protocol} is no protocol of this planner")
        checked_budget(request.budget)
        settings_from_proto(request.window, self.config.window)
        self.worker.protocols[protocol].prompts(question, "", request.prompts)
        if request.conversation_id:
            checked_id("conversation_id", request.conversation_id)
        run_id = checked_id("request_id", request.request_id or new_id("run"))
        call = current_call() or Call.new()
        wanted = Header(
            run_id=run_id,
            question=question,
            conversation_id=request.conversation_id or run_id.replace("run_", "conv_", 1),
            protocol=trajectory.Protocol.Name(protocol),
            model=await self._model(request.model),
            start_time=time.time(),
            request=request.SerializeToString(deterministic=True).hex(),
            tenant=call.tenant,
            traceparent=call.traceparent,
        )
        header = await self.record.begin(wanted)
        if header.request != wanted.request:
            raise Conflict(f"request_id {run_id!r} is another run", metadata={"field": "request_id"})
        return header

    async def _model(self, asked: str) -> str:
        """Resolve the model of a run; a role is resolved once, here, so that the record names a model."""
        wanted = asked or self.config.default_model
        if wanted not in MODEL_ROLES:
            return wanted
        return (await self.clients.policy.get_model(GetModelRequest(model=wanted))).model.name

    async def queue(self, header: Header, lane: Lane) -> Leg:
        """Queue the current leg, unless it has ended."""
        leg = await self.record.leg(header)
        if await self.record.finished(header.run_id, leg.number) is None:
            await self.worker.submit(header, lane, leg)
        return leg

    async def resume(self, request: pb.ResumeRunRequest) -> tuple[Header, Leg]:
        """Open a new leg of a run that ended without an answer; a repeated request joins the existing one.

        Raises ``NotFound``, ``Conflict`` (it is running, or it has its answer), ``InvalidField`` (budget).
        """
        checked_budget(request.budget)
        header = await self.record.header(request.run_id)
        leg = await self.record.leg(header)
        if request.request_id and request.request_id == leg.request_id:
            return header, leg
        finished = await self.record.finished(request.run_id, leg.number)
        if finished is None:
            raise Conflict(f"run {request.run_id} is running", metadata={"field": "run_id"})
        ended = finished[0]
        if ended.stop_reason not in RESUMABLE:
            raise Conflict(f"run {request.run_id} has its answer", metadata={"field": "run_id"})
        name = request.request_id or new_id("resume")
        return header, await self._opened(
            request, header, Leg.of(leg.number + 1, name, time.time(), request.budget, len(ended.steps))
        )

    async def _opened(self, request: pb.ResumeRunRequest, header: Header, following: Leg) -> Leg:
        """Register the next leg and return it; raise ``Conflict`` when another request was first."""
        legs, key = self.worker.bus.bucket(LEGS), f"{header.run_id}.{following.number}"
        try:
            await legs.put(key, json.dumps(asdict(following)).encode(), revision=0)
        except Conflict:
            entry = await legs.get(key)
            if entry is None or entry.value is None:
                raise
            first = Leg(**json.loads(entry.value))
            # The second request also records and queues the first one's leg, because the first caller may have died.
            await self.record.put_leg(header.run_id, first)
            if request.request_id and request.request_id == first.request_id:
                return first
            call = current_call()
            await self.worker.submit(header, call.lane if call else Lane.INTERACTIVE, first)
            raise Conflict(f"run {header.run_id} is running", metadata={"field": "run_id"}) from None
        await self.record.put_leg(header.run_id, following)
        return following

    async def watchable(self, run_id: str) -> Leg:
        """Return the leg to follow; raise ``NotFound`` for a run that is unknown or too old."""
        header = await self.record.header(run_id)
        leg = await self.record.leg(header)
        if leg.start_time < time.time() - DAY_S and await self.record.finished(run_id, leg.number) is not None:
            # The stream has dropped the events: following it would wait for ever.
            raise NotFound("events of run", run_id, ["GetRun gives its trajectory"])
        return leg

    async def get(self, run_id: str, lane: common.Lane) -> pb.GetRunResponse:
        """Return the run with its trajectory so far, and the runs that it has delegated."""
        header = await self.record.header(run_id)
        leg = await self.record.leg(header)
        finished = await self.record.finished(run_id, leg.number)
        if finished is not None:
            message, running = finished[0], False
        else:
            steps = await self.record.steps(run_id)
            task = Task(header.run_id, header.question, header.model, Sampling(), Limits(0, 0, 0.0))
            episode = rebuilt(task, (), [step_from_proto(step) for step in steps])
            message = trajectory_to_proto(episode, None, header.spoken, lane, steps)
            running = True
        recorded = [step_from_proto(step) for step in message.steps]
        children = []
        for child in await self.record.children(run_id):
            with suppress(NotFound):  # it is about to begin
                children.append(await self._summary(child))
        return pb.GetRunResponse(
            trajectory=message,
            running=running,
            parent_run_id=header.parent_run_id,
            children=children,
            leg=leg.number,
            todo=current_todo(recorded, await self.record.edit(run_id)),
        )

    async def list(self, page_size: int, page_token: str) -> pb.ListRunsResponse:
        """Return a page of runs, newest first."""
        run_ids = await self.record.headers()
        if page_token and page_token not in run_ids:
            raise InvalidField("page_token", "is not one that ListRuns gave")
        start = run_ids.index(page_token) if page_token else 0
        end = start + min(page_size, 1000)
        runs = [await self._summary(run_id) for run_id in run_ids[start:end]]
        return pb.ListRunsResponse(runs=runs, next_page_token=run_ids[end] if end < len(run_ids) else "")

    async def _summary(self, run_id: str) -> pb.RunSummary:
        header = await self.record.header(run_id)
        leg = await self.record.leg(header)
        finished = await self.record.finished(run_id, leg.number)
        summary = pb.RunSummary(
            run_id=run_id, question=header.question, parent_run_id=header.parent_run_id, leg=leg.number
        )
        summary.start_time.FromMicroseconds(int(header.start_time * 1e6))
        if finished is not None:
            summary.stop_reason = finished[0].stop_reason
        return summary

    async def replay(self, run_id: str) -> pb.ReplayRunResponse:
        """Replay the run from its record alone."""
        header = await self.record.header(run_id)
        recorded = await self.record.trajectory(run_id)
        if recorded is None:
            raise Conflict(f"run {run_id} has not ended", metadata={"field": "run_id"})
        legs = await self.record.legs(header)
        protocol = self.worker.protocols[header.spoken]
        return await replay(header, legs[: recorded.leg + 1], recorded, protocol, self.config)


def checked_budget(budget: pb.Budget) -> None:
    """Raise ``InvalidField`` for a negative limit."""
    for name in ("max_rounds", "max_tokens", "max_ms"):
        tightened(getattr(budget, name), 1, f"budget.{name}")
    cheaper(budget.max_cost, 1.0, "budget.max_cost")
