"""EDGAR, FRED and World Bank, served here in the APIs' published forms; every vintage stays, none is seen early."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from aiohttp import web

from fathom.core.errors import InvalidField
from fathom.services.datafetch.sources.base import (
    ChangedSchema,
    DataRequest,
    EmptySchema,
    Kind,
    NoData,
    NoVintage,
    VendorOff,
    Vintage,
)
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.connectors.edgar import Edgar
from fathom.services.datafetch.sources.connectors.fred import Fred
from fathom.services.datafetch.sources.connectors.worldbank import WorldBank, parse_period_end
from fathom.transport.http import MalformedAnswer, UpstreamRefused
from tests.servers import Servers


def fact(end: str, value: float, filed: str, form: str = "10-K", start: str | None = None) -> dict[str, Any]:
    return {
        "end": end,
        "val": value,
        "accn": f"0000320193-{filed}",
        "fy": 2018,
        "fp": "FY",
        "form": form,
        "filed": filed,
        **({"start": start} if start else {}),
    }


# The revenue of 2018 was filed in 2018, repeated in 2019, and restated in 2020.
REVENUES = [
    fact("2018-09-29", 265_595, "2018-11-05", start="2017-10-01"),
    fact("2018-09-29", 265_595, "2019-10-31", start="2017-10-01"),
    fact("2018-09-29", 265_809, "2020-10-30", "10-K/A", start="2017-10-01"),
    fact("2019-09-28", 260_174, "2019-10-31", start="2018-09-30"),
]
ASSETS = [fact("2018-09-29", 365_725, "2018-11-05")]


def concept(tag: str, facts: list[Any]) -> dict[str, Any]:
    return {"cik": 320193, "taxonomy": "us-gaap", "tag": tag, "entityName": "Apple Inc.", "units": {"USD": facts}}


class Sec:
    """The API's three addresses; counts what is asked."""

    def __init__(self, concepts: dict[str, Any]) -> None:
        self.concepts, self.asked, self.agents = concepts, list[str](), set[str]()

    async def tickers(self, request: web.Request) -> web.Response:
        self.note(request)
        return web.json_response(
            {
                "0": {"cik_str": 320193, "ticker": "AAPL", "title": "Apple Inc."},
                "1": {"cik_str": 1067983, "ticker": "BRK-B", "title": "B"},
            }
        )

    async def one(self, request: web.Request) -> web.Response:
        self.note(request)
        found = self.concepts.get(request.match_info["tag"])
        return web.json_response(found) if found is not None else web.Response(status=404)

    async def all(self, request: web.Request) -> web.Response:
        self.note(request)
        if "0000320193" not in request.path:
            return web.Response(status=404)
        facts = {tag: {"label": tag, "units": found["units"]} for tag, found in self.concepts.items()}
        return web.json_response({"cik": 320193, "entityName": "Apple Inc.", "facts": {"us-gaap": facts}})

    def note(self, request: web.Request) -> None:
        self.asked.append(request.path)
        self.agents.add(request.headers["User-Agent"])


async def edgar(serve: Servers, sec: Sec) -> Edgar:
    url = await serve({
        "/files/company_tickers.json": sec.tickers, "/api/xbrl/companyconcept/{cik}/us-gaap/{tag}.json": sec.one, "/api/xbrl/companyfacts/{cik}": sec.all,
    })  # fmt: skip
    config = ConnectorsConfig(edgar_url=url, edgar_files_url=url, edgar_agent="Fathom test@example.com")
    return serve.close_after(Edgar(config))


async def test_a_restated_figure_stands_with_both_vintages(serve: Servers) -> None:
    sec = Sec({"Revenues": concept("Revenues", REVENUES)})
    source = await edgar(serve, sec)
    request = DataRequest(Kind.STATEMENTS, "AAPL", ("Revenues", "NoSuchThing"))
    found = await source.fetch(request)
    rows = found.table.select(["end", "value", "filed", "form", "latest"]).to_pylist()
    assert [(row["end"].year, row["value"], str(row["filed"]), row["latest"]) for row in rows] == [
        (2018, 265_595, "2018-11-05", False),
        (2018, 265_809, "2020-10-30", True),
        (2019, 260_174, "2019-10-31", True),
    ]
    assert found.provenance.notes == ("NoSuchThing: the company reports no such figure",)
    assert found.facts == {"symbol": "AAPL", "name": "Apple Inc.", "cik": "0000320193"}
    assert found.table.column("unit").to_pylist() == ["USD"] * 3
    await source.fetch(request)
    assert sec.asked.count("/files/company_tickers.json") == 1
    assert sec.agents == {"Fathom test@example.com"}


