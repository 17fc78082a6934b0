"""Statements, macro series and other economies through ``Query``'s filler, from answers that are served here."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

import pytest
from aiohttp import web

from fathom.domain import frames
from fathom.services.datafetch.query.model import Match, Missing, Query, Result, Statistic
from fathom.services.datafetch.sources import ConnectorsConfig, connect
from fathom.services.datafetch.sources.gap_filler import GapFiller
from tests.servers import Servers
from tests.unit.datafetch.sources.connectors.test_recorded_exchanges import read_recording, serve_recording

YEAR: dict[str, Any] = {"start": date(2018, 1, 1), "end": date(2018, 12, 31)}


def fact(value: float, filed: str, form: str = "10-K") -> dict[str, Any]:
    return {"start": "2017-10-01", "end": "2018-09-29", "val": value, "accn": filed, "filed": filed, "form": form}


@pytest.fixture
async def outside(serve: Servers, monkeypatch: pytest.MonkeyPatch) -> tuple[GapFiller, list[str]]:
    """EDGAR with Apple's revenue and its restatement, FRED with a rate, the World Bank with a GDP."""
    asked: list[str] = []

    def make_handler(answer: Any, status: int = 200) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(request: web.Request) -> web.Response:
            asked.append(request.path_qs)
            return web.json_response(answer, status=status)

        return handler

    async def concept(request: web.Request) -> web.Response:
        asked.append(request.path_qs)
        tag = request.match_info["tag"]
        if tag != "Revenues":
            return web.Response(status=404)
        facts = [fact(265_595, "2018-11-05"), fact(265_809, "2020-10-30", "10-K/A")]
        return web.json_response({"cik": 320193, "tag": tag, "entityName": "Apple Inc.", "units": {"USD": facts}})

    bank = [
        {"page": 1, "pages": 1, "per_page": 1000, "total": 1, "lastupdated": "2024-06-28"},
        [
            {
                "indicator": {"id": "NY.GDP.MKTP.CD", "value": "GDP (current US$)"},
                "country": {"id": "DE", "value": "Germany"},
                "countryiso3code": "DEU",
                "date": "2018",
                "value": 3.97e12,
                "unit": "",
                "decimal": 0,
            }
        ],
    ]
    url = await serve(
        {
            "/files/company_tickers.json": make_handler(
                {"0": {"cik_str": 320193, "ticker": "AAPL", "title": "Apple Inc."}}
            ),
            "/api/xbrl/companyconcept/{cik}/us-gaap/{tag}.json": concept,
            "/fred/series": make_handler(
                {"seriess": [{"title": "Unemployment Rate", "units": "Percent", "frequency": "Monthly"}]}
            ),
            "/fred/series/observations": make_handler(
                {"observations": [{"date": "2024-05-01", "value": "4.0", "realtime_start": "2024-06-07"}]}
            ),
            "/v2/country/{country}/indicator/{id}": make_handler(bank),
        }
    )
    monkeypatch.setenv("TEST_FRED_KEY", "k")
    config = ConnectorsConfig(
        enabled=("edgar", "fred", "worldbank"), edgar_url=url, edgar_files_url=url, edgar_agent="Test test@example.org",
        fred_url=url, fred_key_env="TEST_FRED_KEY", worldbank_url=url, per_second=1e6,
    )  # fmt: skip
    return GapFiller(serve.close_after(connect(config)), config, lambda ident: ident == "AAPL"), asked


def revenue(**more: Any) -> Result:
    lack = Missing("revenue", "UNKNOWN_INDICATOR", "no indicator is called 'revenue'", "revenue")
    return Result((), (lack,), Query(entities=("AAPL",), **YEAR, **more), "s")


async def test_a_companys_statement_figures_come_with_vendor_and_vintages(outside: tuple[GapFiller, list[str]]) -> None:
    filled = await outside[0].fill(revenue(), None, None)
    (sheet,) = filled.sheets
    frame = frames.from_arrow(sheet.arrow)
    assert list(frame["value"]) == [265_595, 265_809]
    assert {column.vendor for column in sheet.columns if column.name == "value"} == {"edgar"}
    assert filled.missing == ()


