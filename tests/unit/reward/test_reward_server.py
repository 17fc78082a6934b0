"""Reward's RPCs: batches, pages of graders, what is refused."""

from __future__ import annotations

import pytest

from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.core.call import Call
from fathom.core.errors import InvalidField, MissingExtra
from fathom.domain.grading.graders import GRADERS
from fathom.services.reward.config import Config
from fathom.transport.rpc.contract import contract
from tests.unit.reward.house import House

CALL = Call("req_1")


async def test_score_is_aligned() -> None:
    request = pb.ScoreRequest(
        items=[
            pb.ScoreItem(grader="number", answer="about 3.2亿", references=["320,000,000"], parameters={"abs_tol": 1}),
            pb.ScoreItem(grader="search_r1", response="<answer>7</answer> more", references=["7"]),
            pb.ScoreItem(grader="em", answer="x", references=["y"]),
        ]
    )
    scores = (await House().servicer.Score(request, CALL)).scores
    assert [item.value for item in scores] == pytest.approx([1.0, 0.8, 0.0])
    assert dict(scores[1].components) == {"correct": 1.0, "valid": 0.0, "retrieved": 0.0}
    assert scores[1].reason == "text follows the answer"


async def test_a_batch_has_a_limit() -> None:
    item = pb.ScoreItem(grader="em", answer="x", references=["x"])
    servicer = House(Config(max_items=2)).servicer
    assert len((await servicer.Score(pb.ScoreRequest(items=[item] * 2), CALL)).scores) == 2
    for count in (0, 3):
        with pytest.raises(InvalidField, match="items"):
            await servicer.Score(pb.ScoreRequest(items=[item] * count), CALL)


@pytest.mark.parametrize("size", [0, 1, 4, 100])
async def test_graders_come_in_pages_that_add_up(size: int) -> None:
    servicer, token, seen = House().servicer, "", []
    while True:
        page = await servicer.ListGraders(pb.ListGradersRequest(page_size=size, page_token=token), CALL)
        seen += list(page.graders)
        token = page.next_page_token
        if not token:
            break
    assert [grader.name for grader in seen] == sorted({*GRADERS, "agent", "agent_short", "code_run", "code_tests"})
    assert all(grader.description for grader in seen)
    assert {"rel_tol", "abs_tol"} == set(next(grader for grader in seen if grader.name == "number").parameters)


async def test_bad_pages_are_refused() -> None:
    for request in (pb.ListGradersRequest(page_size=-1), pb.ListGradersRequest(page_token="nope")):
        with pytest.raises(InvalidField):
            await House().servicer.ListGraders(request, CALL)


def test_every_rpc_is_built() -> None:
    servicer = House().servicer
    assert all(hasattr(servicer, name) for name in contract("reward").methods)


def test_reward_does_not_start_without_what_compares_mathematics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fathom.core.extras.find_spec", lambda module: None)
    with pytest.raises(MissingExtra, match=r"fathom\[math\]"):
        House()
