"""The planner's RPCs: proto ⇄ engine, no logic."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import ClassVar

from prometheus_client import Counter

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1.policy_pb2 import GetModelRequest
from fathom.bus.streams import DAY_S, control_subject
from fathom.call import Call, Lane
from fathom.errors import Conflict, InvalidField, NotFound, NotReady
from fathom.ids import checked_id, new_id
from fathom.protocol.messages import Sampling
from fathom.protocol.proto import tool_spec_to_proto
from fathom.rpc.service import Deps, Service
from services.planner.backends.policy import PolicyService, PolicyTokens, PolicyWriter
from services.planner.config import Config
from services.planner.convert import step_from_proto, trajectory_to_proto
from services.planner.engine import Engine, checked_question, tightened
from services.planner.events import follow
from services.planner.model import Episode, Limits, Task
from services.planner.prompting import Prompts
from services.planner.prompts.catalogue import catalogue
from services.planner.protocols import EpisodeProtocol, Research, SearchR1
from services.planner.record import Header, Record
from services.planner.rollouts import Rollouts
from services.planner.stage import stage
from services.planner.window.convert import settings_from_proto
from services.planner.window.metrics import WindowMetrics
from services.planner.window.stepwise import Windows
from services.planner.window.summariser import Summariser
from services.planner.worker import LANES, Worker

# Names that policy takes in the place of a model.
MODEL_ROLES = frozenset({"planner", "writer", "coder", "judge"})


def build(config: Config, deps: Deps) -> Service:
    """The planner with its worker; the only constructor."""
    prompts = Prompts.of(catalogue(config.prompt_dir), config)
    research = Research(prompts)
    protocols: dict[int, EpisodeProtocol] = {
        trajectory.PROTOCOL_UNSPECIFIED: research,
        trajectory.PROTOCOL_RESEARCH: research,
        trajectory.PROTOCOL_SEARCH_R1: SearchR1(prompts.catalogue.find("search_r1", "en").body),
    }
    styles = Counter("fathom_planner_cells", "Cells of models by style", ("style",), registry=deps.telemetry.registry)
    windows = Windows(
        config.window,
        PolicyTokens(deps.clients),
        Summariser(PolicyWriter(deps.clients, config.summary_tokens), prompts.catalogue.find("notes", "en").body),
        WindowMetrics.register(deps.telemetry.registry),
    )
    engine = Engine(
        lambda protocol: PolicyService(deps.clients, tags=protocol.tags),
        lambda task, steps: stage(config, deps, styles, windows, task, steps),
    )
    record, log = Record(deps.store), deps.telemetry.log
    worker = Worker(config, engine, protocols, record, deps.clients, deps.bus, log)
    rollouts = Rollouts(config, engine, protocols, record, deps.clients, deps.bus, log)
    servicer = PlannerServicer(config, deps, styles, windows, worker, rollouts, record)
    return Service("planner", servicer, servicer.warm_up, servicer.close)


class PlannerServicer:
    """Answers the planner's RPCs."""

    unimplemented: ClassVar = {
        "UpdateTodo": "the research agent issue builds the mutable todo list",
        "RouteQuestion": "the workflow issue builds the scene router",
        "SubmitRollout": "the reinforcement-learning issue builds the durable rollout queue",
    }

    def __init__(
        self,
        config: Config,
        deps: Deps,
        styles: Counter,
        windows: Windows,
        worker: Worker,
        rollouts: Rollouts,
        record: Record,
    ) -> None:
        self._config, self._deps, self._styles, self._windows = config, deps, styles, windows
        self._worker, self._rollouts, self._record = worker, rollouts, record
        self._consumers: list[asyncio.Task[None]] = []

    async def warm_up(self) -> None:
        """Starts to take runs from every lane."""
        self._consumers = [asyncio.create_task(self._worker.work(lane), name=f"runs {lane}") for lane in Lane]

    async def close(self) -> None:
        """Gives unfinished runs back to the queue."""
        for consumer in self._consumers:
            consumer.cancel()
        await asyncio.gather(*self._consumers, return_exceptions=True)

    async def Run(self, request: pb.RunRequest, call: Call) -> AsyncIterator[pb.RunResponse]:
        header = await self._begin(request)
        await self._worker.submit(header, call.lane)
        async for event in follow(self._deps.bus, header.run_id, 0):
            yield pb.RunResponse(event=event)

    async def _begin(self, request: pb.RunRequest) -> Header:
        """Checks the request and writes the run's header; the same request joins the run that is there."""
        question = checked_question(request.question, self._config.max_question_chars)
        if request.protocol not in self._worker.protocols:
            raise InvalidField("protocol", f"{trajectory.Protocol.Name(request.protocol)} is not available yet")
        for name in ("max_rounds", "max_tokens", "max_ms"):
            tightened(getattr(request.budget, name), 1, f"budget.{name}")
        settings_from_proto(request.window, self._config.window)
        self._worker.protocols[request.protocol].prompts(question, "", request.prompts)
        if request.conversation_id:
            checked_id("conversation_id", request.conversation_id)
        run_id = checked_id("request_id", request.request_id or new_id("run"))
        wanted = Header(
            run_id=run_id,
            question=question,
            conversation_id=request.conversation_id or run_id.replace("run_", "conv_", 1),
            protocol=trajectory.Protocol.Name(request.protocol),
            model=await self._model(request.model),
            start_time=time.time(),
            request=request.SerializeToString(deterministic=True).hex(),
        )
        header = await self._record.begin(wanted)
        if header.request != wanted.request:
            raise Conflict(f"request_id {run_id!r} is another run", metadata={"field": "request_id"})
        return header

    async def _model(self, asked: str) -> str:
        """The model of a run. A role is resolved here, once, so that the run's record names a model."""
        wanted = asked or self._config.default_model
        if wanted not in MODEL_ROLES:
            return wanted
        return (await self._deps.clients.policy.get_model(GetModelRequest(model=wanted))).model.name

    async def WatchRun(self, request: pb.WatchRunRequest, call: Call) -> AsyncIterator[pb.WatchRunResponse]:
        header = await self._record.header(checked_id("run_id", request.run_id))
        if header.start_time < time.time() - DAY_S and await self._record.trajectory(request.run_id) is not None:
            # The stream has dropped the events: following it would wait for ever.
            raise NotFound("events of run", request.run_id, ["GetRun gives its trajectory"])
        async for event in follow(self._deps.bus, request.run_id, request.after_sequence):
            yield pb.WatchRunResponse(event=event)

    async def StopRun(self, request: pb.StopRunRequest, call: Call) -> pb.StopRunResponse:
        await self._record.header(checked_id("run_id", request.run_id))
        try:
            reply = await self._deps.bus.request(control_subject(request.run_id), b"stop", headers={}, timeout_s=5.0)
        except NotReady:  # nobody is working on it
            return pb.StopRunResponse(was_running=False)
        return pb.StopRunResponse(was_running=bool(reply.payload))

    async def GetRun(self, request: pb.GetRunRequest, call: Call) -> pb.GetRunResponse:
        header = await self._record.header(checked_id("run_id", request.run_id))
        finished = await self._record.trajectory(request.run_id)
        if finished is not None:
            return pb.GetRunResponse(trajectory=finished)
        steps = await self._record.steps(request.run_id)
        run = pb.RunRequest.FromString(bytes.fromhex(header.request))
        task = Task(header.run_id, header.question, header.model, Sampling(), Limits(0, 0, 0.0))
        episode = Episode(task, ())
        for step in steps:
            episode.append(step_from_proto(step))
        message = trajectory_to_proto(episode, None, run.protocol, LANES[call.lane], steps)
        return pb.GetRunResponse(trajectory=message, running=True)

    async def ListRuns(self, request: pb.ListRunsRequest, call: Call) -> pb.ListRunsResponse:
        run_ids = await self._record.headers()
        start = run_ids.index(request.page_token) if request.page_token in run_ids else 0
        if request.page_token and request.page_token not in run_ids:
            raise InvalidField("page_token", "is not one that ListRuns gave")
        end = start + min(request.page_size or 100, 1000)
        response = pb.ListRunsResponse(next_page_token=run_ids[end] if end < len(run_ids) else "")
        for run_id in run_ids[start:end]:
            header, finished = await self._record.header(run_id), await self._record.trajectory(run_id)
            summary = response.runs.add(run_id=run_id, question=header.question)
            summary.start_time.FromMicroseconds(int(header.start_time * 1e6))
            if finished is not None:
                summary.stop_reason = finished.stop_reason
        return response

    async def ListTools(self, request: pb.ListToolsRequest, call: Call) -> pb.ListToolsResponse:
        task = Task("list", "", "", Sampling(), Limits(0, 0, 0.0))
        specs = stage(self._config, self._deps, self._styles, self._windows, task, ()).tools.specs
        return pb.ListToolsResponse(tools=[tool_spec_to_proto(spec) for spec in specs])

    async def Rollout(self, request: pb.RolloutRequest, call: Call) -> AsyncIterator[pb.RolloutResponse]:
        async for message in self._rollouts.run(request, call):
            yield pb.RolloutResponse(trajectory=message)
