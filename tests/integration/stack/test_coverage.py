"""Test what a scripted answer covers of its question, over the real services: thirty cases, half with a planted gap."""

from __future__ import annotations

import io
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from fathom.clients import Clients
from fathom.core.call import Call, Lane, calling
from fathom.core.config import load
from fathom.core.ids import new_id
from fathom.domain.chat.hermes import format_tool_call
from fathom.domain.chat.messages import Sampling
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, dependencies
from fathom.services.local import Endpoints
from fathom.services.planner.assembly import ResourcesFactory
from fathom.services.planner.config import Config
from fathom.services.planner.coverage.ending import INCOMPLETE
from fathom.services.planner.coverage.wording import open_with_notice
from fathom.services.planner.episode.agent import AgentLoop
from fathom.services.planner.model.episode import Answer, Episode, Limits, Task
from fathom.services.planner.model.slots import Reading
from fathom.services.planner.model.view import FullWindow
from fathom.services.planner.prompts.catalogue import load_catalogue
from tests.support.observer import RecordingObserver
from tests.unit.planner.episode.test_loop import Script, finish, research

pytestmark = pytest.mark.asyncio(loop_scope="package")
SOURCE = Path(__file__).parents[2] / "golden" / "coverage" / "cases.yaml"
# Every scalar is a text: arguments of tools are JSON, which has no dates.
CASES = yaml.load(SOURCE.read_text("utf-8"), Loader=yaml.BaseLoader)["cases"]
FULL = [case for case in CASES if not case.get("open")]
GAPS = [case for case in CASES if case.get("open")]


@pytest_asyncio.fixture(loop_scope="package")
async def deps(stack: tuple[Endpoints, Clients]) -> AsyncIterator[Deps]:
    """The stack's services, called over gRPC, and its store."""
    endpoints, _ = stack
    runtime = load(
        Runtime, "runtime", environ={}, overrides={"endpoints": dict(endpoints.services), "store_url": endpoints.store}
    )
    async with dependencies("planner", runtime, io.StringIO()) as made:
        yield made


async def read_answer(
    deps: Deps, case: Mapping[str, Any], *, is_compared: bool = True, **settings: Any
) -> tuple[Answer, Episode]:
    """Play a case's calls and its answer; return the answer as a run would have it."""
    lines = [
        format_tool_call(tool, {"intent": f"{tool} it", **({"code": given} if tool == "python" else given)})
        for call in case["calls"]
        for tool, given in call.items()
    ]
    limits = Limits(12, 10_000, time.monotonic() + 90)
    task = Task(new_id("run"), case["ask"], "script", Sampling(), limits, is_compared=is_compared)
    episode = Episode(task, research().opening(task))
    config = load(Config, "planner", environ={}, overrides={"correct_answers": False, **settings})
    made = ResourcesFactory.of(config, deps, load_catalogue())(task, episode.steps)
    # No service knows the scripted model's tokens.
    made = replace(made, window=FullWindow())
    script = Script(*lines, *[finish(case["answer"])] * 2)
    try:
        with calling(Call.new(lane=Lane.INTERACTIVE, timeout_s=90)):
            outcome = await AgentLoop(episode, research(), script, made, RecordingObserver()).run()
    finally:
        await made.close()
    assert outcome.answer is not None, outcome.error
    return outcome.answer, episode


async def read_reading(deps: Deps, case: Mapping[str, Any]) -> Reading:
    answer, _ = await read_answer(deps, case, correct_coverage=False)
    assert answer.reading is not None
    return answer.reading


def show(reading: Reading) -> str:
    """Return the reading for a person who looks into a failure."""
    slots = [f"{slot.state:<7}{slot.kind:<10}{slot.text!r} = {slot.value!r} {slot.detail}" for slot in reading.slots]
    return "\n".join([reading.line, *slots])


@pytest.mark.parametrize("case", FULL, ids=[case["id"] for case in FULL])
async def test_an_answer_that_covers_its_question_is_not_marked(deps: Deps, case: Mapping[str, Any]) -> None:
    reading = await read_reading(deps, case)
    assert reading.open == (), show(reading)


@pytest.mark.parametrize("case", GAPS, ids=[case["id"] for case in GAPS])
async def test_what_an_answer_leaves_open_is_named(deps: Deps, case: Mapping[str, Any]) -> None:
    reading = await read_reading(deps, case)
    found = [(slot.kind.value, f"{slot.text} {slot.value}".casefold()) for slot in reading.open]
    for gap in case["open"]:
        assert any(gap["kind"] == kind and str(gap["text"]).casefold() in text for kind, text in found), show(reading)


GIVEN_BACK = {
    "ask": "Show the quarterly closing prices of Intel's peer AMD in 2017",
    "calls": [{"data": {"entities": ["AMD"], "indicators": ["close_adj"], "start_date": "2017-01-01",
                        "end_date": "2017-12-31"}}],
    "answer": "The closes are in the table [1]. {{table:sheet_1}}",
}  # fmt: skip


async def test_an_answer_with_open_slots_goes_back_once_and_is_then_marked(deps: Deps) -> None:
    answer, episode = await read_answer(deps, GIVEN_BACK)
    returned = [
        message.content for step in episode.steps for message in step.new_messages if INCOMPLETE in message.content
    ]
    assert len(returned) == 1
    assert "frequency “quarterly”: the values are daily" in returned[0]
    assert len(episode.steps) == 3, "one round more than without open slots"
    assert answer.reading is not None
    assert "quarterly (the values are daily)" in answer.reading.open_texts
    assert answer.reading.line.startswith("Read as: ")
    shown = open_with_notice(answer).markdown
    assert shown.startswith("**Not covered:** ")
    assert shown.endswith(answer.markdown)


async def test_training_episodes_are_not_compared_unless_the_settings_say_so(deps: Deps) -> None:
    answer, episode = await read_answer(deps, GIVEN_BACK, is_compared=False)
    assert answer.reading is None
    assert len(episode.steps) == 2
