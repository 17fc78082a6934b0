"""One limit over several replicas: never exceeded, used whole by whoever has work, and divided fairly."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog

from fathom.core.admission import Admission, Claimant, Limits, Quota
from fathom.core.admission.shares import Holding, Rate, decide, divide, read_table, write_table
from fathom.core.call import Lane
from fathom.core.errors import CorruptData, NotReady
from fathom.transport.bus.memory import MemoryBus
from fathom.transport.bus.quotas import Quotas
from fathom.transport.bus.shares import HOLD_S, IDLE_S, RECLAIM_S
from fathom.transport.bus.streams import QUOTAS, SHARES, topology
from fathom.transport.store.memory import MemoryStore
from tests.support.clock import loop_time, pass_time, simulate_time

NAME = "tool.slow"


class Upstream:
    """Counts how many requests it has at once, and when each began."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.starts: list[float] = []

    async def call(self, seconds: float) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        self.starts.append(loop_time())
        try:
            await pass_time(seconds)
        finally:
            self.running -= 1

    def most_within(self, period_s: float) -> int:
        """Return the largest number of starts within any period, its end not included."""
        return max(sum(at <= other < at + period_s - 1e-9 for other in self.starts) for at in self.starts)


class Replica:
    """A process with the limit's admission, and requests that all go to one upstream."""

    def __init__(self, bus: MemoryBus, upstream: Upstream, settings: Quota) -> None:
        self.quotas, self.upstream = Quotas(bus, structlog.get_logger()), upstream
        self.gate = self.quotas.govern(NAME, Admission("tool 'slow'", Limits(64, 10_000)), settings)
        self.quotas.start()
        self.done = 0
        self._busy: list[asyncio.Task[None]] = []

    def flood(self, clients: int, seconds: float, lane: Lane = Lane.TRAINING) -> None:
        """Ask again and again, as so many clients."""

        async def ask(number: int) -> None:
            while True:
                async with self.gate.admit(Claimant(lane, "t", f"run-{number}")):
                    await self.upstream.call(seconds)
                self.done += 1

        self._busy += [asyncio.create_task(ask(number)) for number in range(clients)]

    async def stop(self) -> None:
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)
        self._busy.clear()

    async def die(self) -> None:
        """End as by ``kill -9``: what it holds is not given back."""
        await self.stop()
        for task in (*self.quotas._following, self.quotas._governed[NAME].limit._keeping):
            if task is not None:
                task.cancel()


@asynccontextmanager
async def replicas(number: int, settings: Quota, bus: MemoryBus | None = None) -> AsyncIterator[list[Replica]]:
    bus = bus or MemoryBus(MemoryStore(), topology(), clock=loop_time)
    upstream = Upstream()
    made = [Replica(bus, upstream, settings) for _ in range(number)]
    try:
        yield made
    finally:
        for one in made:
            await one.stop()
            await one.quotas.close()


@simulate_time
async def test_two_and_three_replicas_never_exceed_the_places_of_an_upstream_and_share_them_alike() -> None:
    for number in (2, 3):
        async with replicas(number, Quota(running=6)) as made:
            for one in made:
                one.flood(20, 0.3)
            await pass_time(60)
            upstream = made[0].upstream
            assert upstream.most == 6
            done = [one.done for one in made]
            assert sum(done) >= 0.95 * 6 * 60 / 0.3, done
            assert min(done) >= 0.9 * max(done), done


@simulate_time
async def test_one_replica_alone_uses_the_whole_limit_and_gives_it_up_to_another_within_a_second() -> None:
    async with replicas(3, Quota(running=8)) as (first, second, idle):
        first.flood(20, 0.1)
        await pass_time(30)
        assert first.done >= 0.95 * 8 * 30 / 0.1
        second.flood(1, 0.1, Lane.INTERACTIVE)
        await pass_time(1)
        assert second.done >= 4
        await second.stop()
        before = first.done
        await pass_time(IDLE_S + 5)
        before = first.done
        await pass_time(10)
        assert first.done - before >= 0.95 * 8 * 10 / 0.1
        assert (first.upstream.most, idle.done) == (8, 0)


@simulate_time
async def test_a_rate_holds_over_all_replicas_in_any_second_whoever_has_how_much_of_it() -> None:
    async with replicas(3, Quota(per_second=10.0)) as made:
        upstream = made[0].upstream
        for second in range(40):
            for one in made:
                await one.stop()
            for one in made[second % 3 : second % 3 + 2]:
                one.flood(1 + second % 5, 0.01)
            await pass_time(1 + second % 3)
        assert upstream.most_within(1.0) <= 10
        begun = len(upstream.starts)
        made[0].flood(20, 0.01)
        await pass_time(IDLE_S + 5)
        begun = len(upstream.starts)
        await pass_time(20)
        assert len(upstream.starts) - begun >= 0.95 * 200
        assert upstream.most_within(1.0) <= 10


@simulate_time
async def test_a_single_place_and_a_slow_rate_go_around_between_replicas() -> None:
    for settings in (Quota(running=1), Quota(per_second=0.5)):
        async with replicas(3, settings) as made:
            for one in made:
                one.flood(3, 0.2)
            await pass_time(120)
            assert all(one.done >= 10 for one in made), [one.done for one in made]
            if settings.running:
                assert made[0].upstream.most == 1
            else:
                assert made[0].upstream.most_within(2.0) == 1


