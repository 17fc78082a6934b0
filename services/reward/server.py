"""RPCs of the reward service: proto to and from the engine, no logic."""

from __future__ import annotations

import asyncio

from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.core.call import Call
from fathom.core.extras import require_modules
from fathom.core.paging import page_of_list
from fathom.domain.grading.graders import Item, ToolStep
from fathom.domain.grading.pool import Pool
from fathom.hosting.deps import Deps
from fathom.services.reward.code_grader import CodeGrader
from fathom.services.reward.config import Config
from fathom.services.reward.engine import Engine
from fathom.services.reward.judging.judge import Judge
from fathom.services.reward.judging.rpc import judge_pairs
from fathom.services.reward.metrics import Metrics
from fathom.services.reward.process import rpc
from fathom.services.reward.process.model import ProcessModel
from fathom.services.reward.request import Frame, GradingRequest
from fathom.transport.bus.streams import PROCESS
from fathom.transport.rpc.service import Service
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import from_ref


def build(config: Config, deps: Deps) -> Service:
    """Build the reward service; the only constructor. Raises ``MissingExtra`` without math-verify."""
    # At the start: a grader that fails scores 0, and a training would learn from that.
    require_modules("math_verify")
    log, registry = deps.telemetry.log, deps.telemetry.registry
    pool = Pool(config.verify_workers, config.verify_timeout_s)
    # Without references the tables are read here and sent along, for sandboxes that cannot reach the store.
    code_grader = CodeGrader(
        deps.clients, config.concurrent_cells, log, None if config.frames_by_reference else deps.store
    )
    engine = Engine(config.composites, pool, code_grader, Metrics.register(registry), log, config.max_items)
    process = ProcessModel(config.process, deps.store, deps.bus.bucket(PROCESS), log)
    judge = Judge(config.judge, deps.clients, registry, log)

    async def close() -> None:
        # Together: both wait for work that is under way.
        await asyncio.gather(pool.close(), process.close())

    return Service("reward", RewardServicer(engine, judge, process, deps.store), close=close)


class RewardServicer:
    """Answers the RPCs of the reward service."""

    def __init__(self, engine: Engine, judge: Judge, process: ProcessModel, store: ObjectStore) -> None:
        self._engine, self._judge, self._process, self._store = engine, judge, process, store

    async def Score(self, request: pb.ScoreRequest, call: Call) -> pb.ScoreResponse:
        scores = await self._engine.score([parse_item(item) for item in request.items])
        return pb.ScoreResponse(
            scores=[pb.Score(value=item.value, components=dict(item.components), reason=item.reason) for item in scores]
        )

    async def ListGraders(self, request: pb.ListGradersRequest, call: Call) -> pb.ListGradersResponse:
        known = self._engine.names
        page, following = page_of_list(sorted(known), "graders", request.page_size, request.page_token)
        graders = [pb.Grader(name=name, description=known[name][0], parameters=known[name][1]) for name in page]
        return pb.ListGradersResponse(graders=graders, next_page_token=following)

    async def JudgePairs(self, request: pb.JudgePairsRequest, call: Call) -> pb.JudgePairsResponse:
        return await judge_pairs(self._judge, request)

    async def ScoreProcess(self, request: pb.ScoreProcessRequest, call: Call) -> pb.ScoreProcessResponse:
        return await rpc.score(self._process, request)

    async def UpdateModel(self, request: pb.UpdateModelRequest, call: Call) -> pb.UpdateModelResponse:
        return await rpc.update(self._process, self._store, request)


def parse_item(item: pb.ScoreItem) -> GradingRequest:
    graded = Item(
        item.answer,
        tuple(item.references),
        dict(item.parameters),
        item.response,
        tuple(map(parse_step, item.steps)),
        tuple(item.expected_tools),
    )
    return GradingRequest(item.grader, graded, tuple(map(parse_frame, item.frames)))


def parse_step(step: pb.ToolStep) -> ToolStep:
    return ToolStep(step.tool, step.ok, step.repeated_call)


def parse_frame(frame: pb.ScoreFrame) -> Frame:
    return Frame(frame.name, from_ref(frame.ref) if frame.HasField("ref") else frame.arrow)
