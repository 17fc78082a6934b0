"""Test what connectors give, as sheets, missing items and imported files; the import's RPC itself."""

from __future__ import annotations

import io
import time
from datetime import date
from typing import Any

import openpyxl
import pyarrow as pa
import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.call import Call
from fathom.core.errors import DependencyFailed, FathomError, InvalidField, NotFound
from fathom.domain import frames
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.server import DatafetchServicer
from fathom.services.datafetch.sources import DataRequest, Fetched, Kind, NoData, NoVintage, normalise
from fathom.services.datafetch.sources.base import make_provenance
from fathom.services.datafetch.sources.cells import make_price_table, make_price_units
from fathom.services.datafetch.sources.sheet import import_table, to_missing, to_sheet
from fathom.transport.store.memory import MemoryStore
from fathom.transport.store.refs import to_ref
from tests.support.bombs import make_arrow_bomb

CALL = Call("req_1")
REQUEST = DataRequest(Kind.PRICES, "600519", start=date(2024, 1, 1), end=date(2024, 1, 31))


def test_a_sheet_says_where_each_column_is_from() -> None:
    table = make_price_table([(date(2024, 1, 2), 1.0, 2.0, 0.5, 1.5, 100.0, None)])
    where = make_provenance("akshare", "https://example/kline", date(2024, 1, 31))
    sheet = to_sheet(Fetched(table, make_price_units("CNY"), where, facts={"symbol": "600519.SH", "name": "贵州茅台"}))
    columns = {column.name: column for column in sheet.columns}
    close = columns["close"]
    assert (close.unit, close.entity, close.vendor, close.source, close.as_of) == (
        "CNY",
        "600519.SH",
        "akshare",
        "https://example/kline",
        "2024-01-31",
    )
    # The one row has no adjusted close; a date comes from no vendor's column.
    assert (columns["date"].source, columns["adj_close"].nulls, columns["volume"].unit) == ("", 1, "shares")
    assert sheet.title == "贵州茅台, 600519.SH"
    assert frames.read_table(sheet.arrow).equals(table)


@pytest.mark.parametrize(
    ("error", "as_of", "reason"),
    [
        (NoData("akshare", REQUEST), None, "NO_DATA_IN_PERIOD"), (NoData("akshare", REQUEST), date(2023, 12, 31), "NOT_YET_PUBLISHED"),
        (NoVintage("worldbank", date(2020, 1, 1), "no"), None, "NOT_YET_PUBLISHED"), (DependencyFailed("akshare", "down"), None, "SOURCE_FAILED"),
    ],
)  # fmt: skip
def test_every_failure_is_a_missing_item(error: FathomError, as_of: date | None, reason: str) -> None:
    item = to_missing(REQUEST, error, as_of)
    assert (item.subject, item.reason, item.detail, item.period) == (
        "600519",
        reason,
        error.message,
        "2024-01-01..2024-01-31",
    )


def test_an_unknown_code_and_near_names_are_told() -> None:
    with pytest.raises(InvalidField) as invalid:
        normalise("no code")
    assert to_missing(REQUEST, invalid.value).reason == "UNKNOWN_ENTITY"
    assert to_missing(REQUEST, NotFound("table", "price", ["prices"])).nearest == ("prices",)


async def ask(data: bytes, content_type: str, **fields: Any) -> tuple[pb.ImportTableResponse, MemoryStore]:
    store = MemoryStore()
    stored = await store.put("uploads/mine", data, content_type)
    config = Config()
    servicer = DatafetchServicer(Engine(config), store, config)
    try:
        return await servicer.ImportTable(pb.ImportTableRequest(data=to_ref(stored), **fields), CALL), store
    finally:
        servicer.close()


async def test_a_csv_with_a_broken_row_is_imported_and_the_row_is_told() -> None:
    response, store = await ask(
        "代码,利润,增速\n000001,1.5,3%\n600519\n600036,2.5,4%\n".encode(), "text/csv; charset=utf-8", title="Mine"
    )
    # The header is row 1, so that the broken one is the third that the user sees.
    assert [(issue.row, issue.column, issue.message) for issue in response.issues] == [(3, "", "has 1 fields, not 3")]
    assert (response.sheet.title, response.sheet.rows) == ("Mine", 2)
    assert [(column.name, column.unit, column.vendor) for column in response.sheet.columns] == [
        ("代码", "", "upload"),
        ("利润", "", "upload"),
        ("增速", "%", "upload"),
    ]
    table = frames.read_parquet(await store.get(f"tables/{response.sheet.id}.parquet"))
    assert table.to_pydict() == {"代码": ["000001", "600036"], "利润": [1.5, 2.5], "增速": [3.0, 4.0]}


