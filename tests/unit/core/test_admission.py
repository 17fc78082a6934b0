"""The way in: tokens bounded, people before training, training never starved, overload shed with a delay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fathom.core.admission import MAX_RETRY_S, OLDEST_EVERY, Admission, Claimant, Limits, Quota
from fathom.core.call import Call, Lane, calling
from fathom.core.errors import Overloaded
from tests.support.clock import pass_time, simulate_time
from tests.support.waiting import eventually, settle

PERSON, E, T = Lane.INTERACTIVE, Lane.EVALUATION, Lane.TRAINING


class Crowd:
    """Requests that stay inside until they are told to leave."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.inside: list[str] = []
        self.leave: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(
        self, name: str, lane: Lane = PERSON, tokens: int = 1, tenant: str = "", run: str = ""
    ) -> asyncio.Task[None]:
        self.leave[name] = asyncio.Event()
        task = self.tasks[name] = asyncio.create_task(self._stay(name, Claimant(lane, tenant, run), tokens))
        await settle()
        return task

    async def _stay(self, name: str, claimant: Claimant, tokens: int) -> None:
        async with self.admission.admit(claimant, tokens):
            self.inside.append(name)
            await self.leave[name].wait()
        self.inside.remove(name)

    async def go(self, name: str) -> None:
        self.leave[name].set()
        await self.tasks[name]
        await settle()


@asynccontextmanager
async def crowd(running: int = 8, waiting: int = 8, tokens: int = 100, **limits: Any) -> AsyncIterator[Crowd]:
    made = Crowd(Admission("m", Limits(running, waiting, tokens, **limits)))
    yield made
    for task in made.tasks.values():
        task.cancel()
    await asyncio.gather(*made.tasks.values(), return_exceptions=True)
    # Whatever a test has done: places and queues are empty after it.
    assert (made.admission.running, made.admission.units) == (0, 0)
    assert sum(made.admission.waiting.values()) == 0


async def test_tokens_bound_what_runs_not_only_requests() -> None:
    async with crowd(tokens=100) as people:
        await people.come("a", tokens=60)
        await people.come("b", tokens=60)
        await people.come("c", tokens=10)
        # c would fit, but who asks for little must not push aside who asked for much before.
        assert people.inside == ["a"]  # c does not overtake b
        assert people.admission.units == 60
        await people.go("a")
        assert people.inside == ["b", "c"]
        assert people.admission.units == 70


async def test_more_than_everything_runs_alone() -> None:
    async with crowd(tokens=100) as people:
        # More tokens than there are at all: only an empty model may take it, or it would wait for ever.
        await people.come("small", tokens=1)
        await people.come("huge", tokens=10_000)
        assert people.inside == ["small"]
        await people.go("small")
        assert people.inside == ["huge"]
        await people.come("after", tokens=1)
        assert people.inside == ["huge"]


async def test_people_come_before_benchmarks_before_training() -> None:
    async with crowd(running=1) as people:
        await people.come("first", T)
        # In the reverse order of their rank.
        for name, lane in (("t", T), ("e", E), ("i", PERSON)):
            await people.come(name, lane)
        order = []
        for _ in range(4):
            [inside] = people.inside
            order.append(inside)
            await people.go(inside)
        assert order == ["first", "i", "e", "t"]


async def test_training_is_slow_under_load_and_never_stands_still() -> None:
    async with crowd(running=1, waiting=1_000) as people:
        await people.come("t", T)
        # Three times as many people as it takes until the oldest waiting is served.
        for index in range(3 * OLDEST_EVERY):
            await people.come(f"i{index}")
        await people.come("t2", T)
        served = 0
        while "t2" not in people.inside:
            await people.go(people.inside[0])
            served += 1
        assert served <= 3 * OLDEST_EVERY + 1
    async with crowd(running=1, waiting=1_000) as people:
        await people.come("now")
        await people.come("t", T)
        for index in range(5 * OLDEST_EVERY):
            await people.come(f"i{index}")
        # A person's queue that never empties: training is served once in so many.
        for _ in range(OLDEST_EVERY):
            await people.go(people.inside[0])
            if people.inside == ["t"]:
                return
        raise AssertionError("training was starved")


async def test_overload_sheds_training_for_people() -> None:
    async with crowd(running=1, waiting=2) as people:
        await people.come("running", T)
        early, late = await people.come("early", T), await people.come("late", T)
        # The queue is full of training, so one more of its kind is refused.
        with pytest.raises(Overloaded) as refused:
            await (await people.come("more", T))
        assert 0 < (refused.value.retry_after_s or 0) <= MAX_RETRY_S
        assert "waiting" in refused.value.message
        person = await people.come("person")
        with pytest.raises(Overloaded):
            # The one that came last made room for the person.
            await late
        assert not early.done()
        await people.go("running")
        assert people.inside == ["person"]
        assert not person.done()