@pytest.mark.parametrize(
    ("as_of", "values"),
    [
        ("2018-11-04", []),
        ("2018-11-05", [265_595]),
        ("2019-12-31", [265_595, 260_174]),
        ("2020-10-30", [265_595, 265_809, 260_174]),
    ],
)
async def test_nothing_filed_later_is_seen(serve: Servers, as_of: str, values: list[float]) -> None:
    source = await edgar(serve, Sec({"Revenues": concept("Revenues", REVENUES)}))
    request = DataRequest(Kind.STATEMENTS, "320193", ("us-gaap:Revenues",))
    if not values:
        with pytest.raises(NoData):
            await source.fetch(request, as_of=date.fromisoformat(as_of))
        return
    table = (await source.fetch(request, as_of=date.fromisoformat(as_of))).table
    assert table.column("value").to_pylist() == values
    newest = {row["end"]: row["value"] for row in table.to_pylist() if row["latest"]}
    assert newest[date(2018, 9, 29)] == values[1 if len(values) == 3 else 0]


async def test_all_of_a_companys_facts_and_a_period(serve: Servers) -> None:
    sec = Sec({"Revenues": concept("Revenues", REVENUES), "Assets": concept("Assets", ASSETS)})
    source = await edgar(serve, sec)
    found = await source.fetch(DataRequest(Kind.STATEMENTS, "CIK0000320193", end=date(2018, 12, 31)))
    assert set(found.table.column("concept").to_pylist()) == {"Revenues", "Assets"}
    assert {str(end) for end in found.table.column("end").to_pylist()} == {"2018-09-29"}
    assert len(sec.asked) == 1
    with pytest.raises(NoData):
        await source.fetch(DataRequest(Kind.STATEMENTS, "999"))
    with pytest.raises(NoData):
        await source.fetch(DataRequest(Kind.STATEMENTS, "ZZZZ"))
    with pytest.raises(NoData):
        await source.fetch(DataRequest(Kind.STATEMENTS, "AAPL", ("NoSuchThing",)))


@pytest.mark.parametrize(
    ("found", "error", "says"),
    [
        ({"tag": "Revenues"}, ChangedSchema, "lacks units"), ({}, EmptySchema, "tag, units"), ([], EmptySchema, "tag, units"),
        (concept("Revenues", [{"end": "2018-09-29", "val": 1}]), ChangedSchema, "filed, form, accn"),
        ({"tag": "Revenues", "units": []}, MalformedAnswer, "another shape"),
    ],
)  # fmt: skip
async def test_edgars_odd_answers_are_typed(serve: Servers, found: Any, error: type[Exception], says: str) -> None:
    source = await edgar(serve, Sec({"Revenues": found}))
    with pytest.raises(error, match=says):
        await source.fetch(DataRequest(Kind.STATEMENTS, "320193", ("Revenues",)))


async def test_a_broken_fact_is_reported_and_the_rest_comes(serve: Servers) -> None:
    facts = [REVENUES[0], {**REVENUES[3], "end": "soon"}, REVENUES[3]]
    source = await edgar(serve, Sec({"Revenues": concept("Revenues", facts)}))
    found = await source.fetch(DataRequest(Kind.STATEMENTS, "320193", ("Revenues",)))
    assert [(issue.row, issue.column) for issue in found.issues] == [(2, "Revenues in USD")]
    assert found.table.num_rows == 2


# GDP's first quarter was published in April, revised in May and June; the second came in July.
VINTAGES = [
    {"realtime_start": "2024-04-25", "realtime_end": "2024-05-29", "date": "2024-01-01", "value": "28284.498"},
    {"realtime_start": "2024-05-30", "realtime_end": "2024-06-26", "date": "2024-01-01", "value": "28255.928"},
    {"realtime_start": "2024-06-27", "realtime_end": "9999-12-31", "date": "2024-01-01", "value": "28269.174"},
    {"realtime_start": "2024-07-25", "realtime_end": "9999-12-31", "date": "2024-04-01", "value": "28629.153"},
    {"realtime_start": "2024-07-25", "realtime_end": "9999-12-31", "date": "2024-07-01", "value": "."},
]


