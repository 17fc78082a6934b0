"""gRPC servicer of the planner: converts messages and delegates to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Call, Lane
from fathom.core.errors import DependencyFailed
from fathom.core.ids import checked_id
from fathom.domain.chat.messages import Sampling, ToolSpec
from fathom.domain.chat.proto import tool_spec_to_proto
from fathom.hosting.deps import Deps
from fathom.hosting.reach import Reach
from fathom.services.planner.assembly import ResourcesFactory
from fathom.services.planner.classification.classifier import Classifier
from fathom.services.planner.config import Config
from fathom.services.planner.engine import AnyProtocol, Engine
from fathom.services.planner.episode.dialogue import Research, SearchR1
from fathom.services.planner.episode.limits import validate_question
from fathom.services.planner.episode.llm import PolicyService
from fathom.services.planner.learner import Learner
from fathom.services.planner.mcp.describing import list_servers
from fathom.services.planner.mcp.probing import probe_server
from fathom.services.planner.metrics import Spending
from fathom.services.planner.model.episode import Limits, Task
from fathom.services.planner.prompts.catalogue import Catalogue, load_catalogue
from fathom.services.planner.prompts.data_summary import DataSummary
from fathom.services.planner.prompts.listing import list_prompts
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.proto.lanes import LANES
from fathom.services.planner.recording.tape import Recordings
from fathom.services.planner.recording.transport import RecordedTransport
from fathom.services.planner.remembering.extraction import Extractor
from fathom.services.planner.remembering.judging import ContradictionJudge
from fathom.services.planner.remembering.remembering import Remembering
from fathom.services.planner.remembering.typed_views import ViewTypist
from fathom.services.planner.remembering.views import ViewReader
from fathom.services.planner.rollouts.leases import WatcherLeases
from fathom.services.planner.rollouts.queue import RolloutQueue
from fathom.services.planner.rollouts.service import Rollouts
from fathom.services.planner.runs.api import Runs
from fathom.services.planner.runs.branching import branch_run
from fathom.services.planner.runs.consent import get_consent, set_consent
from fathom.services.planner.runs.control import request_edit
from fathom.services.planner.runs.earlier.reminders import Recaller
from fathom.services.planner.runs.log.events import follow
from fathom.services.planner.runs.playing.dead import DeadRuns
from fathom.services.planner.runs.playing.ending import EndWriter
from fathom.services.planner.runs.playing.preparation import RunPreparer
from fathom.services.planner.runs.playing.worker import Worker
from fathom.services.planner.runs.repository import RunRepository
from fathom.services.planner.runs.routing import RunRouter
from fathom.services.planner.understanding import Understanding
from fathom.services.planner.workflow.convert import route_to_proto
from fathom.services.planner.workflow.enrichment import LibraryEnricher
from fathom.services.planner.workflow.protocol import Workflow
from fathom.transport.bus.quotas import Quotas
from fathom.transport.bus.streams import MAX_DEPTH
from fathom.transport.bus.watch import BusWatch
from fathom.transport.rpc.service import Service
from fathom.transport.store.tenant import TenantStore

# Seconds that the start waits for external tools; late ones are available to later runs.
MOUNT_WAIT_S = 5.0


def build(config: Config, deps: Deps) -> Service:
    """Build the planner service with its worker."""
    # Of the store itself: what is asked for belongs to no tenant.
    reach = Reach(deps.bus, deps.store, deps.telemetry.log)
    # Runs, rollouts and what they refer to belong to a tenant.
    deps = replace(deps, store=TenantStore(deps.store), clients=deps.clients.wrap_transports(RecordedTransport))
    recordings = Recordings(deps.store)
    prompts = Prompts.of(load_catalogue(config.prompt_dir), config)
    understanding = Understanding.of(config, deps, prompts)
    classifier = understanding.classifier
    protocols = make_protocols(config, deps, prompts, classifier)
    log = deps.telemetry.log
    quotas = Quotas(deps.bus, log, deps.quotas)
    resources = ResourcesFactory.of(config, deps, prompts.catalogue, classifier, understanding.measures, quotas)
    tagged, structured = PolicyService(deps.clients, tags=True), PolicyService(deps.clients, tags=False)
    engine = Engine(
        lambda protocol: tagged if protocol.tags else structured,
        resources,
        understanding.find_chart,
        recordings,
    )
    record = RunRepository(deps.store)
    summary = DataSummary(deps.clients)
    remembering = make_remembering(config, deps, record, understanding, prompts.catalogue)
    rewriter = understanding.rewriter
    router = RunRouter(understanding.route, understanding.find_form, rewriter, understanding.find_subject)
    recaller = Recaller(deps.clients, record, config.recall_tokens, config.recall_timeout_s, log)
    preparer = RunPreparer(config, protocols, record, deps.clients, router, summary, rewriter, remembering, recaller)
    spending = Spending.register(deps.telemetry.registry)
    ends = EndWriter(config, record, deps.clients, deps.bus, log, remembering, spending)
    worker = Worker(config, engine, protocols, record, deps.bus, log, preparer, ends)
    learner = make_learner(config, deps, record, understanding, prompts.catalogue)
    rollouts = Rollouts(
        config,
        engine,
        protocols,
        record,
        deps.clients,
        log,
        summary,
        understanding.rewriter,
        understanding.route,
        understanding.find_form,
    )
    runs = Runs(config, worker, record, deps.clients)
    queue = RolloutQueue(config, rollouts, deps.store, deps.bus, log, WatcherLeases(deps.store, deps.bus, log))
    watch = BusWatch(deps.bus, deps.telemetry.registry, log)
    servicer = PlannerServicer(
        deps, resources, worker, rollouts, queue, runs, watch, understanding, quotas, learner, reach
    )
    return Service(
        "planner", servicer, servicer.warm_up, servicer.close, changes=servicer.changes, finish=servicer.finish
    )


def make_protocols(config: Config, deps: Deps, prompts: Prompts, classifier: Classifier) -> dict[int, AnyProtocol]:
    """Return the protocols by their number in the API."""
    research = Research(prompts)
    enricher = LibraryEnricher(
        deps.clients, config.workflow_widening, config.workflow_framework_tokens, classifier=classifier
    )
    return {
        # A request may leave the protocol out.
        trajectory.PROTOCOL_UNSPECIFIED: research,
        trajectory.PROTOCOL_RESEARCH: research,
        trajectory.PROTOCOL_WORKFLOW: Workflow(
            prompts, enricher, config.workflow_material_tokens, config.workflow_reflects
        ),
        trajectory.PROTOCOL_SEARCH_R1: SearchR1(
            prompts.catalogue.find("search_r1", "en").body, documents=config.search_r1_documents
        ),
    }


def make_remembering(
    config: Config, deps: Deps, record: RunRepository, understanding: Understanding, catalogue: Catalogue
) -> Remembering | None:
    """Return what runs get from memory; None where the settings leave it no tokens."""
    if not config.memory_tokens:
        return None
    reader = understanding.rewriter.reader
    views, typist = ViewReader(reader, understanding.measures), make_typist(deps, understanding, catalogue)
    judge = ContradictionJudge(deps.clients, catalogue.find("contradictions", "en").render())
    log, classifier = deps.telemetry.log, understanding.classifier
    return Remembering(deps.clients, record, reader, views, log, classifier, config.memory_tokens, typist, judge)


def make_learner(
    config: Config, deps: Deps, record: RunRepository, understanding: Understanding, catalogue: Catalogue
) -> Learner:
    """Return the consumer that learns facts and views behind the answers."""
    prompt = catalogue.find("facts", "en").render()
    facts = Extractor(deps.clients, understanding.rewriter.reader, understanding.facts, prompt)
    typist = make_typist(deps, understanding, catalogue)
    return Learner(deps.bus, deps.clients, record, facts, deps.telemetry.log, config.heartbeat_s, typist)


def make_typist(deps: Deps, understanding: Understanding, catalogue: Catalogue) -> ViewTypist:
    """Return the reader of views by a run's language model."""
    return ViewTypist(deps.clients, understanding.rewriter.reader, catalogue.find("views", "en").render())


