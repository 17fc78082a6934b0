"""Reward's RPCs: proto ⇄ engine, no logic."""

from __future__ import annotations

from typing import ClassVar

from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.bus.streams import PROCESS
from fathom.call import Call
from fathom.errors import InvalidField
from fathom.grading.graders import GRADERS, Item
from fathom.rpc.service import Deps, Service
from services.reward.config import Config
from services.reward.engine import score
from services.reward.process import door
from services.reward.process.model import ProcessModel

MAX_PAGE = 1_000


def build(config: Config, deps: Deps) -> Service:
    """Reward; the only constructor."""
    process = ProcessModel(config.process, deps.store, deps.bus.bucket(PROCESS), deps.telemetry.log)
    return Service("reward", RewardServicer(config, deps, process), close=process.close)


class RewardServicer:
    """Answers reward's RPCs."""

    unimplemented: ClassVar = {"JudgePairs": "the reinforcement-learning issue builds the judge"}

    def __init__(self, config: Config, deps: Deps, process: ProcessModel) -> None:
        self._config, self._deps, self._process = config, deps, process

    async def Score(self, request: pb.ScoreRequest, call: Call) -> pb.ScoreResponse:
        items = [
            (item.grader, Item(item.answer, tuple(item.references), dict(item.parameters), item.response))
            for item in request.items
        ]
        scores = await score(items, self._config.max_items)
        return pb.ScoreResponse(
            scores=[pb.Score(value=item.value, components=dict(item.components), reason=item.reason) for item in scores]
        )

    async def ListGraders(self, request: pb.ListGradersRequest, call: Call) -> pb.ListGradersResponse:
        if not 0 <= request.page_size <= MAX_PAGE:
            raise InvalidField("page_size", f"must be 0 to {MAX_PAGE:,}")
        names = sorted(GRADERS)
        # The last name of a page is its token: names are unique and in order.
        if request.page_token and request.page_token not in names[:-1]:
            raise InvalidField("page_token", "is not one that this list gave")
        following = [name for name in names if name > request.page_token]
        page = following[: request.page_size or MAX_PAGE]
        graders = [
            pb.Grader(name=name, description=GRADERS[name].description, parameters=sorted(GRADERS[name].parameters))
            for name in page
        ]
        return pb.ListGradersResponse(graders=graders, next_page_token=page[-1] if len(page) < len(following) else "")

    async def ScoreProcess(self, request: pb.ScoreProcessRequest, call: Call) -> pb.ScoreProcessResponse:
        return await door.score(self._process, request)

    async def UpdateModel(self, request: pb.UpdateModelRequest, call: Call) -> pb.UpdateModelResponse:
        return await door.update(self._process, self._deps.store, request)
