"""Reward's RPCs: proto ⇄ engine, no logic."""

from __future__ import annotations

from typing import ClassVar

from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.call import Call
from fathom.rpc.service import Deps, Service
from services.reward.config import Config
from services.reward.engine import score
from services.reward.graders import GRADERS, Item


def build(config: Config, deps: Deps) -> Service:
    """Reward; the only constructor."""
    return Service("reward", RewardServicer(config))


class RewardServicer:
    """Answers reward's RPCs."""

    unimplemented: ClassVar = {
        name: "the reinforcement-learning issue builds the judge and the implicit process reward"
        for name in ("JudgePairs", "ScoreProcess", "UpdateModel")
    }

    def __init__(self, config: Config) -> None:
        self._config = config

    async def Score(self, request: pb.ScoreRequest, call: Call) -> pb.ScoreResponse:
        items = [
            (item.grader, Item(item.answer, tuple(item.references), dict(item.parameters), item.response))
            for item in request.items
        ]
        scores = score(items, self._config.max_items)
        return pb.ScoreResponse(
            scores=[pb.Score(value=item.value, components=dict(item.components), reason=item.reason) for item in scores]
        )

    async def ListGraders(self, request: pb.ListGradersRequest, call: Call) -> pb.ListGradersResponse:
        graders = [
            pb.Grader(name=name, description=grader.description, parameters=grader.parameters)
            for name, grader in GRADERS.items()
        ]
        return pb.ListGradersResponse(graders=graders)
