"""RPCs of the reward service: proto to and from the engine, no logic."""

from __future__ import annotations

import asyncio

from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.bus.streams import PROCESS
from fathom.call import Call
from fathom.errors import InvalidField
from fathom.grading.graders import Item, ToolStep
from fathom.grading.pool import Pool
from fathom.rpc.service import Deps, Service
from fathom.store import ObjectStore
from fathom.store.refs import from_ref
from services.reward.config import Config
from services.reward.engine import Engine
from services.reward.judging.door import judge_pairs
from services.reward.judging.judge import Judge
from services.reward.metrics import Metrics
from services.reward.process import door
from services.reward.process.model import ProcessModel
from services.reward.running import Runner
from services.reward.work import Frame, Work

MAX_PAGE = 1_000


def build(config: Config, deps: Deps) -> Service:
    """Build the reward service; the only constructor."""
    log, registry = deps.telemetry.log, deps.telemetry.registry
    pool = Pool(config.verify_workers, config.verify_timeout_s)
    runner = Runner(deps.clients, config.concurrent_cells, log, None if config.frames_by_reference else deps.store)
    engine = Engine(config.composites, pool, runner, Metrics.on(registry), log, config.max_items)
    process = ProcessModel(config.process, deps.store, deps.bus.bucket(PROCESS), log)
    judge = Judge(config.judge, deps.clients, registry, log)

    async def close() -> None:
        await asyncio.gather(pool.close(), process.close())

    return Service("reward", RewardServicer(engine, judge, process, deps.store), close=close)


class RewardServicer:
    """Answers the RPCs of the reward service."""

    def __init__(self, engine: Engine, judge: Judge, process: ProcessModel, store: ObjectStore) -> None:
        self._engine, self._judge, self._process, self._store = engine, judge, process, store

    async def Score(self, request: pb.ScoreRequest, call: Call) -> pb.ScoreResponse:
        scores = await self._engine.score([work_from(item) for item in request.items])
        return pb.ScoreResponse(
            scores=[pb.Score(value=item.value, components=dict(item.components), reason=item.reason) for item in scores]
        )

    async def ListGraders(self, request: pb.ListGradersRequest, call: Call) -> pb.ListGradersResponse:
        if not 0 <= request.page_size <= MAX_PAGE:
            raise InvalidField("page_size", f"must be 0 to {MAX_PAGE:,}")
        known = self._engine.names
        names = sorted(known)
        # The last name of a page is its token: names are unique and in order.
        if request.page_token and request.page_token not in names[:-1]:
            raise InvalidField("page_token", "is not one that this list gave")
        following = [name for name in names if name > request.page_token]
        page = following[: request.page_size or MAX_PAGE]
        graders = [pb.Grader(name=name, description=known[name][0], parameters=known[name][1]) for name in page]
        return pb.ListGradersResponse(graders=graders, next_page_token=page[-1] if len(page) < len(following) else "")

    async def JudgePairs(self, request: pb.JudgePairsRequest, call: Call) -> pb.JudgePairsResponse:
        return await judge_pairs(self._judge, request)

    async def ScoreProcess(self, request: pb.ScoreProcessRequest, call: Call) -> pb.ScoreProcessResponse:
        return await door.score(self._process, request)

    async def UpdateModel(self, request: pb.UpdateModelRequest, call: Call) -> pb.UpdateModelResponse:
        return await door.update(self._process, self._store, request)


def work_from(item: pb.ScoreItem) -> Work:
    steps = tuple(ToolStep(step.tool, step.ok, step.repeated_call) for step in item.steps)
    frames = tuple(
        Frame(frame.name, from_ref(frame.ref) if frame.HasField("ref") else frame.arrow) for frame in item.frames
    )
    graded = Item(
        item.answer,
        tuple(item.references),
        dict(item.parameters),
        item.response,
        steps,
        tuple(item.expected_tools),
    )
    return Work(item.grader, graded, frames)
