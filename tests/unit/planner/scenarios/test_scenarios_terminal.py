"""Test what `fathom ask` prints of a run that did not finish, and of what it cost."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator

import pytest
from rich.console import Console

from fathom.api.common.v1.common_pb2 import Usage
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.cli import ask
from tests.support.endpoint import Reply
from tests.unit.planner.scenarios.path import Played, look, play


async def print_run(played: Played, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return what the terminal shows of a run, and the error that the command ends with."""

    async def replay(*_: object) -> AsyncIterator[pb.RunEvent]:
        for event in played.events:
            yield event

    monkeypatch.setattr(ask, "run", replay)
    console, error = Console(file=io.StringIO(), width=120), ""
    try:
        await ask.ask(None, pb.RunRequest(), console)  # type: ignore[arg-type]
    except ask.RunFailed as failure:
        error = failure.message
    return console.file.getvalue(), error  # type: ignore[attr-defined]


async def test_a_run_that_did_not_finish_shows_what_was_found_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, error = await print_run(await play("gpt-4", [Reply(calls=(look("a note"),)), Reply()]), monkeypatch)
    assert "No answer: the model replied with nothing, twice in a row" in " ".join(shown.split())
    assert "a note" in shown
    assert error == "the model gave 2 empty replies in a row"


async def test_limits_that_the_server_lowered_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    played = await play("gpt-4", [Reply(text="Done.")], ask={"effort": pb.EFFORT_DEEP}, max_rounds=5)
    shown, error = await print_run(played, monkeypatch)
    assert (error, "max_rounds: 60 asked, 5 allowed" in shown) == ("", True)


def test_cached_thought_and_estimated_tokens_and_the_cost_are_printed() -> None:
    used = Usage(
        prompt_tokens=1_000, completion_tokens=500, cached_tokens=800, reasoning_tokens=400, duration_ms=1_500, cost=0.0125,
        estimated=True,
    )  # fmt: skip
    assert ask.describe_usage(used) == (
        "500 tokens sampled (400 of thought), 1.5 s of sampling, 800 of 1,000 prompt tokens cached, cost 0.0125,"
        " tokens estimated"
    )
    assert ask.describe_usage(Usage(completion_tokens=5)) == "5 tokens sampled, 0.0 s of sampling"
