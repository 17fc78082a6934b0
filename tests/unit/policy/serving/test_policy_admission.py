"""The way in: tokens bounded, people before training, training never starved, overload shed with a delay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from fathom.core.call import Lane
from fathom.core.errors import Overloaded
from fathom.domain.chat.messages import Message, Role, Sampling
from fathom.services.policy.config import RulesModel
from fathom.services.policy.metrics import PolicyMetrics
from fathom.services.policy.model import Request
from fathom.services.policy.serving.admission import MAX_RETRY_S, OLDEST_EVERY, Admission, Limits
from fathom.services.policy.serving.loaded_model import estimate_tokens
from tests.support.clock import pass_time, simulate_time
from tests.support.waiting import eventually, settle

PERSON, E, T = Lane.INTERACTIVE, Lane.EVALUATION, Lane.TRAINING


class Crowd:
    """Generations that stay inside until they are told to leave."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.inside: list[str] = []
        self.leave: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, lane: Lane = PERSON, tokens: int = 1) -> asyncio.Task[None]:
        self.leave[name] = asyncio.Event()
        task = self.tasks[name] = asyncio.create_task(self._stay(name, lane, tokens))
        await settle()
        return task

    async def _stay(self, name: str, lane: Lane, tokens: int) -> None:
        async with self.admission.admit(lane, tokens):
            self.inside.append(name)
            await self.leave[name].wait()
        self.inside.remove(name)

    async def go(self, name: str) -> None:
        self.leave[name].set()
        await self.tasks[name]
        await settle()


@asynccontextmanager
async def crowd(running: int = 8, waiting: int = 8, tokens: int = 100) -> AsyncIterator[Crowd]:
    made = Crowd(Admission("m", Limits(running, waiting, tokens)))
    yield made
    for task in made.tasks.values():
        task.cancel()
    await asyncio.gather(*made.tasks.values(), return_exceptions=True)
    assert (made.admission.running, made.admission.tokens) == (0, 0)
    assert sum(made.admission.waiting.values()) == 0


async def test_tokens_bound_what_runs_not_only_requests() -> None:
    async with crowd(tokens=100) as people:
        await people.come("a", tokens=60)
        await people.come("b", tokens=60)
        await people.come("c", tokens=10)
        assert people.inside == ["a"]  # c does not overtake b
        assert people.admission.tokens == 60
        await people.go("a")
        assert people.inside == ["b", "c"]
        assert people.admission.tokens == 70


async def test_more_than_everything_runs_alone() -> None:
    async with crowd(tokens=100) as people:
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
        for _ in range(OLDEST_EVERY):
            await people.go(people.inside[0])
            if people.inside == ["t"]:
                return
        raise AssertionError("training was starved")


async def test_overload_sheds_training_for_people() -> None:
    async with crowd(running=1, waiting=2) as people:
        await people.come("running", T)
        early, late = await people.come("early", T), await people.come("late", T)
        with pytest.raises(Overloaded) as refused:
            await (await people.come("more", T))
        assert 0 < (refused.value.retry_after_s or 0) <= MAX_RETRY_S
        assert "waiting" in refused.value.message
        person = await people.come("person")
        with pytest.raises(Overloaded):
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
        late = await people.come("c")
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        assert await people.admission.wait_until_idle(1.0)


@simulate_time
async def test_a_pause_ends_by_itself_and_says_when_it_is_quiet() -> None:
    async with crowd() as people:
        await people.come("running")
        people.admission.pause(resume_after_s=0.05)
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
        people.admission.pause()
        await people.come("a")
        await pass_time(0.03)
        assert people.inside == []
        people.admission.resume()
        await settle()
        assert people.inside == ["a"]


async def test_prometheus_sees_queue_tokens_and_pressure() -> None:
    registry = CollectorRegistry()
    admission = Admission("m", Limits(1, 1, 200), PolicyMetrics.register(registry))
    people = Crowd(admission)
    await people.come("a", tokens=50)
    await people.come("b", T)
    with pytest.raises(Overloaded):
        await (await people.come("c", T))
    text = generate_latest(registry).decode()
    for line in (
        'fathom_policy_tokens_in_flight{model="m"} 50.0',
        'fathom_policy_kv_pressure{model="m"} 0.25',
        'fathom_policy_running{model="m"} 1.0',
        'fathom_policy_waiting{lane="training",model="m"} 1.0',
        'fathom_policy_shed_total{lane="training",model="m"} 1.0',
    ):
        assert line in text
    await people.go("a")
    await people.go("b")
    assert 'fathom_policy_tokens_in_flight{model="m"} 0.0' in generate_latest(registry).decode()


def test_what_a_generation_needs() -> None:
    request = Request("r", "m", (Message(Role.USER, "x" * 300),), sampling=Sampling(max_tokens=50))
    config = RulesModel()
    assert estimate_tokens(request, config, 10_000) == 150
    longer = replace(request, context_token_ids=(1,) * 500, context_messages=1)
    longer = replace(longer, messages=(Message(Role.ASSISTANT, "y"), Message(Role.USER, "x" * 30)))
    assert estimate_tokens(longer, config, 10_000) == 560
    assert estimate_tokens(request, config, 100) == 100
