"""Tables of results: what a cell shows becomes a sheet with its origin, once, whatever is repeated."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, Counter

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.api.sandbox.v1 import sandbox_pb2 as sandbox
from fathom.core.errors import DependencyFailed
from fathom.domain import frames
from fathom.services.datafetch.convert import sheet_to_proto
from fathom.services.datafetch.sources.sheet import import_table
from fathom.services.planner.model.episode import Material, MaterialKind
from fathom.services.planner.proto.episode import material_from_proto, material_to_proto
from fathom.services.planner.tools.figures import FigureStore
from fathom.services.planner.tools.python import Python
from fathom.services.planner.tools.session import Session
from fathom.services.planner.tools.tables import results as result_tables
from fathom.services.planner.tools.tables.lineage import find_inputs, name_result
from fathom.services.planner.tools.tables.results import TABLE, ResultTables
from fathom.services.planner.tools.tool import Reply
from fathom.transport.store import open_store
from fathom.transport.store.refs import read_ref, to_ref


def show(columns: dict[str, list[Any]], kind: str = "number", title: str = "", **content: Any) -> bytes:
    listed = [{"name": name, "type": kind, "values": values} for name, values in columns.items()]
    return json.dumps({"title": title, "is_result": True, "units": {}, "columns": listed} | content).encode()


@dataclass
class Services:
    """A sandbox that shows given tables, and datafetch's own import."""

    store: Any
    displays: list[bytes] = field(default_factory=list)
    status: int = sandbox.EXECUTE_STATUS_OK
    fails: bool = False

    @property
    def sandbox(self) -> Services:
        return self

    @property
    def datafetch(self) -> Services:
        return self

    async def create_session(self, request: Any, timeout_s: float) -> Any:
        return sandbox.CreateSessionResponse(session_id="s")

    async def put_frame(self, request: Any, timeout_s: float) -> None: ...

    async def execute(self, request: sandbox.ExecuteRequest, timeout_s: float) -> Any:  # type: ignore[name-defined]
        for data in self.displays:
            yield sandbox.ExecuteResponse(display=sandbox.Display(media_type=TABLE, data=data))
        outcome = sandbox.Outcome(status=cast(Any, self.status), result="text of the frame")
        yield sandbox.ExecuteResponse(outcome=outcome)

    async def import_table(self, request: pb.ImportTableRequest, timeout_s: float) -> pb.ImportTableResponse:
        if self.fails:
            raise DependencyFailed("datafetch", "is down")
        data = await read_ref(self.store, request.data)
        sheet, *_ = import_table(data, request.data.content_type, request.title)
        stored = await self.store.put(f"tables/{sheet.id}.arrow", sheet.arrow, frames.ARROW_STREAM)
        message = sheet_to_proto(sheet)
        message.data.CopyFrom(to_ref(stored))
        return pb.ImportTableResponse(sheet=message)


@pytest.fixture
def services() -> Services:
    return Services(open_store("memory://"))


def make_tool(services: Services) -> Python:
    clients = cast(Any, services)
    styles = Counter("styles", "Cells by style", ("style",), registry=CollectorRegistry())
    tables = ResultTables(clients, services.store, "run_1", 5.0)
    return Python(Session(clients, "run_1", 5.0), FigureStore(services.store, "run_1"), styles, tables)


async def call(tool: Python, code: str, first: int = 1) -> Reply:
    return (await tool(f"call_{first}", {"code": code}))(first)


async def test_a_shown_table_becomes_the_next_sheet_with_its_cell_as_origin(services: Services) -> None:
    tool = make_tool(services)
    given = pb.Sheet(id="t1", title="Prices")
    given.columns.add(name="close", unit="USD", source="bundle", as_of="2022-12-30", entity="AAPL")
    table = frames.arrow().table({"close": [1.5, 2.5, 3.5]})
    given.data.CopyFrom(to_ref(await services.store.put("t1", frames.write_table(table), frames.ARROW_STREAM)))
    tool.session.put(given)
    services.displays = [show({"close": [2.5], "return": [0.25]}, units={"return": "fraction"})]
    reply = await call(tool, "top = sheet_1.tail(1)\ntop", 4)
    code, sheet = reply.material
    assert (code.kind, sheet.kind) == (MaterialKind.CODE, MaterialKind.SHEET)
    assert (sheet.variable, sheet.computed_by, sheet.computed_from) == ("sheet_2", 4, ("sheet_1",))
    assert sheet.item.title == "Top: close, return"
    facts = {column.name: (column.unit, column.entity, column.source) for column in sheet.item.columns}
    # The close is one of the sheet's own values, the return is not.
    assert facts == {"close": ("USD", "AAPL", "bundle"), "return": ("fraction", "", "bundle")}
    [listed] = reply.head["sheets"]
    assert (listed["variable"], listed["material"], listed["rows"]) == ("sheet_2", 5, 1)
    assert "text of the frame" in reply.body
    assert await services.store.keys("results/") == []