class Archive:
    """FRED's two addresses over ``VINTAGES``; ``leaky`` ignores the asked-for day."""

    def __init__(self, observations: list[Any], leaky: bool = False) -> None:
        self.observations, self.leaky = observations, leaky
        self.asked: list[dict[str, str]] = []

    async def series(self, request: web.Request) -> web.Response:
        if request.query["series_id"] != "GDP":
            return web.json_response(
                {"error_code": 400, "error_message": "Bad Request.  The series does not exist."}, status=400
            )
        return web.json_response(
            {
                "seriess": [
                    {
                        "id": "GDP",
                        "title": "Gross Domestic Product",
                        "units": "Billions of Dollars",
                        "frequency": "Quarterly",
                    }
                ]
            }
        )

    async def values(self, request: web.Request) -> web.Response:
        self.asked.append(dict(request.query))
        until = request.query.get("realtime_end", "")
        if until and not self.leaky:
            found = [row for row in self.observations if row["realtime_start"] <= until]
        else:
            found = (
                self.observations
                if self.leaky
                else [row for row in self.observations if row["realtime_end"] == "9999-12-31"]
            )
        limit, offset = int(request.query["limit"]), int(request.query["offset"])
        return web.json_response({"count": len(found), "observations": found[offset : offset + limit]})


async def fred_connector(serve: Servers, archive: Archive, monkeypatch: pytest.MonkeyPatch) -> Fred:
    monkeypatch.setenv("FRED_API_KEY", "fred-secret")
    url = await serve({"/fred/series": archive.series, "/fred/series/observations": archive.values})
    return serve.close_after(Fred(ConnectorsConfig(fred_url=url)))


