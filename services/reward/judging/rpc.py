"""RPC JudgePairs: proto to and from the judge, no logic."""

from __future__ import annotations

from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.services.reward.judging.judge import Judge, Pair
from fathom.services.reward.judging.settings import Style
from fathom.services.reward.judging.votes import Judgement

STYLES = {
    pb.JUDGE_STYLE_UNSPECIFIED: None,
    pb.JUDGE_STYLE_PAIRWISE: Style.PAIRWISE,
    pb.JUDGE_STYLE_RUBRIC: Style.RUBRIC,
    pb.JUDGE_STYLE_DIRECT: Style.DIRECT,
}


async def judge_pairs(judge: Judge, request: pb.JudgePairsRequest) -> pb.JudgePairsResponse:
    """Judge the pairs; return judgements aligned with them. Raises ``InvalidField("style")``."""
    # proto3 enums are open: newer clients may send a style that this version lacks.
    if request.style not in STYLES:
        raise InvalidField("style", f"{request.style} is none")
    pairs = [Pair(pair.question, pair.left, pair.right, pair.reference) for pair in request.pairs]
    judgements, version = await judge.judge(pairs, STYLES[request.style], request.votes)
    return pb.JudgePairsResponse(judgements=[to_proto(one) for one in judgements], judge_version=version)


def to_proto(judgement: Judgement) -> pb.Judgement:
    return pb.Judgement(
        grade=pb.Grade.Name(judgement.grade),
        reason=judgement.reason,
        margin=judgement.margin,
        votes=judgement.votes,
        failed=judgement.failed,
        position_bias=judgement.position_bias,
        consistent=judgement.consistent,
    )
