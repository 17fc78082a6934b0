"""How an episode's time ends: by its own deadline, or by a failure that is not the deadline's."""

from __future__ import annotations

import asyncio
import time

from fathom.services.planner.episode.deadline import Lifetime
from fathom.services.planner.model.episode import Outcome, StopReason


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
    outcome = await Lifetime().run(time_out, time.monotonic() + 60, lambda: "")
    assert (outcome.stop, outcome.culprit) == (StopReason.FAILED, "planner")


async def test_the_deadline_of_the_run_ends_it_as_spent() -> None:
    outcome = await Lifetime().run(wait_for_ever, time.monotonic() - 1, lambda: "")
    assert (outcome.stop, outcome.culprit) == (StopReason.BUDGET, "policy")
