"""The Python tool: the style of cells is counted, and corrected for trainers; a figure has no text."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, Counter

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.core.errors import DeadlineExceeded, NotFound
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.model.episode import ToolStatus
from fathom.services.planner.tools.figures import PLOTLY, FigureStore, read_title
from fathom.services.planner.tools.python import Python
from fathom.services.planner.tools.registry import CallLimits, Registry
from fathom.services.planner.tools.session import Session
from fathom.services.planner.tools.tables.results import ResultTables
from fathom.transport.store.memory import MemoryStore

GOOD = "def total(values):\n    result = sum(values)\n    return result\n\nprint(total([1, 2]))"
LONG = "a = 1\nb = 2\nfor i in range(3):\n    a += i\nprint(a)"


@pytest.mark.parametrize("teaches_style", [True, False], ids=["of a trainer", "of a user"])
async def test_style_is_counted_and_corrected_in_episodes_of_trainers(teaches_style: bool) -> None:
    ran: list[str] = []

    async def execute(call_id: str, code: str) -> list[pb.ExecuteResponse]:
        ran.append(code)
        return [
            pb.ExecuteResponse(sequence=1, output=pb.OutputChunk(stream=pb.OUTPUT_STREAM_STDOUT, text="3\n")),
            pb.ExecuteResponse(sequence=1, keep_alive=pb.KeepAlive(elapsed_ms=5_000)),
            pb.ExecuteResponse(sequence=2, outcome=pb.Outcome(status=pb.EXECUTE_STATUS_OK, duration_ms=7)),
        ]

    styles = Counter("styles", "Cells by style", ("style",), registry=CollectorRegistry())
    session = SimpleNamespace(execute=execute, sheets={}, find_inputs=lambda: ())
    tables = ResultTables(cast(Any, None), cast(Any, None), "run", 1.0)
    tool = Python(cast(Any, session), cast(Any, None), styles, tables, teaches_style=teaches_style)
    heads = []
    for number, code in enumerate((GOOD, LONG, GOOD)):
        reply = (await tool(f"call_{number}", {"code": code}))(1)
        assert "3" in reply.body, "silence in between does not hide what was printed"
        heads.append(json.loads(json.dumps(reply.head)))
    assert ran == [GOOD, LONG, GOOD]
    assert ["style" in head for head in heads] == [False, teaches_style, False]
    assert ("function" in heads[1].get("style", "")) == teaches_style
    counts = {
        sample.labels["style"]: sample.value
        for sample in next(iter(styles.collect())).samples
        if sample.name == "styles_total"
    }
    assert counts == {"functional": 2.0, "other": 1.0}


async def test_a_figure_without_a_text_form_says_nothing_to_the_model() -> None:
    async def execute(call_id: str, code: str) -> list[pb.ExecuteResponse]:
        drawn = pb.Display(media_type=PLOTLY, data=b'{"data": [], "layout": {}}')
        said = pb.Outcome(status=pb.EXECUTE_STATUS_OK, result="<Figure, whose repr failed>")
        return [pb.ExecuteResponse(sequence=1, display=drawn), pb.ExecuteResponse(sequence=2, outcome=said)]

    styles = Counter("styles", "Cells by style", ("style",), registry=CollectorRegistry())
    session = SimpleNamespace(execute=execute, sheets={}, find_inputs=lambda: ())
    tables = ResultTables(cast(Any, None), cast(Any, None), "run", 1.0)
    tool = Python(cast(Any, session), FigureStore(MemoryStore(), "run"), styles, tables)
    reply = (await tool("call", {"code": GOOD}))(1)
    assert "repr failed" not in reply.body
    assert reply.head["figures"] == ["fig_1"]


@pytest.mark.parametrize(
    ("figure", "title"),
    [
        ({"layout": {"title": {"text": "Prices"}}}, "Prices"),
        ({"layout": {"title": "Prices"}}, "Prices"),
        # What a cell writes by hand; it cost the whole reply, output and tables included.
        ({"layout": None}, ""),
        ({"layout": []}, ""),
        ({"layout": {"title": 7}}, ""),
        ({"layout": {"title": {"text": None}}}, ""),
        ({}, ""),
    ],
)
def test_a_figure_of_any_shape_has_a_title_or_none(figure: dict[str, Any], title: str) -> None:
    assert read_title(figure) == title


async def test_a_cell_that_was_stopped_with_its_planner_runs_again_in_a_session_of_its_own() -> None:
    outcomes = [
        pb.Outcome(status=pb.EXECUTE_STATUS_INTERRUPTED, cause="the caller went away", error_name="KeyboardInterrupt"),
        pb.Outcome(status=pb.EXECUTE_STATUS_OK, result="3"),
    ]
    created: list[str] = []

    async def create_session(request: pb.CreateSessionRequest, timeout_s: float) -> pb.CreateSessionResponse:
        created.append(request.request_id)
        return pb.CreateSessionResponse(session_id=f"session_{len(created)}")

    async def execute(request: pb.ExecuteRequest, timeout_s: float) -> Any:
        yield pb.ExecuteResponse(sequence=1, outcome=outcomes[len(created) - 1])

    clients = SimpleNamespace(sandbox=SimpleNamespace(create_session=create_session, execute=execute))
    session = Session(cast(Any, clients), "run", 1.0)
    events = await session.execute("call_1", "1 + 2")
    assert events[-1].outcome.result == "3"
    assert created == ["run-session-0", "run-session-1"]


async def test_a_call_that_found_no_free_session_in_time_is_made_again() -> None:
    asked: list[str] = []

    async def create_session(request: pb.CreateSessionRequest, timeout_s: float) -> pb.CreateSessionResponse:
        asked.append(request.request_id)
        if len(asked) == 1:
            raise DeadlineExceeded("sandbox.CreateSession was stopped at its deadline")
        return pb.CreateSessionResponse(session_id="session_1")

    async def execute(request: pb.ExecuteRequest, timeout_s: float) -> Any:
        yield pb.ExecuteResponse(sequence=1, outcome=pb.Outcome(status=pb.EXECUTE_STATUS_OK, result="3"))

    clients = SimpleNamespace(sandbox=SimpleNamespace(create_session=create_session, execute=execute))
    styles = Counter("styles", "Cells by style", ("style",), registry=CollectorRegistry())
    tables = ResultTables(cast(Any, None), cast(Any, None), "run", 1.0)
    tool = Python(Session(cast(Any, clients), "run", 60.0), FigureStore(MemoryStore(), "run"), styles, tables)
    # A trainer's episode, which a call that may have acted would end.
    registry = Registry([tool], bounds=CallLimits(patience_s=60.0, is_strict=True))
    cell = json.dumps({"intent": "add", "code": "1 + 2"})
    result = await registry.call("call_1", ToolCall("call_1", "python", cell))
    assert result.status is ToolStatus.OK
    assert asked == ["run-session-0", "run-session-0"], "the same session, should the first attempt have opened one"


async def test_a_session_that_has_run_a_part_of_its_cells_again_is_not_used() -> None:
    opened: list[str] = []
    ran: list[tuple[str, str]] = []

    async def create_session(request: pb.CreateSessionRequest, timeout_s: float) -> pb.CreateSessionResponse:
        opened.append(f"session_{len(opened) + 1}")
        return pb.CreateSessionResponse(session_id=opened[-1])

    async def execute(request: pb.ExecuteRequest, timeout_s: float) -> Any:
        ran.append((request.session_id, request.code))
        if request.session_id == "session_1" and request.code == "third = 3":
            raise NotFound("session", "session_1")  # it was taken back, because people waited for one
        if request.session_id == "session_2" and request.code == "second = 2":
            raise DeadlineExceeded("late")
        yield pb.ExecuteResponse(sequence=1, outcome=pb.Outcome(status=pb.EXECUTE_STATUS_OK))

    clients = SimpleNamespace(sandbox=SimpleNamespace(create_session=create_session, execute=execute))
    session = Session(cast(Any, clients), "run", 1.0)
    for number, code in enumerate(("first = 1", "second = 2")):
        await session.execute(f"call_{number}", code)
    with pytest.raises(DeadlineExceeded):
        await session.execute("call_2", "third = 3")
    await session.execute("call_3", "fourth = 4")
    assert [code for held, code in ran if held == "session_3"] == ["first = 1", "second = 2", "fourth = 4"]


async def test_a_session_that_closes_too_slowly_spoils_no_answer() -> None:
    """A busy sandbox takes longer than a run waits for it; it ends the session all the same."""
    closed: list[str] = []

    async def create_session(request: pb.CreateSessionRequest, timeout_s: float) -> pb.CreateSessionResponse:
        return pb.CreateSessionResponse(session_id="session_1")

    async def execute(request: pb.ExecuteRequest, timeout_s: float) -> Any:
        yield pb.ExecuteResponse(sequence=1, outcome=pb.Outcome(status=pb.EXECUTE_STATUS_OK))

    async def close_session(request: pb.CloseSessionRequest, timeout_s: float) -> pb.CloseSessionResponse:
        closed.append(request.session_id)
        raise DeadlineExceeded("sandbox.CloseSession did not answer in time")

    sandbox = SimpleNamespace(create_session=create_session, execute=execute, close_session=close_session)
    session = Session(cast(Any, SimpleNamespace(sandbox=sandbox)), "run", 1.0)
    await session.execute("call_1", "1 + 2")
    await session.close()
    await session.close()
    assert closed == ["session_1"]