async def test_who_gives_up_leaves_no_trace() -> None:
    async with crowd(running=1) as people:
        await people.come("a", tokens=50)
        waiting = await people.come("b", tokens=50)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert people.admission.waiting[PERSON] == 0
        people.leave["a"].set()
        # Called up and gone in the same moment: its place must not be lost.
        late = await people.come("c")
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        assert await people.admission.wait_until_idle(1.0)


@simulate_time
async def test_a_pause_ends_by_itself_and_says_when_it_is_quiet() -> None:
    async with crowd() as people:
        await people.come("running")
        people.admission.pause(resume_after_s=0.05)
        # Nobody new is let in while who is inside finishes.
        await people.come("waiting")
        assert people.inside == ["running"]
        assert not await people.admission.wait_until_idle(0.01)
        people.leave["running"].set()
        assert await people.admission.wait_until_idle(1.0)
        await eventually(lambda: people.inside == ["waiting"])
        assert not people.admission.is_paused


@simulate_time
async def test_a_pause_may_be_prolonged_and_ended() -> None:
    async with crowd() as people:
        people.admission.pause(resume_after_s=0.01)
        # A pause without an end replaces the short one.
        people.admission.pause()
        await people.come("a")
        await pass_time(0.03)
        assert people.inside == []
        people.admission.resume()
        await settle()
        assert people.inside == ["a"]


async def serve_all(people: Crowd) -> list[str]:
    """Let everybody leave, one after the other; return the names in the order in which they got in."""
    order: list[str] = []
    while people.inside:
        order.append(people.inside[0])
        await people.go(people.inside[0])
    return order


async def test_tenants_take_turns_and_so_do_the_runs_of_one() -> None:
    async with crowd(running=1, waiting=20) as people:
        await people.come("now")
        for name in ("a1", "a2", "a3", "a4"):
            await people.come(name, tenant="a", run="big" if name < "a4" else "small")
        for name in ("b1", "b2"):
            await people.come(name, tenant="b")
        # Tenants in turn, and within a the big run's three and the small run's one in turn.
        assert await serve_all(people) == ["now", "a1", "b1", "a4", "b2", "a2", "a3"]


async def test_who_holds_the_fewest_places_comes_first() -> None:
    async with crowd(running=3, waiting=20) as people:
        for name in ("a1", "a2"):
            await people.come(name, T, tenant="a")
        await people.come("b1", T, tenant="b")
        await people.come("a3", T, tenant="a")
        await people.come("b2", T, tenant="b")
        await people.go("a1")
        # Each holds one place now, and a has waited longer.
        # a has two places when b1 comes: one of them is left when a1 goes.
        assert people.inside == ["a2", "b1", "a3"]
        await people.go("a3")
        await people.come("a4", T, tenant="a")
        assert people.inside == ["a2", "b1", "b2"]


async def test_one_tenant_does_not_fill_the_queue_for_the_others() -> None:
    async with crowd(running=1, waiting=4) as people:
        await people.come("now")
        flood = [await people.come(f"a{index}", tenant="a") for index in range(4)]
        other = await people.come("b", tenant="b")
        with pytest.raises(Overloaded):
            await flood[-1]
        assert not other.done()
        # The flood's own tenant is the one that is refused.
        with pytest.raises(Overloaded):
            await (await people.come("a5", tenant="a"))


async def test_places_kept_for_people_are_free_for_them_and_for_nobody_else() -> None:
    async with crowd(running=3, reserved=1) as people:
        for name in ("t1", "t2", "t3"):
            await people.come(name, T)
        # The third place is a person's, whether one is there or not.
        assert people.inside == ["t1", "t2"]
        await people.come("person")
        assert people.inside == ["t1", "t2", "person"]
        await people.go("t1")
        assert people.inside == ["t2", "person", "t3"], "training has what is not kept"
        await people.go("person")
        await people.come("t4", T)
        assert people.inside == ["t2", "t3"]


@simulate_time
async def test_training_takes_all_places_while_no_person_has_come_for_a_while() -> None:
    async with crowd(running=2, reserved=1, reserve_s=10.0) as people:
        await people.come("t1", T)
        await people.come("t2", T)
        assert people.inside == ["t1", "t2"]
        await people.go("t1")
        await people.come("person")
        await people.go("person")
        await people.come("t3", T)
        assert people.inside == ["t2"]
        # Eleven seconds without a person, where ten are enough.
        await pass_time(11)
        await people.come("t4", T)
        assert people.inside == ["t2", "t3"]