async def test_a_sheet_is_described_by_its_id() -> None:
    response, store = await ask(b"date,price\n2020-01-01,1.5\n", "text/csv", title="Mine")
    servicer = DatafetchServicer(Engine(Config()), store, Config())
    described = await servicer.GetSheet(pb.GetSheetRequest(sheet_id=response.sheet.id), CALL)
    assert described.sheet == response.sheet
    with pytest.raises(NotFound, match="sheet"):
        await servicer.GetSheet(pb.GetSheetRequest(sheet_id="t0"), CALL)


async def test_arrow_is_imported_as_before_and_other_types_are_refused() -> None:
    arrow = frames.write_table(pa.table({"a": [1, 2]}))
    # Callers from before uploads send no type, or the general one for bytes.
    for content_type in ("", frames.ARROW_STREAM, "application/octet-stream"):
        response, _ = await ask(arrow, content_type)
        assert (response.sheet.title, response.sheet.rows, len(response.issues)) == ("imported table", 2, 0)
    with pytest.raises(InvalidField, match="data"):
        await ask(b"x", "image/png")
    with pytest.raises(FathomError, match="corrupt"):
        await ask(b"x", "")


async def test_a_file_that_unpacks_to_more_than_an_import_may_take_is_refused_by_name() -> None:
    # Three gigabytes of zeros in some kilobytes; the process that reads them has two.
    with pytest.raises(InvalidField, match="data: cannot be decoded within 2,147,483,648 bytes of memory"):
        await ask(make_arrow_bomb(3 << 30), frames.ARROW_STREAM)


def test_a_sheet_of_a_workbook_is_chosen() -> None:
    book = openpyxl.Workbook()
    book.create_sheet("Other").append(["x"])
    sink = io.BytesIO()
    book.save(sink)
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    sheet, issues, worksheets = import_table(sink.getvalue(), kind, "", "Other")
    assert ([column.name for column in sheet.columns], issues, worksheets) == (["x"], (), ("Sheet", "Other"))


def make_book() -> bytes:
    """Return a workbook of three sheets, of which the second has no cells."""
    book = openpyxl.Workbook()
    book.worksheets[0].append(["plant", "sales"])
    book.worksheets[0].append(["Porto", 1.5])
    book.create_sheet("Empty")
    book.create_sheet("Costs").append(["plant", "costs"])
    book.worksheets[2].append(["Porto", "=1/0"])
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


async def test_one_call_makes_a_sheet_of_each_worksheet() -> None:
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    response, store = await ask(make_book(), kind, title="book.xlsx", further_worksheets=2, lifetime_s=60)
    assert [one.worksheet for one in response.further] == ["Empty", "Costs"]
    empty, costs = response.further
    assert not empty.HasField("sheet")
    assert "header" in empty.reason
    assert (response.sheet.title, costs.sheet.title) == ("book.xlsx Sheet", "book.xlsx Costs")
    assert ["no stored value" in issue.message for issue in costs.issues] == [True]
    # Both are there, for as long as was asked.
    servicer = DatafetchServicer(Engine(Config()), store, Config())
    for sheet in (response.sheet, costs.sheet):
        assert (await servicer.GetSheet(pb.GetSheetRequest(sheet_id=sheet.id), CALL)).sheet == sheet
    # What is no table takes no place.
    one, _ = await ask(make_book(), kind, title="book.xlsx", further_worksheets=1)
    assert ([more.worksheet for more in one.further], len(one.worksheets)) == (["Empty", "Costs"], 3)
    alone, _ = await ask(make_book(), kind, title="book.xlsx")
    assert (alone.sheet.id, len(alone.further)) == (response.sheet.id, 0)


@pytest.mark.parametrize("fields", [{"further_worksheets": -1}, {"further_worksheets": 65}])
async def test_a_number_of_further_sheets_that_is_none_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidField, match="further_worksheets: must be from 0 to 64"):
        await ask(b"x\n1\n", "text/csv", **fields)
    with pytest.raises(InvalidField, match="further_worksheets: follow the first sheet"):
        await ask(make_book(), "text/csv", further_worksheets=1, worksheet="Costs")


async def test_a_sheet_with_a_lifetime_is_deleted_by_a_sweep_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    response, store = await ask(b"date,price\n2020-01-01,1.5\n", "text/csv", title="Mine", lifetime_s=60)
    servicer = DatafetchServicer(Engine(Config()), store, Config())
    request = pb.GetSheetRequest(sheet_id=response.sheet.id)
    await servicer.sweep()
    assert (await servicer.GetSheet(request, CALL)).sheet.id == response.sheet.id
    # A second past the sheet's lifetime.
    later = time.time() + 61
    monkeypatch.setattr(servicer._lifetimes, "now", lambda: later)
    await servicer.sweep()
    with pytest.raises(NotFound):
        await servicer.GetSheet(request, CALL)


async def test_a_negative_lifetime_is_refused() -> None:
    with pytest.raises(InvalidField, match="lifetime_s"):
        await ask(b"date,price\n2020-01-01,1.5\n", "text/csv", lifetime_s=-1)