async def test_a_repeated_cell_makes_no_second_sheet(services: Services) -> None:
    tool = make_tool(services)
    services.displays = [show({"a": [1.0]})]
    assert len((await call(tool, "a")).material) == 2
    again = await call(tool, "a", 3)
    assert [found.kind for found in again.material] == [MaterialKind.CODE]
    assert again.head["sheets"][0]["variable"] == "sheet_1"


async def test_a_resumed_run_knows_the_sheet_and_runs_its_cell_for_its_state_only(services: Services) -> None:
    tool = make_tool(services)
    services.displays = [show({"a": [1.0]})]
    reply = await call(tool, "a")
    material = [
        material_from_proto(material_to_proto(Material(n, f.kind, f.item, f.variable, f.computed_by, f.computed_from)))
        for n, f in enumerate(reply.material, 1)
    ]
    assert material[1].computed_by == 1
    session = Session.from_material(cast(Any, services), "run_1", 5.0, material)
    assert (list(session.sheets), session.code) == (["sheet_1"], ["a"])
    services.displays = [show({"b": [2.0]})]
    tool.session = session
    assert (await call(tool, "b", 3)).material[1].variable == "sheet_2"


async def test_what_cannot_be_kept_is_said_and_the_cell_still_counts(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = make_tool(services)
    services.displays = [b"{", show({"a": ["x"]}), show({"a": [1.0]}, kind="tensor")]
    reply = await call(tool, "a")
    assert reply.status == "ok"
    assert len(reply.material) == 1
    assert len(reply.head["tables_not_kept"]) == 3
    services.displays, services.fails = [show({"a": [1.0]})], True
    assert "datafetch" in (await call(tool, "a", 2)).head["tables_not_kept"][0]
    services.fails = False
    monkeypatch.setattr("fathom.services.planner.tools.python.MAX_RESULTS", 0)
    assert str(result_tables.MAX_RESULTS) in (await call(tool, "a", 3)).head["tables_not_kept"][0]


async def test_a_failed_cell_keeps_no_table(services: Services) -> None:
    tool = make_tool(services)
    services.displays, services.status = [show({"a": [1.0]})], sandbox.EXECUTE_STATUS_ERROR
    assert [found.kind for found in (await call(tool, "a")).material] == [MaterialKind.CODE]


async def test_a_computed_column_says_how_it_was_computed(services: Services) -> None:
    tool = make_tool(services)
    services.displays = [show({"return": [0.25]}, convention="Total return from 2019-12-31.")]
    [column] = (await call(tool, "r")).material[1].item.columns
    assert column.formula == "Total return from 2019-12-31."


async def test_titles_and_names_are_those_of_the_cell(services: Services) -> None:
    tool = make_tool(services)
    services.displays = [show({"day": ["2020-01-02"]}, kind="date", title="Days", is_result=False)]
    reply = await call(tool, "show_table(days, 'Days')")
    assert reply.material[1].item.title == "Days"
    assert reply.material[1].item.columns[0].type == "date32[day]"
    # Nothing else shows the model the rows.
    assert "2020-01-02" in reply.body


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["sheet_1.head()"], ["sheet_1"]),
        (["x = sheet_2['a']", "def f(v):\n    return v * 2", "y = f(x)\ny"], ["sheet_2"]),
        (["x = sheet_1", "x = 1", "x"], []),
        (["out = {}", "out['a'] = sheet_1", "out"], ["sheet_1"]),
        (["%time sheet_1.sum()"], ["sheet_1"]),
        (["1 + 1"], []),
    ],
)
def test_the_sheets_behind_a_result_are_found_through_variables(cells: list[str], found: list[str]) -> None:
    assert list(find_inputs(cells, ["sheet_1", "sheet_2"])) == found


@pytest.mark.parametrize(
    ("code", "name"),
    [("yearly_returns(p).round(2)", "yearly returns"), ("x = 1", ""), ("1 +", ""), ("df[['a']]", "df"), ("", "")],
)
def test_a_result_is_named_as_the_cell_names_it(code: str, name: str) -> None:
    assert name_result(code) == name
