"""The loop over the real services with a scripted model: what one round may hold, and what a run may read."""

from __future__ import annotations

import io
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.clients import Clients
from fathom.core.call import Call, Lane, calling
from fathom.core.config import load
from fathom.core.ids import new_id
from fathom.domain.chat.hermes import format_tool_call
from fathom.domain.chat.messages import Sampling
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, dependencies
from fathom.services.local import Endpoints
from fathom.services.planner.answering.rendering.finish import CitedEnding
from fathom.services.planner.assembly import ResourcesFactory
from fathom.services.planner.config import Config
from fathom.services.planner.episode.agent import AgentLoop
from fathom.services.planner.model.episode import Episode, Limits, StopReason, Task
from fathom.services.planner.model.view import FullWindow
from fathom.services.planner.prompts.catalogue import load_catalogue
from tests.support.observer import RecordingObserver
from tests.unit.planner.episode.test_loop import Script, finish, research

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]


@pytest_asyncio.fixture(loop_scope="package")
async def deps(stack: Stack) -> AsyncIterator[Deps]:
    """The stack's services, called over gRPC, and its store."""
    endpoints, _ = stack
    runtime = load(
        Runtime, "runtime", environ={}, overrides={"endpoints": dict(endpoints.services), "store_url": endpoints.store}
    )
    async with dependencies("planner", runtime, io.StringIO()) as made:
        yield made


async def play(deps: Deps, *lines: str, question: str = "why?") -> tuple[Episode, RecordingObserver, StopReason]:
    task = Task(new_id("run"), question, "script", Sampling(), Limits(12, 10_000, time.monotonic() + 60))
    episode, notes = Episode(task, research().opening(task)), RecordingObserver()
    config = load(Config, "planner", environ={})
    made = ResourcesFactory.of(config, deps, load_catalogue())(task, episode.steps)
    # No service knows the scripted model's tokens, and its answers are nobody's to check.
    made = replace(made, window=FullWindow(), ending=CitedEnding())
    try:
        with calling(Call.new(lane=Lane.INTERACTIVE, timeout_s=60)):
            outcome = await AgentLoop(episode, research(), Script(*lines), made, notes).run()
    finally:
        await made.close()
    return episode, notes, outcome.stop


def call(tool: str, **arguments: object) -> str:
    return format_tool_call(tool, {"intent": f"{tool} it", **arguments})


async def test_one_round_reads_side_by_side_and_computes_on_what_it_read(deps: Deps) -> None:
    episode, notes, stop = await play(
        deps,
        call("python", code="print(len(sheet_1), len(sheet_2))")
        + call("search", query="maximum drawdown")
        + call("data", question="Apple closing price in 2019")
        + call("data", question="Microsoft closing price in 2020"),
        call("fetch", id="note-method-maximum-drawdown"),
        call("data", question="apple closing  price in 2019"),
        call("recall", material=1),
        finish("Both [1][2][3]."),
    )
    assert stop is StopReason.FINISHED
    first = episode.steps[0].results
    assert [result.status.value for result in first] == ["ok"] * 4
    assert [[item.number for item in result.material] for result in first] == [[3], [], [1], [2]]
    assert [item.variable for result in first for item in result.material if item.variable] == ["sheet_1", "sheet_2"]
    assert "252" in first[0].content, "the cell came last and had the sheets"
    starts = [line for line in notes.log if line.endswith(" it")][:4]
    assert starts == ["search: search it", "data: data it", "data: data it", "python: python it"]
    read, again, recalled = (step.results[0] for step in episode.steps[1:4])
    assert (read.status.value, read.material[0].number) == ("ok", 4)
    head = json.loads(again.content.splitlines()[0])
    assert ("round 1" in head["notice"], again.material) == (True, ())
    assert "sheet_1" in recalled.content


async def test_a_run_reads_only_what_it_was_shown(deps: Deps, corpus_dir: Path) -> None:
    lines = (call("fetch", id="note-method-maximum-drawdown"), finish("Nothing."))
    episode, _, _ = await play(deps, *lines)
    refused = episode.steps[0].results[0]
    assert refused.status.value == "invalid"
    assert not refused.material


async def test_what_a_model_gets_wrong_comes_back_from_the_services_as_a_result(deps: Deps) -> None:
    episode, _, stop = await play(
        deps,
        call("data") + call("search", query="x", after="yesterday") + call("python", code="1/0") + call("data", x=1),
        finish("No."),
    )
    assert stop is StopReason.FINISHED
    assert [result.status.value for result in episode.steps[0].results] == ["invalid", "invalid", "failed", "invalid"]
    assert "ZeroDivisionError" in episode.steps[0].results[2].content
