"""Test how an episode's time ends: by its own deadline, or by a failure that is not the deadline's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.domain.chat.messages import Sampling
from fathom.services.planner.episode.deadline import Lifetime
from fathom.services.planner.episode.llm import PolicyService
from fathom.services.planner.model.episode import Limits, Outcome, StopReason, Task
from fathom.services.planner.model.view import View
from fathom.services.planner.model.waits import Waits
from tests.support.clock import pass_time, simulate_time


async def time_out() -> Outcome:
    raise TimeoutError("the driver gave up")


async def wait_for_ever() -> Outcome:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def test_a_timeout_inside_the_work_fails_the_run_and_spends_no_budget() -> None:
    outcome = await Lifetime().run(time_out, time.monotonic() + 60, lambda: "python")
    assert (outcome.stop, outcome.culprit) == (StopReason.FAILED, "python")
    assert outcome.error == "python failed inside with TimeoutError: the driver gave up"


async def test_a_timeout_inside_while_nothing_is_awaited_blames_the_planner() -> None:
    # A timeout of the work's own is a failure and not the end of the run's time.
    outcome = await Lifetime().run(time_out, time.monotonic() + 60, lambda: "")
    assert (outcome.stop, outcome.culprit) == (StopReason.FAILED, "planner")


async def test_the_deadline_of_the_run_ends_it_as_spent() -> None:
    # A deadline in the past, as after a long wait in the queue.
    outcome = await Lifetime().run(wait_for_ever, time.monotonic() - 1, lambda: "")
    assert (outcome.stop, outcome.culprit) == (StopReason.BUDGET, "policy")


@simulate_time
async def test_a_wait_for_a_service_moves_the_deadline_by_as_much() -> None:
    waits, moved = Waits(), list[float]()

    async def work() -> Outcome:
        with waits.waiting():
            await pass_time(100)
        await pass_time(50)
        started = asyncio.get_running_loop().time()
        await pass_time(5)
        waits.cover(started)  # an attempt that failed
        await pass_time(20)
        return Outcome(StopReason.FINISHED)

    # 60 s, of which 70 s are its own.
    outcome = await Lifetime(waits, moved.append).run(work, time.monotonic() + 60, lambda: "python")
    assert (outcome.stop, outcome.culprit) == (StopReason.BUDGET, "python")
    # 100 s of waiting and 5 s of a failed attempt.
    assert round(sum(moved)) == 105
    # 60 s of its own and 105 that did not count, give or take a turn of the loop.
    assert 160 < asyncio.get_running_loop().time() < 170


STOP = policy.FINISH_REASON_STOP


class Busy:
    """A policy service whose model has a place after 100 s; its generation takes 30 s."""

    async def generate(self, request: policy.GenerateRequest, *, timeout_s: float) -> AsyncIterator[Any]:
        yield policy.GenerateResponse(wait=policy.GenerationWait())
        await pass_time(100)
        yield policy.GenerateResponse(wait=policy.GenerationWait(is_over=True))
        await pass_time(30)
        yield policy.GenerateResponse(completion=policy.Completion(text="so", finish_reason=STOP))


@simulate_time
async def test_a_wait_in_the_queue_of_a_model_costs_the_episode_no_time() -> None:
    service = PolicyService(SimpleNamespace(policy=Busy()), tags=False)  # type: ignore[arg-type]
    task = Task("run_1", "why?", "m", Sampling(), Limits(1, 1, 0.0))
    waits = Waits()

    async def work() -> Outcome:
        for number in range(2):
            await service.generate(f"run_1-{number}", task, View(()), (), Sampling())
        return Outcome(StopReason.FINISHED)

    # Two generations of 30 s, and 200 s in the queue.
    outcome = await Lifetime(waits).run(work, time.monotonic() + 70, lambda: "policy")
    assert (outcome.stop, round(waits.seconds)) == (StopReason.FINISHED, 200)
    outcome = await Lifetime(Waits()).run(work, time.monotonic() + 50, lambda: "policy")
    assert outcome.stop is StopReason.BUDGET, "what a model generates is the episode's own time"


@simulate_time
async def test_waits_of_calls_at_the_same_time_count_once() -> None:
    waits = Waits()

    async def wait(seconds: float) -> None:
        with waits.waiting():
            await pass_time(seconds)

    await asyncio.gather(wait(10), wait(4), wait(7))
    # The longest of three that overlap, not 21.
    assert waits.seconds == 10
