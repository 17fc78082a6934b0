"""A bus with ends of runs, a planner that knows them, and a reward that grades them; both may be away."""

from __future__ import annotations

import asyncio
import io
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import CollectorRegistry

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.clients import Clients, RetryPolicy
from fathom.core.call import Call
from fathom.core.errors import DependencyFailed, FathomError, InvalidField, NotFound
from fathom.core.ids import new_id
from fathom.core.telemetry import Telemetry
from fathom.operations.monitoring.config import Config
from fathom.operations.monitoring.watch import Watch
from fathom.transport.bus.base import Bus
from fathom.transport.bus.memory import MemoryBus
from fathom.transport.bus.streams import events_subject, topology
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.service import Service
from fathom.transport.store.memory import MemoryStore


class Planner:
    """Gives the runs that were put into ``runs``."""

    def __init__(self) -> None:
        self.runs: dict[str, pb.GetRunResponse] = {}
        self.away = False

    async def GetRun(self, request: pb.GetRunRequest, call: Call) -> pb.GetRunResponse:
        self._check()
        if request.run_id not in self.runs:
            raise NotFound("run", request.run_id)
        return self.runs[request.run_id]

    async def ListRuns(self, request: pb.ListRunsRequest, call: Call) -> pb.ListRunsResponse:
        self._check()
        return pb.ListRunsResponse()

    def _check(self) -> None:
        if self.away:
            raise DependencyFailed("planner", "is away")


class Reward:
    """Values each item by the length of its answer; counts what it was asked, ``refuses`` by grader."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, str]] = Counter()
        self.refuses: dict[str, FathomError] = {}
        self.fails: set[str] = set()
        self.away = False

    async def ListGraders(self, request: reward.ListGradersRequest, call: Call) -> reward.ListGradersResponse:
        self._check()
        return reward.ListGradersResponse(graders=[reward.Grader(name=name) for name in ("tool_steps", "em", "code")])

    async def Score(self, request: reward.ScoreRequest, call: Call) -> reward.ScoreResponse:
        self._check()
        scores = []
        for item in request.items:
            self.asked[item.grader, item.answer] += 1
            if item.grader in self.refuses:
                raise self.refuses[item.grader]
            if item.grader == "em" and not item.references:
                raise InvalidField("items[0].references", "are needed")
            failed = {"failed": 1.0} if item.grader in self.fails else {}
            scores.append(reward.Score(value=0.0 if failed else 0.5, components=failed))
        return reward.ScoreResponse(scores=scores)

    def _check(self) -> None:
        if self.away:
            raise DependencyFailed("reward", "is away")


class Production:
    """``ends`` publishes the end of a run; each ``watch`` is a copy with metrics of its own."""

    def __init__(self, bus: Bus | None = None, clock: Callable[[], float] = time.time) -> None:
        self.planner, self.reward, self.clock = Planner(), Reward(), clock
        self.bus: Bus = bus or MemoryBus(MemoryStore(), topology())
        telemetry = Telemetry("test", stream=io.StringIO())
        peers: dict[str, object] = {"planner": self.planner, "reward": self.reward}
        dispatchers = {name: Dispatcher(Service(name, servicer), telemetry) for name, servicer in peers.items()}
        for dispatcher in dispatchers.values():
            dispatcher.ready = True
        self.clients = Clients(
            {name: f"inproc://{name}" for name in peers}, telemetry, dispatchers=dispatchers,
            policy=RetryPolicy(attempts=1),
        )  # fmt: skip
        self.log = telemetry.log

    async def ends(
        self,
        run_id: str,
        *,
        leg: int = 0,
        model: str = "rules",
        lane: Any = common.LANE_INTERACTIVE,
        known: bool = True,
    ) -> None:
        """A run ends; ``known`` to the planner."""
        if known:
            self.planner.runs[run_id] = pb.GetRunResponse(
                leg=leg,
                trajectory=trajectory.Trajectory(
                    run_id=run_id,
                    question="q",
                    lane=lane,
                    answer=trajectory.Answer(markdown=run_id),
                    steps=[trajectory.Step(completion=policy.Completion(model=model))],
                ),
            )
        for event in (
            pb.RunEvent(run_id=run_id, answer_delta=pb.AnswerDelta(text="x")),
            pb.RunEvent(run_id=run_id, finished=pb.RunFinished(leg=leg)),
        ):
            event.time.FromMicroseconds(int(self.clock() * 1e6))
            await self.bus.publish(events_subject(run_id), event.SerializeToString(), message_id=new_id("event"))

    def watch(self, *, bus: Bus | None = None, **settings: Any) -> Copy:
        """A copy of the watch that pauses for milliseconds only, over a connection of its own if one is given."""
        patience = {"first_pause_s": 0.005, "max_pause_s": 0.02} | settings
        return Copy(self, Config(**patience), bus or self.bus)


class Copy:
    """A watch with its metrics."""

    def __init__(self, production: Production, config: Config, bus: Bus) -> None:
        self.registry = CollectorRegistry()
        self.watch = Watch(config, production.clients, bus, self.registry, production.log, production.clock)

    def read_count(self, name: str, **labels: str) -> float:
        """Return a metric's value, 0 where it was never counted."""
        return self.registry.get_sample_value(name, labels) or 0.0

    def grades(self, grader: str = "tool_steps", model: str = "rules") -> float:
        return self.read_count("fathom_grading_value_count", grader=grader, model=model)

    def lacking(self, grader: str, reason: str) -> float:
        return self.read_count("fathom_grading_ungraded_total", grader=grader, reason=reason)


@asynccontextmanager
async def at_work(*copies: Copy) -> AsyncIterator[None]:
    """The copies run, and finish."""
    duties = [asyncio.create_task(copy.watch.run()) for copy in copies]
    try:
        yield
    finally:
        for copy in copies:
            await copy.watch.finish()
        async with asyncio.timeout(10):
            await asyncio.gather(*duties)
