"""``fathom eval rewrite`` over the real stack: follow-ups through the real reader of questions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fathom.clients import Clients
from fathom.services.local import Endpoints
from fathom.services.planner.commands.follow_ups import Case, Exchange, report, rewrite_all

pytestmark = pytest.mark.asyncio(loop_scope="package")
CASES = (
    Case(
        turns=(Exchange(question="What was Pfizer's maximum drawdown in 2020?", answer="It was -30.6% [1]."),),
        follow_up="and Eli Lilly?",
        expected_mentions=("Lilly", "drawdown", "2020"),
        unexpected_mentions=("Pfizer",),
    ),
    Case(
        turns=(Exchange(question="What was the US unemployment rate in 2020?", answer="It was 8.1 % [1]."),),
        follow_up="And in 2015?",
        expected_mentions=("unemployment", "2015"),
        unexpected_mentions=("2020",),
    ),
    Case(
        turns=(Exchange(question="苹果2020年的最大回撤是多少？", answer="-31.4%[1]。"),),
        follow_up="那微软呢？",
        expected_mentions=("微软", "回撤", "2020"),
        unexpected_mentions=("苹果",),
    ),
)


async def test_follow_ups_are_made_whole_and_measured_without_a_language_model(
    stack: tuple[Endpoints, Clients], capsys: pytest.CaptureFixture[str]
) -> None:
    home = Path(stack[0].store.removeprefix("file://")).parent
    # A thread: clients of another loop.
    readings = await asyncio.to_thread(lambda: asyncio.run(rewrite_all(CASES, "", home)))
    assert report(CASES, readings, None, 1.0) == 0
    assert "3 of 3 = 100.0% (95 % 43.9% to 100.0%): 3 right" in capsys.readouterr().out