@simulate_time
async def test_requests_begin_no_faster_than_the_rate_and_people_overtake() -> None:
    async with crowd(per_second=2.0) as people:
        for name in ("t1", "t2", "t3"):
            await people.come(name, T)
        await people.come("person")
        assert people.inside == ["t1"]
        # Two per second: the second begins after half a second, and it is the person.
        await pass_time(0.6)
        assert people.inside == ["t1", "person"]
        await pass_time(0.3)
        # Not yet a whole second.
        assert len(people.inside) == 2
        await pass_time(0.2)
        assert people.inside == ["t1", "person", "t2"]


@simulate_time
async def test_a_wait_ends_in_a_refusal_that_says_when_to_come_again() -> None:
    async with crowd(running=1, wait_s=5.0) as people:
        await people.come("now")
        late = await people.come("late")
        await pass_time(4.9)
        assert not late.done()
        await pass_time(0.2)
        with pytest.raises(Overloaded) as refused:
            await late
        assert refused.value.retry_after_s
        assert people.admission.waiting[PERSON] == 0


@simulate_time
async def test_who_would_wait_longer_than_it_can_is_refused_at_once() -> None:
    async with crowd(running=1) as people:
        await people.come("first")
        await pass_time(100)
        # The average of service times decides how long a queue of two will take.
        await people.go("first")  # the average of the first ones is 20 s now
        await people.come("now")
        await people.come("next")
        with calling(Call.new(timeout_s=30.0)), pytest.raises(Overloaded):
            await (await people.come("hasty"))
        with calling(Call.new(timeout_s=300.0)):
            patient = await people.come("patient")
        assert not patient.done()


async def come_many(people: Crowd, many: int) -> None:
    for index in range(many):
        await people.come(f"t{index}", T)


def count_lane(people: Crowd, prefix: str) -> int:
    return sum(name.startswith(prefix) for name in people.inside)


@simulate_time
async def test_one_place_more_than_people_have_is_kept_for_them() -> None:
    async with crowd(waiting=40, most_reserved=7, reserve_s=10.0) as people:
        await people.come("p0")
        await come_many(people, 20)
        # One person, and one place free for the next.
        assert count_lane(people, "t") == 6
        await people.come("p1")
        # Training gives places up as its requests end, never before.
        assert people.inside[-1] == "p1"
        assert count_lane(people, "t") == 6
        await people.go("t0")
        assert count_lane(people, "t") == 5
        await people.go("p0")
        assert count_lane(people, "t") == 6


@simulate_time
async def test_however_many_people_come_not_all_places_are_kept() -> None:
    async with crowd(waiting=40, most_reserved=7, reserve_s=10.0) as people:
        for index in range(7):
            await people.come(f"p{index}")
        await come_many(people, 2)
        assert people.inside[7:] == ["t0"]
        # Of the places of a quota neither.
        people.admission.set_quota(Quota(running=4))
        await people.go("t0")
        for index in range(4):
            await people.go(f"p{index}")
        assert people.inside[3:] == ["t1"]


@simulate_time
async def test_what_was_kept_for_people_is_training_s_some_time_after_the_last_of_them() -> None:
    async with crowd(waiting=40, most_reserved=7, reserve_s=10.0) as people:
        await people.come("p0")
        await come_many(people, 20)
        # A person who stays longer than the span is there all the same.
        await pass_time(30.0)
        await people.go("p0")
        assert count_lane(people, "t") == 7
        await pass_time(9.9)
        assert count_lane(people, "t") == 7
        # Nobody comes or goes: those who wait are let in all the same.
        await pass_time(0.2)
        assert count_lane(people, "t") == 8


@simulate_time
async def test_who_gave_up_waiting_was_there_until_then() -> None:
    async with crowd(running=2, waiting=40, most_reserved=1, reserve_s=10.0) as people:
        await come_many(people, 3)
        person = await people.come("p0")
        await pass_time(30.0)
        person.cancel()
        await asyncio.gather(person, return_exceptions=True)
        await people.go("t0")
        assert people.inside == ["t1"]
        await pass_time(10.1)
        assert people.inside == ["t1", "t2"]


@simulate_time
async def test_of_one_place_none_is_kept() -> None:
    async with crowd(running=1, waiting=40, most_reserved=1, reserve_s=10.0) as people:
        await people.come("p0")
        await people.go("p0")
        await people.come("t0", T)
        assert people.inside == ["t0"]


@simulate_time
async def test_the_end_of_a_reservation_is_looked_for_a_hundred_times_a_second_at_most() -> None:
    async with crowd(running=2, waiting=40, most_reserved=1, reserve_s=10.0) as people:
        await people.come("p0")
        await people.go("p0")
        await pass_time(10.0 - 1e-6)
        await come_many(people, 2)
        assert people.inside == ["t0"]
        # A timer of the microsecond that is left could, by rounding, go off before the end, again and again.
        await pass_time(0.009)
        assert people.inside == ["t0"]
        await pass_time(0.002)
        assert people.inside == ["t0", "t1"]
