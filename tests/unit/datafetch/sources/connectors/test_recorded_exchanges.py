"""Hold our connectors to what vendors' own clients asked and read, recorded by tests/golden/vendors/record.py.

Each recording has the requests of the client, the answers in the vendor's documented form, and the rows that the client
made of them. A connector is served the same answers; it has to ask at the same address with what the client asks with,
and to read the same rows. The client of BaoStock is in the environment of the tests and is played anew each time
(``test_connector_baostock.py``).
"""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from aiohttp import web

from fathom.services.datafetch.sources import DataRequest, Kind, load_records
from fathom.services.datafetch.sources.base import Connector
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.connectors.akshare import AkShareStatements
from tests.servers import Servers

FOLDER = Path(__file__).resolve().parents[4] / "golden" / "vendors"
FIRST, LAST = date(2024, 1, 1), date(2024, 1, 31)
REQUESTS = {
    "akshare": DataRequest(Kind.PRICES, "600519", start=FIRST, end=LAST),
    "yfinance": DataRequest(Kind.PRICES, "AAPL", start=date(2024, 1, 2), end=date(2024, 1, 4)),
    "fred": DataRequest(Kind.SERIES, "UNRATE", start=FIRST, end=date(2024, 3, 31)),
    "worldbank": DataRequest(Kind.SERIES, "NY.GDP.MKTP.CD", start=date(2021, 1, 1), end=date(2023, 12, 31), entity="CHN"),
    "edgar": DataRequest(Kind.STATEMENTS, "320193", ("Assets",)),
}  # fmt: skip
# What a connector is asked for besides; the client's rows of it are recorded as "read_facts".
FURTHER = {"edgar": DataRequest(Kind.STATEMENTS, "320193")}
# Parameters of the clients in which a connector differs on purpose.
DIFFERENT = {
    # A constant of the vendor's page, which the answer does not depend on as far as it is documented; one column more.
    "akshare": {"ut", "fields2"},
    # Older and later bars are asked for, too, to undo splits; sessions before and after the regular one are not
    # asked for by default, and gains of funds are in no adjusted close of ours.
    "yfinance": {"period1", "period2", "includePrePost", "events"},
    "fred": {"api_key"},
    "worldbank": set[str](),
    "edgar": set[str](),
}
# The client of the World Bank asks for the English form, which is the one without a language.
LANGUAGE = "/en/"


def read_recording(vendor: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / f"{vendor}.json").read_text(encoding="utf-8")))


def to_json(path: str, body: str) -> str:
    """Return FRED's XML, which its client asks for, as the API's JSON of the same fields."""
    if not body.startswith("<?xml"):
        return body
    import xml.etree.ElementTree as ElementTree

    root = ElementTree.fromstring(body)
    return json.dumps({root.tag: [row.attrib for row in root]})


async def serve_recording(serve: Servers, recording: dict[str, Any]) -> tuple[str, list[web.Request]]:
    asked: list[web.Request] = []

    def answer(path: str, body: str) -> Any:
        async def handler(request: web.Request) -> web.Response:
            asked.append(request)
            return web.Response(text=to_json(path, body), content_type="application/json")

        return handler

    routes = {path.replace(LANGUAGE, "/"): answer(path, body) for path, body in recording["answers"].items()}
    return await serve(routes), asked


def list_rows(table: Any, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a table's rows in the recorded form, of the recorded columns."""
    rows = table.select(list(wanted[0])).to_pylist()
    return [
        {name: str(cell) if isinstance(cell, date) else cell for name, cell in row.items()}
        for row in sorted(rows, key=lambda row: str(row.get("date") or row.get("end")))
    ]


def make_connector(vendor: str, url: str) -> Connector:
    names = ("eastmoney_url", "yahoo_url", "fred_url", "worldbank_url", "edgar_url", "edgar_files_url")
    urls: dict[str, Any] = dict.fromkeys(names, url)
    config = ConnectorsConfig(edgar_agent="Fathom test@example.com", **urls)
    return load_records()[vendor].load()(config)


@pytest.mark.parametrize("vendor", sorted(REQUESTS))
async def test_a_connector_asks_and_reads_as_the_client_does(
    serve: Servers, monkeypatch: pytest.MonkeyPatch, vendor: str
) -> None:
    monkeypatch.setenv("FRED_API_KEY", "k" * 32)
    recording = read_recording(vendor)
    url, asked = await serve_recording(serve, recording)
    source = make_connector(vendor, url)
    serve.close_after(source)
    found = await source.fetch(REQUESTS[vendor])
    wanted = sorted(recording["read"], key=lambda row: str(row.get("date") or row.get("end")))
    # A period without a value is no row of a series from the World Bank, and one without a value from FRED.
    rows = list_rows(found.table, wanted)
    assert [row for row in rows if None not in row.values()] == [row for row in wanted if None not in row.values()]
    if vendor in FURTHER:
        every = recording["read_facts"]
        further = list_rows((await source.fetch(FURTHER[vendor])).table, every)
        # A report that only repeats a figure is no vintage of it.
        assert len(every) > len(further)
        assert {tuple(row.values())[:-1] for row in further} == {tuple(row.values())[:-1] for row in every}
        assert all(row in every for row in further)
    for theirs in map(urllib.parse.urlsplit, recording["asked"]):
        path = theirs.path.replace(LANGUAGE, "/")
        same = [one for one in asked if one.path == path]
        # Clients ask for more than a connector needs: a time zone, a company's type.
        said = {name: value for name, value in urllib.parse.parse_qsl(theirs.query) if name not in DIFFERENT[vendor]}
        if vendor == "yfinance" and "period1" not in theirs.query:
            continue
        assert any(said.items() <= dict(one.query).items() for one in same), (path, said, [one.query for one in same])


async def test_statements_are_read_as_the_library_gives_them() -> None:
    recording = read_recording("akshare-statements")
    reports = json.loads(recording["answers"]["/PC_HSF10/NewFinanceAnalysis/lrbAjaxNew"])["data"]
    # The library's own frame of these answers is one row per report; the other two statements are empty here.
    empty = pd.DataFrame()
    library = SimpleNamespace(
        stock_profit_sheet_by_report_em=lambda symbol: pd.DataFrame(reports),
        stock_balance_sheet_by_report_em=lambda symbol: empty,
        stock_cash_flow_sheet_by_report_em=lambda symbol: empty,
    )
    request = DataRequest(Kind.STATEMENTS, "600519", ("PARENT_NETPROFIT",))
    found = await asyncio.wait_for(AkShareStatements(library=library).fetch(request), 30)
    wanted = sorted(recording["read"], key=lambda row: str(row["end"]))
    assert list_rows(found.table, wanted) == wanted


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_record_names_the_recording_that_there_is(path: Path) -> None:
    recording, record = json.loads(path.read_text(encoding="utf-8")), load_records()[path.stem]
    assert (recording["vendor"], recording["client"], recording["recorded"]) == (
        record.name, record.client, str(record.recorded),
    )  # fmt: skip


def test_every_vendor_is_recorded_or_played() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} | {"baostock"} == {*load_records()}