async def test_a_recorded_exchange_fills_what_the_tables_lack(serve: Servers) -> None:
    recording = read_recording("edgar")
    # The library was asked by number; by ticker the list of the SEC comes first, which is not recorded.
    tickers = json.dumps({"0": {"cik_str": 320193, "ticker": "AAPL", "title": "Apple Inc."}})
    recording["answers"]["/files/company_tickers.json"] = tickers
    url, asked = await serve_recording(serve, recording)
    config = ConnectorsConfig(
        enabled=("edgar",), edgar_url=url, edgar_files_url=url, edgar_agent="Test test@example.org", per_second=1e6
    )
    filler = GapFiller(serve.close_after(connect(config)), config, lambda ident: ident == "AAPL")
    lack = Missing("total assets", "UNKNOWN_INDICATOR", "no indicator is called so", "total assets")
    query = Query(entities=("AAPL",), start=date(2022, 1, 1), end=date(2023, 12, 31))
    filled = await filler.fill(Result((), (lack,), query, "s"), None, None)
    (sheet,) = filled.sheets
    frame = frames.from_arrow(sheet.arrow)
    assert list(frame["value"]) == [row["value"] for row in recording["read"]]
    assert filled.missing == ()
    assert recording["asked"][0] in [request.path for request in asked]


async def test_a_restatement_is_not_seen_before_it_was_filed(outside: tuple[GapFiller, list[str]]) -> None:
    filled = await outside[0].fill(revenue(), date(2019, 6, 30), None)
    assert list(frames.from_arrow(filled.sheets[0].arrow)["value"]) == [265_595]


async def test_a_macro_series_goes_on_at_fred(outside: tuple[GapFiller, list[str]]) -> None:
    lack = Missing("US", "NO_DATA_IN_PERIOD", "has values up to 2022-09 only", "unrate", "2024-05")
    query = Query(indicators=("unrate",), start=date(2024, 5, 1), end=date(2024, 5, 31))
    filled = await outside[0].fill(Result((), (lack,), query, "s"), None, None)
    assert list(frames.from_arrow(filled.sheets[0].arrow)["value"]) == [4.0]
    assert filled.missing == ()
    assert any("series_id=UNRATE" in path for path in outside[1])


async def test_another_economy_comes_from_the_world_bank(outside: tuple[GapFiller, list[str]]) -> None:
    lacks = (Missing("Germany", "UNKNOWN_ENTITY", "no economy"), Missing("Germany", "NO_MATCH", "nothing"))
    result = Result((), lacks, Query(**YEAR), "s", (Match("GDP", "gdp", 1.0, "exact"),))
    filled = await outside[0].fill(result, None, None)
    assert list(frames.from_arrow(filled.sheets[0].arrow)["value"]) == [3.97e12]
    assert filled.missing == ()
    assert any("/DEU/" in path for path in outside[1])


async def test_figures_without_vintages_do_not_answer_for_an_earlier_day(outside: tuple[GapFiller, list[str]]) -> None:
    lack = Missing("Germany", "UNKNOWN_ENTITY", "no economy")
    result = Result((), (lack,), Query(**YEAR), "s", (Match("GDP", "gdp", 1.0, "exact"),))
    filled = await outside[0].fill(result, date(2019, 6, 30), None)
    assert filled.sheets == ()
    assert {item.reason for item in filled.missing} == {"UNKNOWN_ENTITY", "NOT_YET_PUBLISHED"}


async def test_what_a_vendor_lacks_stays_missing_with_its_reason(outside: tuple[GapFiller, list[str]]) -> None:
    lack = Missing("net income", "UNKNOWN_INDICATOR", "no indicator is called so", "net income")
    filled = await outside[0].fill(Result((), (lack,), Query(entities=("AAPL",), **YEAR), "s"), None, None)
    assert filled.sheets == ()
    assert lack in filled.missing
    assert any(item.subject == "AAPL" for item in filled.missing)


async def test_a_statistic_is_not_made_of_them(outside: tuple[GapFiller, list[str]]) -> None:
    filled = await outside[0].fill(revenue(statistics=(Statistic.MEAN,)), None, None)
    assert (filled.sheets, outside[1]) == ((), [])


async def test_a_vendor_of_statements_that_is_left_out_is_not_asked(outside: tuple[GapFiller, list[str]]) -> None:
    before = revenue()
    assert await outside[0].fill(before, None, None, ["edgar"]) == before
    assert outside[1] == []
