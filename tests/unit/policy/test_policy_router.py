"""Prefix-sticky routing on Ray Serve: a conversation keeps its replica, until that one is far behind the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from fathom.api.policy.v1 import policy_pb2 as pb

pytest.importorskip("ray.serve")


@dataclass(frozen=True)
class FakeReplica:
    replica_id: str


@dataclass
class Pending:
    args: list[Any]


def router(calls: dict[str, int]) -> Any:
    """The router without Serve around it; ``calls`` is what it knows of the replicas' load."""
    from fathom.services.policy.ray_serve import PrefixRouter

    class Alone(PrefixRouter):
        replica_queue_len_cache = calls  # type: ignore[assignment]

    made = Alone.__new__(Alone)
    made.initialize_state(slack=4)
    return made


def turn(question: str, *later: str, model: str = "") -> Pending:
    """A generation that asks ``question``; ``later`` are the turns since, the model's first."""
    roles = (pb.ROLE_ASSISTANT, pb.ROLE_TOOL)
    said = [pb.Message(role=roles[index % 2], content=text) for index, text in enumerate(later)]
    return Pending([pb.GenerateRequest(model=model, messages=[pb.Message(role=pb.ROLE_USER, content=question), *said])])


async def first(made: Any, replicas: list[FakeReplica], pending: Pending) -> str:
    ranked = await made.choose_replicas(replicas, pending)
    assert {one.replica_id for group in ranked for one in group} == {one.replica_id for one in replicas}
    return str(ranked[0][0].replica_id)


async def test_the_turns_of_a_conversation_stay_together_and_conversations_spread() -> None:
    made, replicas = router({}), [FakeReplica(f"replica-{index}") for index in range(4)]
    homes = {}
    for index in range(200):
        home = await first(made, replicas, turn(f"question {index}"))
        homes[index] = home
        assert await first(made, replicas[::-1], turn(f"question {index}", "answer", "result", "answer")) == home
    assert all(30 <= count <= 75 for count in Counter(homes.values()).values())
    left = [one for one in replicas if one.replica_id != "replica-2"]
    for index, home in homes.items():
        moved = await first(made, left, turn(f"question {index}"))
        assert moved == home or home == "replica-2"


async def test_a_replica_that_is_far_behind_comes_last() -> None:
    replicas = [FakeReplica("a"), FakeReplica("b")]
    home = await first(router({}), replicas, turn("hello"))
    other = "b" if home == "a" else "a"
    assert await first(router({home: 4, other: 0}), replicas, turn("hello")) == home
    assert await first(router({home: 5, other: 0}), replicas, turn("hello")) == other


async def test_other_calls_go_anywhere() -> None:
    made, replicas = router({}), [FakeReplica("a"), FakeReplica("b")]
    assert await made.choose_replicas(replicas, Pending([pb.GetModelRequest()])) == [replicas]
    assert await made.choose_replicas(replicas, None) == [replicas]
