"""Test what single requirements ask of a whole run, on the real services with the reference policy."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass

import pytest
import pytest_asyncio

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.core.ids import new_id
from fathom.services.local import Endpoints

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
QUESTIONS = (
    "Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020",
    "Find the worst calendar year of the S&P 500 since 1995, then say what Walmart's share price did in that year",
    "什么是最大回撤？2015年至2020年苹果的最大回撤是多少？",
    "What was the US unemployment rate in April 2020?",
)


@dataclass(frozen=True)
class Seen:
    """A run as its reader saw it, and its record."""

    events: list[pb.RunEvent]
    record: trajectory.Trajectory

    @property
    def end(self) -> pb.RunFinished:
        return self.events[-1].finished


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def runs(stack: Stack) -> list[Seen]:
    """Each question once."""
    _, clients = stack
    found = []
    for question in QUESTIONS:
        run_id = new_id("run")
        events = [event async for event in run(clients, pb.RunRequest(request_id=run_id, question=question))]
        record = (await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))).trajectory
        assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED, events[-1].finished.error
        found.append(Seen(events, record))
    return found


async def test_thoughts_are_short_and_every_result_follows_its_intent(runs: list[Seen]) -> None:
    """Thought and call in turn; a median of at most 200 characters."""
    thoughts = [event.thought.text for seen in runs for event in seen.events if event.HasField("thought")]
    assert statistics.median(len(text) for text in thoughts) <= 200
    for seen in runs:
        begun: dict[str, str] = {}
        for event in seen.events:
            if event.HasField("tool_started"):
                begun[event.tool_started.call.id] = event.tool_started.intent
            if event.HasField("tool_finished"):
                result = event.tool_finished.result
                assert begun.pop(result.tool_call_id) == result.intent != ""
        assert begun == {}


async def test_a_search_shows_four_fields_and_never_the_text(runs: list[Seen]) -> None:
    hits, texts = [], []
    for seen in runs:
        for event in seen.events:
            result = event.tool_finished.result
            if result.tool == "search":
                hits += json.loads(result.content.split("\n")[0])["hits"]
                assert result.content.count("\n") == 0, "nothing but the line of hits"
            texts += [item.passage.text for item in event.tool_finished.material if item.HasField("passage")]
    assert hits
    assert texts
    assert all(set(hit) == {"id", "time", "title", "summary"} for hit in hits)
    assert not any(len(text) > 400 and text in hit["summary"] for hit in hits for text in texts)


async def test_every_sheet_is_a_variable_at_once(runs: list[Seen]) -> None:
    """No NameError in any cell."""
    codes = [item.code for seen in runs for item in seen.end.material if item.HasField("code")]
    assert any("sheet_" in code.code for code in codes)
    assert [code.traceback for code in codes if "NameError" in code.traceback] == []
    assert all(code.ok for code in codes)


async def test_the_largest_request_of_a_run_is_in_its_trace_and_within_the_window(runs: list[Seen]) -> None:
    """Measured for each request, before it is sent; the window is that of the reference policy's own tokens."""
    for seen in runs:
        sizes = [step.context_tokens for step in seen.record.steps]
        assert all(sizes)
        assert max(sizes) <= 131_072
        told = [event.sampled for event in seen.events if event.HasField("sampled")]
        assert [one.prompt_tokens for one in told] == [
            step.completion.usage.prompt_tokens for step in seen.record.steps
        ]
        assert {one.window_tokens for one in told} == {131_072}


async def test_simple_questions_are_not_planned(runs: list[Seen]) -> None:
    """Two calls for one value; a first plan has at most five entries."""
    assert len(runs[-1].record.steps) <= 2
    for seen in runs:
        first = next((event.todo_changed for event in seen.events if event.HasField("todo_changed")), None)
        assert first is None or len(first.items) <= 5


async def test_what_was_not_found_is_material_text_and_page_alike(stack: Stack) -> None:
    """The answer of any run carries the checks' report, empty where all holds."""
    _, clients = stack
    run_id = new_id("run")
    request = pb.RunRequest(request_id=run_id, question="Compare the share price of Tencent and Apple since 2018")
    events = [event async for event in run(clients, request)]
    answer = events[-1].finished.answer
    missing = [item for item in events[-1].finished.material if item.HasField("missing")]
    assert {item.missing.subject for item in missing} == {"Tencent"}
    assert {item.number for item in missing} <= set(answer.cited)
    assert "Tencent" in answer.markdown
    assert [mark.text for mark in answer.findings] == []
