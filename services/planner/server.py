"""gRPC servicer of the planner: converts messages and delegates to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.bus.streams import MAX_DEPTH
from fathom.bus.watch import BusWatch
from fathom.call import Call, Lane
from fathom.errors import DependencyFailed
from fathom.ids import checked_id
from fathom.protocol.messages import Sampling, ToolSpec
from fathom.protocol.proto import tool_spec_to_proto
from fathom.rpc.service import Deps, Service
from services.planner.backends.policy import PolicyService
from services.planner.config import Config
from services.planner.control import ask_to_edit
from services.planner.engine import Engine, checked_question
from services.planner.events import follow
from services.planner.model import Limits, Task
from services.planner.playing import AnyProtocol
from services.planner.prompting import Prompts
from services.planner.prompts.catalogue import catalogue
from services.planner.protocols import Research, SearchR1
from services.planner.queue import RolloutQueue
from services.planner.record import Record
from services.planner.rollouts import Rollouts
from services.planner.runs import Runs
from services.planner.stage import Stages
from services.planner.waiting import Waiting
from services.planner.worker import LANES, Worker
from services.planner.workflow.convert import route_to_proto
from services.planner.workflow.protocol import Workflow
from services.planner.workflow.routing import route
from services.planner.workflow.widening import LibraryWidener

# How long the first run waits for foreign tools: one that is late is there for later runs.
MOUNT_WAIT_S = 5.0


def build(config: Config, deps: Deps) -> Service:
    """Build the planner service with its worker."""
    prompts = Prompts.of(catalogue(config.prompt_dir), config)
    research = Research(prompts)
    widener = LibraryWidener(deps.clients, config.workflow_widening, config.workflow_framework_tokens)
    protocols: dict[int, AnyProtocol] = {
        trajectory.PROTOCOL_UNSPECIFIED: research,
        trajectory.PROTOCOL_RESEARCH: research,
        trajectory.PROTOCOL_WORKFLOW: Workflow(
            prompts, widener, config.workflow_material_tokens, config.workflow_reflects
        ),
        trajectory.PROTOCOL_SEARCH_R1: SearchR1(
            prompts.catalogue.find("search_r1", "en").body, documents=config.search_r1_documents
        ),
    }
    log = deps.telemetry.log
    stages = Stages.of(config, deps, prompts.catalogue)
    engine = Engine(lambda protocol: PolicyService(deps.clients, tags=protocol.tags), stages)
    record = Record(deps.store)
    worker = Worker(config, engine, protocols, record, deps.clients, deps.bus, log)
    rollouts = Rollouts(config, engine, protocols, record, deps.clients, deps.bus, log)
    runs = Runs(config, worker, record, deps.clients)
    queue = RolloutQueue(config, rollouts, deps.store, deps.bus, log, Waiting(deps.store, deps.bus, log))
    watch = BusWatch(deps.bus, deps.telemetry.registry, log)
    servicer = PlannerServicer(deps, stages, worker, rollouts, queue, runs, watch)
    return Service(
        "planner", servicer, servicer.warm_up, servicer.close, changes=servicer.changes, finish=servicer.finish
    )


class PlannerServicer:
    """Servicer of the planner API."""

    def __init__(
        self,
        deps: Deps,
        stages: Stages,
        worker: Worker,
        rollouts: Rollouts,
        queue: RolloutQueue,
        runs: Runs,
        watch: BusWatch,
    ) -> None:
        self._deps, self._stages, self._watch = deps, stages, watch
        self._worker, self._rollouts, self._queue, self._runs = worker, rollouts, queue, runs
        self._consumers: list[asyncio.Task[None]] = []

    async def warm_up(self) -> None:
        """Connect external tools and start to consume runs of every lane."""
        self._stages.mounts.start()
        self._watch.start()
        await self._stages.mounts.listed(MOUNT_WAIT_S)
        self._specs()  # a tool whose schema is none ends the start, and the first run finds its checkers made
        self._consumers = [
            asyncio.create_task(self._worker.work(lane, depth), name=f"runs {lane} {depth}")
            for lane in Lane
            for depth in range(MAX_DEPTH + 1)
        ]
        self._consumers += [asyncio.create_task(self._queue.work(lane), name=f"rollouts {lane}") for lane in Lane]

    async def changes(self) -> AsyncIterator[bool]:
        """Raise when a queue is no longer consumed, so that the service becomes unhealthy."""
        done, _ = await asyncio.wait(self._consumers, return_when=asyncio.FIRST_COMPLETED)
        for consumer in done:
            cause = "ended" if consumer.cancelled() else consumer.exception() or "ended"
            raise DependencyFailed("bus", f"{consumer.get_name()} are not taken any more: {cause}")
        yield True  # never: an async generator, as its siblings are

    async def finish(self) -> None:
        """Stop consuming runs and rollouts, and wait for those in progress."""
        self._worker.take_no_more()
        self._queue.take_no_more()
        await asyncio.gather(*self._consumers, return_exceptions=True)

    async def close(self) -> None:
        """Return unfinished runs to the queue."""
        for consumer in self._consumers:
            consumer.cancel()
        await asyncio.gather(*self._consumers, return_exceptions=True)
        await self._watch.close()
        await self._stages.mounts.close()

    async def Run(self, request: pb.RunRequest, call: Call) -> AsyncIterator[pb.RunResponse]:
        header = await self._runs.begin(request)
        leg = await self._runs.queue(header, call.lane)
        async for event in follow(self._deps.bus, header.run_id, 0, leg.number):
            yield pb.RunResponse(event=event)

    async def WatchRun(self, request: pb.WatchRunRequest, call: Call) -> AsyncIterator[pb.WatchRunResponse]:
        leg = await self._runs.watchable(checked_id("run_id", request.run_id))
        async for event in follow(self._deps.bus, request.run_id, request.after_sequence, leg.number):
            yield pb.WatchRunResponse(event=event)

    async def ResumeRun(self, request: pb.ResumeRunRequest, call: Call) -> AsyncIterator[pb.ResumeRunResponse]:
        checked_id("run_id", request.run_id)
        header, leg = await self._runs.resume(request)
        await self._worker.submit(header, call.lane, leg)
        begun = False
        async for event in follow(self._deps.bus, request.run_id, 0, leg.number):
            begun = begun or (event.HasField("resumed") and event.resumed.leg == leg.number)
            if begun:
                yield pb.ResumeRunResponse(event=event)

    async def StopRun(self, request: pb.StopRunRequest, call: Call) -> pb.StopRunResponse:
        return pb.StopRunResponse(was_running=await self._worker.stop(checked_id("run_id", request.run_id)))

    async def UpdateTodo(self, request: pb.UpdateTodoRequest, call: Call) -> pb.UpdateTodoResponse:
        await self._runs.record.header(checked_id("run_id", request.run_id))
        return await ask_to_edit(self._deps.bus, request)

    async def GetRun(self, request: pb.GetRunRequest, call: Call) -> pb.GetRunResponse:
        return await self._runs.get(checked_id("run_id", request.run_id), LANES[call.lane])

    async def ListRuns(self, request: pb.ListRunsRequest, call: Call) -> pb.ListRunsResponse:
        return await self._runs.list(request.page_size or 100, request.page_token)

    async def ReplayRun(self, request: pb.ReplayRunRequest, call: Call) -> pb.ReplayRunResponse:
        return await self._runs.replay(checked_id("run_id", request.run_id))

    async def RouteQuestion(self, request: pb.RouteQuestionRequest, call: Call) -> pb.RouteQuestionResponse:
        question = checked_question(request.question, self._stages.config.max_question_chars)
        return route_to_proto(route(question))

    async def ListTools(self, request: pb.ListToolsRequest, call: Call) -> pb.ListToolsResponse:
        return pb.ListToolsResponse(tools=[tool_spec_to_proto(spec) for spec in self._specs()])

    def _specs(self) -> Sequence[ToolSpec]:
        task = Task("list", "", "", Sampling(), Limits(0, 0, 0.0))
        return self._stages(task, ()).tools.specs

    async def Rollout(self, request: pb.RolloutRequest, call: Call) -> AsyncIterator[pb.RolloutResponse]:
        async for message in self._rollouts.run(request, call):
            yield pb.RolloutResponse(trajectory=message)

    async def SubmitRollout(self, request: pb.SubmitRolloutRequest, call: Call) -> pb.SubmitRolloutResponse:
        return pb.SubmitRolloutResponse(rollout_id=await self._queue.submit(request.rollout, call.lane))

    async def WatchRollout(self, request: pb.WatchRolloutRequest, call: Call) -> AsyncIterator[pb.WatchRolloutResponse]:
        rollout_id = checked_id("rollout_id", request.rollout_id)
        async with aclosing(self._queue.watch(rollout_id, request.after_sequence)) as kept:
            async for sequence, message in kept:
                yield pb.WatchRolloutResponse(trajectory=message, sequence=sequence)

    async def StopRollout(self, request: pb.StopRolloutRequest, call: Call) -> pb.StopRolloutResponse:
        return pb.StopRolloutResponse(was_queued=await self._queue.stop(checked_id("rollout_id", request.rollout_id)))
