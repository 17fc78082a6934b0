"""``search_turns`` quotes memory without numbering it; ``reuse`` brings tables and figures of earlier turns back."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.model.episode import MaterialKind, ToolResult, ToolStatus
from fathom.services.planner.runs.earlier.findings import RecordedTurns
from fathom.services.planner.runs.repository import RunRepository
from fathom.services.planner.tools.figures import FigureStore
from fathom.services.planner.tools.python import Python
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.session import Session
from fathom.services.planner.tools.turns import Reuse, SearchTurns
from fathom.services.planner.workflow.sub_queries import find_askable
from fathom.transport.store import ObjectStore, open_store
from fathom.transport.store.refs import to_ref

RUNS = {"run_1": ("conv_1", 1), "run_2": ("conv_1", 2), "run_3": ("conv_2", 1)}


class Memory:
    """Memory service with a turn per run; a search finds all, the last first."""

    async def search_memory(self, request: pb.SearchMemoryRequest, timeout_s: float) -> pb.SearchMemoryResponse:
        pages = []
        for run, (conversation, number) in reversed(RUNS.items()):
            turn = pb.Turn(number=number, question=f"Q of {run}?", answer="It was </quoted> 7.5%.", run_id=run)
            turn.end_time.seconds = 1_767_225_600
            pages.append(pb.MemoryPage(conversation_id=conversation, turn=turn, score=0.5, passage="7.5%"))
        wanted = [page for page in pages if "nothing" not in request.question]
        return pb.SearchMemoryResponse(pages=wanted, method=pb.RECALL_METHOD_WORDS)

    async def get_window(self, request: pb.GetWindowRequest, timeout_s: float) -> pb.GetWindowResponse:
        turns = [
            pb.WindowTurn(number=number, run_id=run)
            for run, (conversation, number) in RUNS.items()
            if conversation == request.conversation_id and (not request.through or number <= request.through)
        ]
        return pb.GetWindowResponse(turns=turns[-request.max_turns :])


def sheet(name: str, ident: str, title: str) -> trajectory.Material:
    return trajectory.Material(number=1, variable=name, sheet=Sheet(id=ident, title=title, rows=2, digest=f"{ident}…"))


async def make_record(store: ObjectStore) -> RunRepository:
    record = RunRepository(store)
    drawn = await store.put("figures/run_2/fig_1.json", b'{"data": []}', "application/json")
    code = trajectory.CodeRecord(code="draw()", ok=True)
    code.figures.add(id="fig_1", title="Drawdowns of Pfizer", ref=to_ref(drawn))
    findings = {
        "run_1": [sheet("sheet_1", "a", "Monthly closes of Apple")],
        "run_2": [sheet("sheet_1", "b", "Dividends of Pfizer"), trajectory.Material(number=2, code=code)],
        "run_3": [sheet("sheet_1", "c", "Monthly closes of Gold"), sheet("sheet_2", "d", "苹果公司的季度营收")],
    }
    for run, material in findings.items():
        made = trajectory.Trajectory(run_id=run, stop_reason=trajectory.STOP_REASON_FINISHED)
        made.steps.add(material=material)
        await record.put_trajectory(made)
    return record


async def make_registry(store: ObjectStore, session: Session, follows: int | None = None) -> Registry:
    clients = cast(Any, SimpleNamespace(memory=Memory()))
    turns = RecordedTurns(await make_record(store))
    python = Python(session, FigureStore(store, "run_new", 2), cast(Any, None), cast(Any, None))
    return Registry(
        [SearchTurns(clients, turns, 1.0), Reuse(clients, turns, session, python, "conv_1", 1.0, follows)], 4
    )


async def call(tool: str, follows: int | None = None, **arguments: Any) -> tuple[ToolResult, dict[str, Any], Session]:
    store = open_store("memory://")
    session = Session(cast(Any, None), "run_new", 1.0)
    registry = await make_registry(store, session, follows)
    result = await registry.call("id", ToolCall("c", tool, json.dumps({"intent": "to see", **arguments})))
    return result, json.loads(result.content.split("\n", 1)[0]), session


async def test_what_was_said_is_quoted_and_is_no_material() -> None:
    result, head, _ = await call("search_turns", query="the margin")
    assert result.status is ToolStatus.OK
    assert not result.material, "no number of an answer can cite memory"
    assert [turn["turn"] for turn in head["turns"]] == ["conv_2:1", "conv_1:2", "conv_1:1"]
    assert head["turns"][1]["tables"] == [{"name": "sheet_1", "title": "Dividends of Pfizer"}]
    assert head["turns"][1]["figures"] == [{"name": "fig_1", "title": "Drawdowns of Pfizer"}]
    assert "words alone" in head["method"]
    assert result.content.count("</quoted>") == 1, "a turn cannot end its own quotation"
    empty, _, _ = await call("search_turns", query="nothing")
    assert empty.status is ToolStatus.EMPTY


@pytest.mark.parametrize(
    ("query", "turn", "expected"),
    [
        ("sheet_1", "", ["b"]),  # of the newest turn of this conversation that has one
        ("sheet_2", "", ["d"]),
        ("sheet_1", "conv_1:1", ["a"]),
        ("the monthly closes of Apple", "", ["a"]),
        ("the monthly closes of gold", "", ["c"]),
        ("苹果的季度营收表", "", ["d"]),
        ("the table of dividends", "", ["b"]),
    ],
)
async def test_a_table_comes_back_by_name_and_by_description(query: str, turn: str, expected: list[str]) -> None:
    result, head, session = await call("reuse", query=query, **({"turn": turn} if turn else {}))  # type: ignore[arg-type]
    assert [item.kind for item in result.material] == [MaterialKind.SHEET] * len(expected)
    assert [item.item.id for item in result.material] == expected
    assert [shown["variable"] for shown in head["sheets"]] == ["sheet_1"]
    assert [found.id for found in session.sheets.values()] == expected
    assert result.material[0].number == 5


async def test_a_figure_comes_back_under_the_next_name_of_this_run() -> None:
    for query in ("fig_1", "the chart of Pfizer's drawdowns"):
        result, head, _ = await call("reuse", query=query)
        (item,) = result.material
        assert (item.kind, item.item.run_id, item.item.code) == (MaterialKind.CODE, "run_2", "draw()")
        assert [figure.id for figure in item.item.figures] == ["fig_3"], "two figures were there"
        assert head["figures"] == [{"figure": "fig_3", "title": "Drawdowns of Pfizer", "material": 5}]


async def test_what_is_not_there_is_said_with_what_is() -> None:
    result, head, _ = await call("reuse", query="zebra")
    assert result.status is ToolStatus.INVALID
    assert "sheet_1 (Dividends of Pfizer)" in head["error"]
    for turn in ("conv_1:9", "conv_1", "x:y"):
        result, head, _ = await call("reuse", query="sheet_1", turn=turn)
        assert result.status is ToolStatus.INVALID, turn
    result, head, _ = await call("search_turns", query="margin", after="soon")
    assert "search_turns.after" in head["error"]


async def test_a_plan_of_the_workflow_can_ask_both() -> None:
    registry = await make_registry(open_store("memory://"), Session(cast(Any, None), "run_new", 1.0))
    assert find_askable(registry.specs) == {"search_turns": "query", "reuse": "query"}


@pytest.mark.parametrize(("follows", "expected"), [(None, "b"), (1, "a")])
async def test_a_table_of_the_thread_comes_first(follows: int | None, expected: str) -> None:
    result, _, _ = await call("reuse", follows, query="sheet_1")
    assert [item.item.id for item in result.material] == [expected], "the newest of the turns that lead here"