@simulate_time
async def test_what_a_killed_replica_held_is_used_by_the_others_after_its_lease_and_not_before() -> None:
    async with replicas(2, Quota(running=4)) as (first, second):
        first.flood(8, 0.1)
        second.flood(8, 0.1)
        await pass_time(5)
        await first.die()
        assert second.gate.places == 2
        await pass_time(HOLD_S)
        assert second.gate.places == 2
        await pass_time(RECLAIM_S)
        assert second.gate.places == 4


class CutBus(MemoryBus):
    """A bus whose writes one process cannot reach for a while."""

    is_cut = False

    def bucket(self, name: str):  # type: ignore[no-untyped-def]
        return CutBucket(self, super().bucket(name))


class CutBucket:
    def __init__(self, bus: CutBus, inner: object) -> None:
        self._bus, self._inner = bus, inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def put(self, key: str, value: bytes, *, revision: int | None = None) -> int:
        if self._bus.is_cut:
            raise NotReady("the bus is out of reach")
        return await self._inner.put(key, value, revision=revision)  # type: ignore[attr-defined,no-any-return]


@simulate_time
async def test_a_replica_without_the_bus_keeps_its_share_for_a_bounded_time_and_has_it_again_afterwards() -> None:
    bus = CutBus(MemoryStore(), topology(), clock=loop_time)
    async with replicas(1, Quota(running=3), bus) as (alone,):
        alone.flood(6, 0.1)
        await pass_time(10)
        bus.is_cut = True
        await pass_time(HOLD_S - 6)
        assert alone.gate.places == 3
        await pass_time(10)
        assert alone.gate.places == 0
        bus.is_cut = False
        await pass_time(10)
        assert alone.gate.places == 3
        assert alone.upstream.most == 3


@simulate_time
async def test_an_operator_changes_the_limit_of_all_replicas_while_they_run() -> None:
    bus = MemoryBus(MemoryStore(), topology(), clock=loop_time)
    async with replicas(2, Quota(), bus) as made:
        for one in made:
            one.flood(20, 0.1)
        await pass_time(2)
        assert made[0].upstream.most == 40, "without a limit of all each has its own"
        await bus.bucket(QUOTAS).put(NAME, Quota(running=5).to_json())
        await pass_time(2)
        made[0].upstream.most = 0
        await pass_time(10)
        assert made[0].upstream.most == 5
        await bus.bucket(QUOTAS).delete(NAME)
        await pass_time(2)
        assert [one.gate.places for one in made] == [64, 64]


@simulate_time
async def test_a_tenants_calls_are_bounded_over_all_replicas() -> None:
    bus = MemoryBus(MemoryStore(), topology(), clock=loop_time)
    async with replicas(2, Quota(), bus) as made:
        assert made[0].quotas.find_tenant("acme") is None
        await bus.bucket(QUOTAS).put("tenant.acme", Quota(running=3).to_json())
        await pass_time(1)
        upstream, asking = made[0].upstream, list[asyncio.Task[None]]()

        async def ask(one: Replica) -> None:
            gate = one.quotas.find_tenant("acme")
            assert gate is not None
            async with gate.admit(Claimant(Lane.TRAINING, "acme", "run")):
                await upstream.call(0.1)

        for _ in range(30):
            asking += [asyncio.create_task(ask(one)) for one in made]
        await asyncio.gather(*asking)
        assert (upstream.most, len(upstream.starts)) == (3, 60)


@simulate_time
async def test_a_table_that_is_none_begins_anew() -> None:
    bus = MemoryBus(MemoryStore(), topology(), clock=loop_time)
    await bus.bucket(SHARES).put(NAME, b"no table")
    async with replicas(1, Quota(running=2), bus) as (alone,):
        alone.flood(4, 0.1)
        await pass_time(5)
        assert (alone.upstream.most, alone.gate.places) == (2, 2)


def test_people_come_first_in_the_division_and_one_place_stays_for_the_others() -> None:
    table = {"a": Holding(people=10), "b": Holding(others=10), "c": Holding(people=1)}
    assert divide(6, table) == {"a": 4, "b": 1, "c": 1}
    assert divide(1, table) == {"a": 1, "b": 0, "c": 0}
    assert sum(divide(1_000_000, {f"r{number}": Holding(others=number) for number in range(300)}).values()) == 1_000_000
    assert divide(5, {"a": Holding(others=9, had_s=3.0), "b": Holding(others=9)}) == {"a": 2, "b": 3}


def test_a_share_is_kept_while_nobody_lacks_one_and_never_taken_from_what_others_hold() -> None:
    assert decide(4, "a", {"a": Holding(places=4, others=1), "b": Holding(places=0)}, "places") == 4
    assert decide(4, "a", {"a": Holding(places=4, others=4), "b": Holding(others=9)}, "places") == 2
    assert decide(4, "b", {"a": Holding(places=4, others=4), "b": Holding(others=9)}, "places") == 0
    assert decide(2, "a", {"a": Holding(places=4, others=4), "b": Holding(places=2, others=1)}, "places") == 1


def test_a_table_is_written_and_read_and_anything_else_is_refused() -> None:
    table = {"a": Holding(1, 2, 3, 4, 5, 6.5)}
    assert read_table(write_table(table)) == table
    assert read_table(None) == {}
    for value in (b"[]", b'{"a": 1}', b'{"a": {"place": 1}}', b"\xff"):
        with pytest.raises(CorruptData):
            read_table(value)
    assert [(Rate.of(rate).slots, round(Rate.of(rate).period_s, 3)) for rate in (10.0, 2.5, 0.5)] == [
        (10, 1.0),
        (2, 0.8),
        (1, 2.0),
    ]
    assert Counter(divide(7, {"a": Holding(), "b": Holding()}).values()) == Counter([3, 4])
