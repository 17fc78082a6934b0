"""The answer streams while the model writes it: over the planner's events, over SSE, with drafts that are taken back.

The model stands at the network edge and sends its tool call piece by piece.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
import pytest_asyncio

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run, watch
from fathom.services.local import Endpoints
from tests.integration.stack.scripted_model import Line, Said, ScriptedModel
from tests.support.observer import list_logged

pytestmark = pytest.mark.asyncio(loop_scope="package")
PRICE = (
    "data",
    {"entities": ["AAPL"], "indicators": ["close_adj"], "start_date": "2020-12-31", "end_date": "2020-12-31"},
)
LONG = "The table holds what was asked for. " * 12 + "See {{table:sheet_1}} [1]."
WRONG = "On that day Apple closed at 999.25 dollars, which nobody had expected [1]. " + LONG
FIGURE = (
    "Before the figure [1].\n\n<figure>\n```python\nimport plotly.express as px\nprint('drawn')\n"
    "px.line(sheet_1, x='date', y='AAPL.close_adj')\n```\n</figure>\n\nBehind it <b>x</b> [1]."
)
SCRIPTS: dict[str, list[Line | Callable[[Said], Line]]] = {
    "case live": [PRICE, ("finish", {"answer": LONG})],
    "case mended": [PRICE, ("finish", {"answer": WRONG}), ("finish", {"answer": LONG})],
    "case early": [("finish", {"answer": "A guess about the year 2020."}), PRICE, ("finish", {"answer": LONG})],
    "case drawn": [PRICE, ("finish", {"answer": FIGURE})],
}
Made = tuple[Endpoints, Clients, ScriptedModel]


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def scripted_stack(
    stack: tuple[Endpoints, Clients], scripted_door: tuple[ScriptedModel, str]
) -> AsyncIterator[Made]:
    with scripted_door[0].telling(SCRIPTS, pause_s=0.02) as model:
        yield *stack, model


def question(case: str) -> pb.RunRequest:
    return pb.RunRequest(
        request_id=case.replace(" ", "-"), question=f"{case}: what was the price of Apple?", model="scripted"
    )


async def ask_case(clients: Clients, case: str) -> list[pb.RunEvent]:
    return [event async for event in run(clients, question(case))]


def read(events: list[pb.RunEvent]) -> str:
    """Return what a reader who follows the events has in the end."""
    text = ""
    for event in events:
        text = "" if event.HasField("answer_replaced") else text + event.answer_delta.text
    return text


def answering(events: list[pb.RunEvent]) -> list[str]:
    """Drafted, checked and replaced, in their order, without repetition."""
    told = [
        "draft" if event.answer_delta.draft else "text" if event.HasField("answer_delta") else event.answer_replaced.why
        for event in events
        if event.HasField("answer_delta") or event.HasField("answer_replaced")
    ]
    return [kind for kind, before in zip(told, ["", *told], strict=False) if kind != before]


async def test_the_answer_is_read_while_it_is_written(scripted_stack: Made) -> None:
    _, clients, model = scripted_stack
    events = []
    async for event in run(clients, question("case live")):
        events.append(event)
        if event.HasField("tool_finished"):
            model.may_end.clear()
        if event.answer_delta.draft:  # so a draft is read before the model is done, or there is no end
            model.may_end.set()
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    drafts = [event for event in events if event.answer_delta.draft]
    assert len(drafts) >= 3, "not at once, but a few times a second"
    assert all(event.answer_delta.step == 1 for event in drafts)
    assert read(events) == finished.answer.markdown == LONG
    assert answering(events) == ["draft"], "what was drafted and holds is not sent again"
    logged = list_logged(events)
    assert [event.sequence for event in logged] == list(range(1, len(logged) + 1))


async def test_a_draft_that_a_check_refuses_is_taken_back(scripted_stack: Made) -> None:
    _, clients, _ = scripted_stack
    events = await ask_case(clients, "case mended")
    assert answering(events) == ["draft", "correction", "draft"]
    at = next(index for index, event in enumerate(events) if event.HasField("answer_replaced"))
    assert read(events[:at]).startswith("On that day Apple closed at 999.25")
    assert events[at].answer_replaced.step == 1
    assert read(events) == events[-1].finished.answer.markdown == LONG


async def test_an_end_that_comes_too_early_is_taken_back(scripted_stack: Made) -> None:
    _, clients, _ = scripted_stack
    events = await ask_case(clients, "case early")
    assert answering(events) == ["draft", "refused", "draft"]
    assert read(events) == events[-1].finished.answer.markdown == LONG


async def test_the_checked_answer_replaces_a_draft_that_reads_otherwise(scripted_stack: Made) -> None:
    """A figure's code is never shown as text, and HTML never comes as such."""
    _, clients, _ = scripted_stack
    events = await ask_case(clients, "case drawn")
    assert answering(events) == ["draft", "checked", "text"]
    at = next(index for index, event in enumerate(events) if event.HasField("answer_replaced"))
    draft = read(events[:at])
    assert "px.line" not in draft
    assert "Before the figure [1]." in draft
    assert "\\<b>" in draft
    markdown = events[-1].finished.answer.markdown
    assert read(events) == markdown
    assert "{{figure:fig_1}}" in markdown


async def test_sse_and_a_later_reader_see_the_same(scripted_stack: Made) -> None:
    endpoints, clients, _ = scripted_stack
    await ask_case(clients, "case mended")
    events = [event async for event in watch(clients, "case-mended", 0)]
    seen = []
    async with (
        httpx.AsyncClient(base_url=endpoints.gateway, timeout=30) as http,
        http.stream("GET", "/v1/runs/case-mended/events") as response,
    ):
        async for line in response.aiter_lines():
            # A ping has no content.
            if line.startswith("data:") and (event := json.loads(line.removeprefix("data:"))):
                seen.append(event)
            if seen and "finished" in seen[-1]:
                break
    assert [int(one["sequence"]) for one in seen] == [event.sequence for event in events]
    assert [one["answer_replaced"]["why"] for one in seen if "answer_replaced" in one] == ["correction"]
    assert [one["answer_delta"]["draft"] for one in seen if "answer_delta" in one] == [
        event.answer_delta.draft for event in events if event.HasField("answer_delta")
    ]


async def test_tools_travel_as_tools_and_no_schema_stands_in_the_prompt(scripted_stack: Made) -> None:
    """On what the endpoint really receives."""
    _, clients, model = scripted_stack
    model.seen.pop("case live", None)
    request = pb.RunRequest(
        request_id="run-payload", question="case live: what was the price of Apple?", model="scripted"
    )
    async for _ in run(clients, request):
        pass
    seen = model.seen["case live"]
    for tools, messages in zip(seen.tools, seen.messages, strict=True):
        names = [tool["function"]["name"] for tool in tools]
        assert names == sorted(names)
        assert all("intent" in tool["function"]["parameters"]["required"] for tool in tools)
        system = str(messages[0]["content"])
        assert messages[0]["role"] == "system"
        assert not any(word in system for word in ('"properties"', '"parameters"', '"type": "string"'))
        for tool in tools:
            assert json.dumps(tool["function"]["parameters"]) not in system
