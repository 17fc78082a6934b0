"""Two trainers of one model name: the second is refused by name, and a dead one makes way."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fathom.api.policy.v1.policy_pb2 import GetModelResponse, LoadWeightsRequest, Model
from fathom.core.errors import (
    Conflict,
    CorruptData,
    DeadlineExceeded,
    DependencyFailed,
    InvalidField,
    NotFound,
    NotReady,
)
from fathom.trainers.rollouts import lease as lease_module
from fathom.trainers.rollouts.lease import Holder, Lease, acquire, read_newest, read_start
from fathom.trainers.rollouts.publisher import Publisher
from fathom.transport.store import ObjectStore, StoredObject, open_store
from fathom.transport.store.memory import MemoryStore
from tests.support.waiting import eventually


@pytest.fixture
def store() -> ObjectStore:
    return open_store("memory://")


def elsewhere(training: str) -> Holder:
    """A holder on another machine, of which nothing can be known but its renewals."""
    return replace(Holder.of_this_process(training), machine="pod-7")


async def no_time(seconds: float) -> None:
    """Waits as long as it takes others to do nothing."""


async def test_a_held_name_is_refused_with_who_holds_it(store: ObjectStore) -> None:
    first = await acquire(store, "small", elsewhere("run-a"))

    async def meanwhile(seconds: float) -> None:
        await first.renew()

    with pytest.raises(
        Conflict, match=r"'small' is being trained by training 'run-a' \(process \d+ on pod-7\)"
    ) as told:
        await acquire(store, "small", elsewhere("run-b"), sleep=meanwhile)
    assert told.value.metadata == {"field": "model.name", "training": "run-a"}
    first.check()
    other = await acquire(store, "another", elsewhere("run-b"))
    assert other.generation == 1


async def test_a_released_name_is_free_at_once(store: ObjectStore) -> None:
    await (await acquire(store, "small", elsewhere("run-a"))).release()

    async def never(seconds: float) -> None:
        raise AssertionError("nobody holds it")

    assert (await acquire(store, "small", elsewhere("run-b"), sleep=never)).generation == 2


async def test_a_holder_that_renews_no_more_is_dead_and_notices_when_it_is_not(store: ObjectStore) -> None:
    first = await acquire(store, "small", elsewhere("run-a"))
    second = await acquire(store, "small", elsewhere("run-b"), sleep=no_time)
    second.check()
    # It was only stopped for a while: before it publishes again it sees that the name has gone to another.
    await first.renew()
    with pytest.raises(Conflict, match="run-b"):
        first.check()
    await first.release()
    assert (await read_newest(store, "small"))[1] == second.holder, "the loser leaves the winner's lease alone"


@pytest.fixture
def dead_holder() -> Iterator[Holder]:
    """A holder that was dead_holder, and that nobody has waited for yet: the dead process still has its number."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        holder = replace(Holder.of_this_process("run-a"), pid=process.pid, started=read_start(process.pid) or "")
        assert not holder.has_died_here
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield holder


async def test_a_killed_process_of_this_machine_makes_way_at_once(store: ObjectStore, dead_holder: Holder) -> None:
    await acquire(store, "small", dead_holder)

    async def never(seconds: float) -> None:
        raise AssertionError("it is seen to be dead")

    assert (await acquire(store, "small", Holder.of_this_process("run-b"), sleep=never)).generation == 2


class MeetingStore(MemoryStore):
    """A store whose first writers come at the same moment, each after its look at what is there."""

    def __init__(self, writers: int) -> None:
        super().__init__()
        self.meeting, self.waiting = asyncio.Barrier(writers), writers

    async def meet(self) -> None:
        self.waiting -= 1
        if self.waiting >= 0:
            await self.meeting.wait()

    async def create(self, key: str, data: bytes, content_type: str = "application/json") -> StoredObject:
        await self.meet()
        return await super().create(key, data, content_type)

    async def put(self, key: str, data: bytes, content_type: str = "application/json") -> StoredObject:
        await self.meet()
        return await super().put(key, data, content_type)


async def test_of_those_who_find_a_dead_holder_at_once_one_takes_the_name() -> None:
    names = [f"run-{n}" for n in range(4)]
    store = MeetingStore(len(names))
    store.waiting = 0
    await acquire(store, "small", elsewhere("run-a"))
    store.waiting = len(names)

    async def winner_renews(seconds: float) -> None:
        for task in tried:
            if task.done() and task.exception() is None:
                await task.result().renew()

    tried = [
        asyncio.create_task(acquire(store, "small", elsewhere(name), sleep=winner_renews), name=name) for name in names
    ]
    found = await asyncio.gather(*tried, return_exceptions=True)
    (won,) = [one for one in found if isinstance(one, Lease)]
    assert await read_newest(store, "small") == (2, won.holder)
    refused = [one for one in found if isinstance(one, Conflict)]
    assert [one.metadata["training"] for one in refused] == [won.holder.training] * 3


