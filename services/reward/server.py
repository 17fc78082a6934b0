"""Reward's RPCs: proto ⇄ engine, no logic."""

from __future__ import annotations

from typing import ClassVar

from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.call import Call
from fathom.errors import InvalidField
from fathom.grading.graders import GRADERS, Item
from fathom.rpc.service import Deps, Service
from services.reward.config import Config
from services.reward.engine import score

MAX_PAGE = 1_000


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