class PlannerServicer:
    """Servicer of the planner API."""

    def __init__(
        self,
        deps: Deps,
        resources: ResourcesFactory,
        worker: Worker,
        rollouts: Rollouts,
        queue: RolloutQueue,
        runs: Runs,
        watch: BusWatch,
        understanding: Understanding,
        quotas: Quotas,
        learner: Learner,
        reach: Reach,
    ) -> None:
        self._learner, self._reach = learner, reach
        self._understanding, self._quotas = understanding, quotas
        self._deps, self._resources, self._watch = deps, resources, watch
        self._worker, self._rollouts, self._queue, self._runs = worker, rollouts, queue, runs
        self._dead = DeadRuns(worker)
        self._consumers: list[asyncio.Task[None]] = []

    async def warm_up(self) -> None:
        """Connect external tools and start to consume runs of every lane."""
        self._resources.mounts.start()
        self._understanding.start()
        self._quotas.start()
        self._watch.start()
        await self._resources.mounts.wait_until_listed(MOUNT_WAIT_S)
        self._specs()  # an invalid tool schema fails the start, and the first run finds the validators compiled
        self._consumers = [
            asyncio.create_task(self._worker.work(lane, depth), name=f"runs {lane} {depth}")
            for lane in Lane
            # One consumer per lane and depth: a run that waits for its sub-run must never hold the place that the
            # sub-run needs.
            for depth in range(MAX_DEPTH + 1)
        ]
        self._consumers += [asyncio.create_task(self._queue.work(lane), name=f"rollouts {lane}") for lane in Lane]
        self._consumers.append(asyncio.create_task(self._dead.work(), name="dead runs"))
        self._consumers.append(asyncio.create_task(self._learner.work(), name="lessons"))

    async def changes(self) -> AsyncIterator[bool]:
        """Yield whether bus and store are within reach, whenever that changes; raise when a queue is not consumed.

        Without either of them a run would begin, and its caller wait for ever. A consumer ends only by a bug or a
        closed bus; the planner would look healthy and take no runs.
        """
        while True:
            change = asyncio.create_task(self._reach.wait_for_change(), name="reach of bus and store")
            try:
                done, _ = await asyncio.wait({change, *self._consumers}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                change.cancel()
            for consumer in done - {change}:
                cause = "ended" if consumer.cancelled() else consumer.exception() or "ended"
                raise DependencyFailed("bus", f"{consumer.get_name()} are not taken any more: {cause}")
            yield change.result()

    async def finish(self) -> None:
        """Stop consuming runs and rollouts, and wait for those in progress."""
        # The runs in progress go on: what is not finished when the service closes is delivered to another planner.
        self._worker.stop_consuming()
        self._queue.stop_consuming()
        self._dead.stop_consuming()
        self._learner.stop_consuming()
        await asyncio.gather(*self._consumers, return_exceptions=True)

    async def close(self) -> None:
        """Return unfinished runs to the queue."""
        for consumer in self._consumers:
            consumer.cancel()
        await asyncio.gather(*self._consumers, return_exceptions=True)
        await self._understanding.close()
        await self._quotas.close()
        await self._watch.close()
        await self._resources.mounts.close()

    async def Run(self, request: pb.RunRequest, call: Call) -> AsyncIterator[pb.RunResponse]:
        header, leg = await self._runs.ask(request, call.lane)
        async with aclosing(self._runs.entrance.follow(header, leg)) as events:
            async for event in events:
                yield pb.RunResponse(event=event)

    async def WatchRun(self, request: pb.WatchRunRequest, call: Call) -> AsyncIterator[pb.WatchRunResponse]:
        header, leg = await self._runs.find_watchable(checked_id("run_id", request.run_id))
        if request.after_sequence:  # it has begun: what it waits for, its log says
            events = follow(self._deps.bus, request.run_id, request.after_sequence, leg.number)
        else:
            events = self._runs.entrance.follow(header, leg)
        async with aclosing(events) as told:
            async for event in told:
                yield pb.WatchRunResponse(event=event)

    async def ResumeRun(self, request: pb.ResumeRunRequest, call: Call) -> AsyncIterator[pb.ResumeRunResponse]:
        checked_id("run_id", request.run_id)
        _, leg = await self._runs.resume(request, call.lane)
        begun = False
        async for event in follow(self._deps.bus, request.run_id, 0, leg.number, may_skip=True):
            # Events of earlier legs come first in the stream, if it still has them; the caller has seen them.
            begun = begun or (event.HasField("resumed") and event.resumed.leg == leg.number)
            if begun:
                yield pb.ResumeRunResponse(event=event)

    async def StopRun(self, request: pb.StopRunRequest, call: Call) -> pb.StopRunResponse:
        return pb.StopRunResponse(was_running=await self._runs.stop(checked_id("run_id", request.run_id)))

    async def UpdateTodo(self, request: pb.UpdateTodoRequest, call: Call) -> pb.UpdateTodoResponse:
        await self._runs.record.get_header(checked_id("run_id", request.run_id))
        return await request_edit(self._deps.bus, request)

    async def GetRun(self, request: pb.GetRunRequest, call: Call) -> pb.GetRunResponse:
        return await self._runs.get(checked_id("run_id", request.run_id), LANES[call.lane])

    async def ListRuns(self, request: pb.ListRunsRequest, call: Call) -> pb.ListRunsResponse:
        return await self._runs.list(request.page_size or 100, request.page_token)

    async def ReplayRun(self, request: pb.ReplayRunRequest, call: Call) -> pb.ReplayRunResponse:
        return await self._runs.replay(checked_id("run_id", request.run_id))

    async def BranchRun(self, request: pb.BranchRunRequest, call: Call) -> pb.BranchRunResponse:
        return pb.BranchRunResponse(run_id=await branch_run(self._runs, request, call.lane))

    async def SetConsent(self, request: pb.SetConsentRequest, call: Call) -> pb.SetConsentResponse:
        await set_consent(self._runs.record, request, call)
        return pb.SetConsentResponse()

    async def GetConsent(self, request: pb.GetConsentRequest, call: Call) -> pb.GetConsentResponse:
        return await get_consent(self._runs.record, request, call)

    async def RouteQuestion(self, request: pb.RouteQuestionRequest, call: Call) -> pb.RouteQuestionResponse:
        question = validate_question(request.question, self._resources.config.max_question_chars)
        route, evidence, chart = await self._understanding.describe(question)
        return route_to_proto(route, evidence, chart)

    async def ListTools(self, request: pb.ListToolsRequest, call: Call) -> pb.ListToolsResponse:
        return pb.ListToolsResponse(tools=[tool_spec_to_proto(spec) for spec in self._specs()])

    async def ListToolServers(self, request: pb.ListToolServersRequest, call: Call) -> pb.ListToolServersResponse:
        return list_servers(self._resources.mounts)

    async def ProbeToolServer(self, request: pb.ProbeToolServerRequest, call: Call) -> pb.ProbeToolServerResponse:
        return await probe_server(self._resources.mounts, request.name)

    async def ListPrompts(self, request: pb.ListPromptsRequest, call: Call) -> pb.ListPromptsResponse:
        return list_prompts(Prompts.of(self._resources.catalogue, self._resources.config), request.stage)

    def _specs(self) -> Sequence[ToolSpec]:
        # A task without a question makes resources whose tools are described but never called.
        task = Task("list", "", "", Sampling(), Limits(0, 0, 0.0))
        return self._resources(task, ()).tools.specs

    # The rollouts' own generator: every episode of a training passes here.
    def Rollout(self, request: pb.RolloutRequest, call: Call) -> AsyncGenerator[pb.RolloutResponse, None]:
        return self._rollouts.run(request, call)

    async def SubmitRollout(self, request: pb.SubmitRolloutRequest, call: Call) -> pb.SubmitRolloutResponse:
        return pb.SubmitRolloutResponse(rollout_id=await self._queue.submit(request.rollout, call.lane))

    async def WatchRollout(self, request: pb.WatchRolloutRequest, call: Call) -> AsyncIterator[pb.WatchRolloutResponse]:
        rollout_id = checked_id("rollout_id", request.rollout_id)
        async with aclosing(self._queue.watch(rollout_id, request.after_sequence)) as kept:
            async for sequence, message in kept:
                yield pb.WatchRolloutResponse(trajectory=message, sequence=sequence)

    async def StopRollout(self, request: pb.StopRolloutRequest, call: Call) -> pb.StopRolloutResponse:
        return pb.StopRolloutResponse(was_queued=await self._queue.stop(checked_id("rollout_id", request.rollout_id)))