async def test_a_lease_is_renewed_by_itself(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "RENEW_S", 0.0)
    first = await acquire(store, "small", elsewhere("run-a"))
    first.start()
    await eventually(lambda: first.holder.renewals > 1)
    assert (await read_newest(store, "small"))[1] == first.holder, "others see that it lives"
    await first.release()
    # Another takes it, and the one that renews by itself learns of it.
    second = await acquire(store, "small", elsewhere("run-b"))
    second.start()
    await acquire(store, "small", elsewhere("run-c"), sleep=no_time)
    await eventually(lambda: second._lost is not None)
    await second.release()


class Policy:
    """The policy service of a publisher: loads after so many calls."""

    def __init__(self, calls: int = 1, error: Exception | None = None, absences: int = 0) -> None:
        self.calls, self.error, self.loaded = calls, error or NotReady("still loading"), 0
        self.absences = absences

    @property
    def policy(self) -> Any:
        return self

    async def load_weights(self, request: Any, timeout_s: float) -> None:
        assert request.wait_ms / 1000 < timeout_s, "the call ends before its limit"
        self.calls -= 1
        if self.calls:
            raise self.error
        self.loaded = request.policy_version

    async def get_model(self, request: Any) -> Any:
        self.absences -= 1
        if self.absences >= 0:
            raise DependencyFailed("policy", "is warming up or draining")
        if not self.loaded:
            raise NotFound("model", request.model)
        return GetModelResponse(model=Model(name=request.model, policy_version=self.loaded))


def publisher(store: ObjectStore, policy: Policy, **more: Any) -> Publisher:
    clients: Any = policy
    return Publisher(clients, store, "memory://", "small", **more)


async def test_a_number_is_one_trainings(store: ObjectStore) -> None:
    """Both looked for the newest version before either had published: no lease, as with two stores' worth of bad luck."""
    one, other = publisher(store, Policy()), publisher(store, Policy())
    one.lease = await acquire(store, "small", elsewhere("run-a"))
    await one.claim(1)
    await one.claim(1)
    with pytest.raises(Conflict, match="version 1 of model 'small' was published by training 'run-a'"):
        await other.claim(1)
    assert await other.newest() == 1, "a claimed number is not free"


async def test_a_training_that_has_lost_the_name_claims_no_number(store: ObjectStore) -> None:
    one = publisher(store, Policy())
    one.lease = await acquire(store, "small", elsewhere("run-a"))
    await acquire(store, "small", elsewhere("run-b"), sleep=no_time)
    await one.lease.renew()
    with pytest.raises(Conflict, match="being trained by training 'run-b'"):
        await one.claim(1)
    assert await store.keys("weights/") == [], "the number is left to the one that has the name"


@pytest.mark.parametrize(
    "error", [NotReady("still loading"), DeadlineExceeded("late"), DependencyFailed("object store", "is away")]
)
async def test_slow_loading_is_asked_for_again(store: ObjectStore, error: Exception) -> None:
    slow = Policy(3, error)
    await publisher(store, slow).load(LoadWeightsRequest(model="small", policy_version=1, wait_ms=10))
    assert (slow.calls, slow.loaded) == (0, 1)
    with pytest.raises(DeadlineExceeded, match=r"version 1 of small in 0\.01 s: still loading"):
        await publisher(store, Policy(10**9), timeout_s=0.01).load(LoadWeightsRequest(model="small", policy_version=1))
    with pytest.raises(InvalidField):
        await acquire(store, "no/name", elsewhere("run-a"))


async def test_what_cannot_be_loaded_is_not_asked_for_again(store: ObjectStore) -> None:
    broken = Policy(10, CorruptData("model.safetensors", "has another checksum"))
    with pytest.raises(CorruptData):
        await publisher(store, broken).load(LoadWeightsRequest(model="small", policy_version=1))
    assert broken.calls == 9


async def test_a_policy_that_is_away_for_longer_than_a_client_tries_does_not_end_a_training(store: ObjectStore) -> None:
    restarting = Policy(absences=2)
    restarting.loaded = 3
    assert await publisher(store, restarting).newest() == 3
    restarting.absences = 2
    await publisher(store, restarting).wait_until_served(3)
    with pytest.raises(DeadlineExceeded, match=r"has not said in 0\.01 s"):
        await publisher(store, Policy(absences=10**9), timeout_s=0.01).newest()