async def test_freds_latest_and_earlier_vintages(serve: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Archive(VINTAGES)
    source = await fred_connector(serve, archive, monkeypatch)
    request = DataRequest(Kind.SERIES, "GDP", start=date(2024, 1, 1), end=date(2024, 12, 31))
    latest = await source.fetch(request)
    assert latest.table.column("value").to_pylist() == [28269.174, 28629.153, None]
    assert latest.table.column("published").to_pylist() == [None] * 3
    assert latest.units == {"value": "Billions of Dollars"}
    then = await source.fetch(request, as_of=date(2024, 6, 15))
    assert then.table.select(["value", "published", "latest"]).to_pylist() == [
        {"value": 28284.498, "published": date(2024, 4, 25), "latest": False},
        {"value": 28255.928, "published": date(2024, 5, 30), "latest": True},
    ]
    assert archive.asked[1]["realtime_end"] == "2024-06-15"
    assert "fred-secret" not in then.provenance.place
    with pytest.raises(NoData):
        await source.fetch(request, as_of=date(2024, 4, 24))
    with pytest.raises(NoData):
        await source.fetch(DataRequest(Kind.SERIES, "NOPE"))


async def test_an_archive_that_says_too_much_is_not_believed(serve: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    source = await fred_connector(serve, Archive(VINTAGES, leaky=True), monkeypatch)
    found = await source.fetch(DataRequest(Kind.SERIES, "GDP"), as_of=date(2024, 5, 29))
    assert found.table.column("value").to_pylist() == [28284.498]


async def test_freds_odd_answers_and_its_key(serve: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    for observations, error, says in (([{"day": 1}], ChangedSchema, "date, value"), ([{}], EmptySchema, "date, value")):
        source = await fred_connector(serve, Archive(observations, leaky=True), monkeypatch)
        with pytest.raises(error, match=says):
            await source.fetch(DataRequest(Kind.SERIES, "GDP"))

    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"error_message": f"api_key {request.query['api_key']} is not registered"}, status=400)

    url = await serve({"/fred/series": refuse})
    with pytest.raises(UpstreamRefused) as refused:
        await serve.close_after(Fred(ConnectorsConfig(fred_url=url))).fetch(DataRequest(Kind.SERIES, "GDP"))
    assert "fred-secret" not in str(refused.value)
    monkeypatch.delenv("FRED_API_KEY")
    with pytest.raises(VendorOff, match="FRED_API_KEY"):
        Fred(ConnectorsConfig())
    with pytest.raises(VendorOff, match="edgar_agent"):
        Edgar(ConnectorsConfig())


def bank_row(period: str, value: float | None) -> dict[str, Any]:
    return {
        "indicator": {"id": "NY.GDP.MKTP.CD", "value": "GDP (current US$)"}, "country": {"id": "CN", "value": "China"},
        "countryiso3code": "CHN", "date": period, "value": value, "unit": "", "obs_status": "", "decimal": 0,
    }  # fmt: skip


async def bank(serve: Servers, pages: list[Any]) -> tuple[WorldBank, list[dict[str, str]]]:
    asked: list[dict[str, str]] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append({**request.query, "path": request.path})
        return web.json_response(pages[int(request.query["page"]) - 1])

    url = await serve({"/v2/country/{country}/indicator/{id}": handler})
    return serve.close_after(WorldBank(ConnectorsConfig(worldbank_url=url))), asked


def page(number: int, of: int, rows: list[Any], updated: str = "2024-06-28") -> list[Any]:
    return [{"page": number, "pages": of, "per_page": 1000, "total": 3, "sourceid": "2", "lastupdated": updated}, rows]


GDP = DataRequest(Kind.SERIES, "NY.GDP.MKTP.CD", entity="CN", start=date(2020, 1, 1), end=date(2023, 12, 31))


async def test_world_banks_pages_units_and_gaps(serve: Servers) -> None:
    source, asked = await bank(
        serve,
        [
            page(1, 2, [bank_row("2023", None), bank_row("2022", 1.7963e13)]),
            page(2, 2, [bank_row("2021", 1.782e13), bank_row("20x1", 1.0)]),
        ],
    )
    found = await source.fetch(GDP)
    assert found.table.select(["date", "value"]).to_pylist() == [
        {"date": date(2021, 12, 31), "value": 1.782e13},
        {"date": date(2022, 12, 31), "value": 1.7963e13},
        {"date": date(2023, 12, 31), "value": None},
    ]
    assert found.units == {"value": "current US$"}
    assert found.facts["name"] == "China"
    assert [issue.row for issue in found.issues] == [4]
    assert [call["page"] for call in asked] == ["1", "2"]
    assert asked[0]["date"] == "2020:2023"


async def test_world_bank_as_of_an_earlier_day(serve: Servers) -> None:
    source, _ = await bank(serve, [page(1, 1, [bank_row("2022", 1.0), bank_row("2021", 2.0)])])
    assert (await source.fetch(GDP, as_of=date(2024, 6, 28))).provenance.revised is False
    with pytest.raises(NoVintage, match="2024-06-28") as refused:
        await source.fetch(GDP, as_of=date(2022, 6, 1))
    assert refused.value.field == "as_of"
    lenient = DataRequest(GDP.kind, GDP.symbol, entity="CN", vintage=Vintage.LATEST)
    found = await source.fetch(lenient, as_of=date(2022, 6, 1))
    assert found.provenance.revised
    assert found.table.column("date").to_pylist() == [date(2021, 12, 31)]


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ([{"message": [{"id": "120", "key": "Invalid value", "value": "The provided parameter value is not valid"}]}], NoData, "GDP"),
        ([{"message": [{"id": "105", "value": "Service currently unavailable"}]}], MalformedAnswer, "unavailable"),
        (page(1, 1, []), NoData, "GDP"), (page(1, 1, [{}]), EmptySchema, "indicator"), (page(1, 1, [{"date": "2020"}]), ChangedSchema, "indicator, country, value"),
        ({}, MalformedAnswer, "another shape"), ([1, 2], MalformedAnswer, "another shape"),
    ],
)  # fmt: skip
async def test_world_banks_odd_answers_are_typed(
    serve: Servers, answer: Any, error: type[Exception], says: str
) -> None:
    source, _ = await bank(serve, [answer])
    with pytest.raises(error, match=says):
        await source.fetch(GDP)


async def test_world_banks_input_and_periods() -> None:
    source = WorldBank(ConnectorsConfig())
    for symbol, entity, field in (("a/../b", "CN", "symbol"), ("NY.GDP", "China!", "entity"), ("NY.GDP", "", "entity")):
        with pytest.raises(InvalidField) as invalid:
            await source.fetch(DataRequest(Kind.SERIES, symbol, entity=entity))
        assert invalid.value.field == field
    assert [str(parse_period_end(text)) for text in ("2023", "2023Q1", "2023Q4", "2024M02", "2024M12")] == [
        "2023-12-31",
        "2023-03-31",
        "2023-12-31",
        "2024-02-29",
        "2024-12-31",
    ]
