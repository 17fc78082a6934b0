"""Test that any message of Ray about a lost rank is read as the death of that rank."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fathom.core.errors import InvalidField
from fathom.trainers.learners.ranks.groups import RankDied, RayRanks

exceptions: Any = pytest.importorskip("ray.exceptions")


class Method:
    """A method of an actor: gives its result, or what Ray raises for it, when it is waited for."""

    def __init__(self, result: object) -> None:
        self.result = result

    def remote(self, *arguments: object) -> Method:
        return self


def make_ranks(*results: object) -> RayRanks:
    """Return ranks whose calls end so, in their order."""

    def get(ref: Method) -> object:
        if isinstance(ref.result, Exception):
            raise ref.result
        return ref.result

    ranks = RayRanks.__new__(RayRanks)
    ranks.size = len(results)
    ranks._actors = [SimpleNamespace(call=Method(result)) for result in results]
    ranks._ray = SimpleNamespace(
        exceptions=exceptions, get=get, wait=lambda refs, num_returns, timeout=None: (refs[:1], refs[1:])
    )
    return ranks


def in_a_task(cause: Exception) -> Exception:
    return exceptions.RayTaskError("call", "traceback", cause)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "said",
    [
        exceptions.ActorDiedError(),
        exceptions.OutOfMemoryError("1 worker(s) were killed due to the node running low on memory"),
        exceptions.ObjectLostError("00", "address", "stack"),
        exceptions.NodeDiedError("the node has died"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("is_broken_by_it", [False, True])
def test_a_rank_that_is_gone_has_died_and_is_named(said: Exception, is_broken_by_it: bool) -> None:
    # The other rank is well, or fails since the collective is broken, and is heard of first.
    other = in_a_task(RuntimeError("connection closed by peer")) if is_broken_by_it else "well"
    with pytest.raises(RankDied, match="ActorWorker, rank 1: died in update_policy") as died:
        make_ranks(other, said).call("ActorWorker", "call", [(0, "update_policy"), (0, "update_policy")])
    assert died.value.transient, "the learners may be built anew, and the job be tried again"


def test_what_a_worker_says_is_its_own_error() -> None:
    wrong = in_a_task(InvalidField("uid", "is missing"))
    with pytest.raises(InvalidField):
        make_ranks("well", wrong).call("ActorWorker", "call", [(0, "update_policy"), (0, "update_policy")])
