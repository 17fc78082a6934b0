"""The catalogue over the bundled tables: what a caller learns of the data before asking for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core import errors
from fathom.core.call import Call
from fathom.domain import frames
from fathom.services.datafetch.commands import list_catalogue
from fathom.services.datafetch.discovery.words import find_unmatched
from tests.bench.datafetch.datafetch_gold import service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def datafetch(tables_dir: Path) -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:
        # By words alone: the weights of the encoder are not on every machine that runs the tests.
        yield (await stack.enter_async_context(service(tables_dir, embedding="off")))[0]


async def search(servicer: Any, query: str, **fields: Any) -> pb.SearchCatalogResponse:
    response: pb.SearchCatalogResponse = await servicer.SearchCatalog(
        pb.SearchCatalogRequest(query=query, **fields), Call.new()
    )
    return response


def ids(response: pb.SearchCatalogResponse) -> list[str]:
    return [f"{entity}.{row.indicator}" for row in response.series for entity in row.entities]


# Of the 22 look-ups of the first blind test, those whose words are on record, and others of their kinds.
@pytest.mark.parametrize(
    ("query", "series"),
    [
        ("EURUSD", "USD.eur_rate"), ("USD/JPY", "JPY.eur_rate"), ("regular gasoline retail price", "US.gasregm"),
        ("Apple", "AAPL.close_adj"), ("aapl", "AAPL.close_adj"), ("苹果", "AAPL.close_adj"), ("pingguo", "AAPL.close_adj"),
        ("exon mobil", "XOM.close_adj"), ("Chevron price", "CVX.close_adj"), ("VIX", "VIX.close_adj"),
        ("unemployment rate", "US.unrate"), ("失业率", "US.unrate"), ("gs10", "US.gs10"), ("fed funds rate", "US.fedfunds"),
        ("home prices in Miami", "US.mixrsa"), ("T-bill rate", "US.tb3ms"), ("人民币", "CNY.eur_rate"),
        ("Brent oil", "BRENT.close_adj"), ("inflation", "US.cpiaucsl"), ("medical care CPI", "US.cpimedsl"),
    ],
)  # fmt: skip
async def test_a_name_a_code_or_a_description_finds_its_series(datafetch: Any, query: str, series: str) -> None:
    assert series in ids(await search(datafetch, query))


async def test_a_row_names_everything_that_a_query_needs(datafetch: Any) -> None:
    row = (await search(datafetch, "Exxon share price")).series[0]
    assert (list(row.entities), row.indicator, row.unit, row.first_date, row.last_date) == (
        ["XOM"], "close_adj", "USD", "1990-01-02", "2022-12-28",
    )  # fmt: skip
    assert (row.frequency, row.source) == (pb.FREQUENCY_DAILY, "skfolio")
    typed = pb.TypedQuery(entities=row.entities, indicators=[row.indicator], start_date=row.last_date)
    sheet = (await datafetch.Query(pb.QueryRequest(typed=typed), Call.new())).sheets[0]
    assert (sheet.rows, sheet.columns[1].basis) == (1, row.basis)


@pytest.mark.parametrize(
    ("query", "basis"),
    [("AAPL", "total return: adjusted for dividends and splits"), ("SP500", "price index: without dividends"),
     ("USMV", "total return: adjusted for dividends and splits"), ("GOLD", "spot price"), ("JPY", "reference rate")],
)  # fmt: skip
async def test_a_series_says_whether_dividends_are_in_it(datafetch: Any, query: str, basis: str) -> None:
    assert (await search(datafetch, query)).series[0].basis == basis


@pytest.mark.parametrize("query", ["", "what data do you have", "  "])
async def test_a_question_about_everything_gets_the_overview(datafetch: Any, query: str) -> None:
    response = await search(datafetch, query)
    kinds = {kind.kind: (kind.entity_count, kind.indicator_count) for kind in response.kinds}
    assert kinds == {
        "commodity": (3, 1), "currency": (41, 1), "economy": (1, 732), "fund": (5, 1), "index": (3, 1), "stock": (21, 1),
    }  # fmt: skip
    stock = next(kind for kind in response.kinds if kind.kind == "stock")
    assert (stock.first_date, stock.last_date, list(response.series)) == ("1990-01-02", "2025-02-14", [])


@pytest.mark.parametrize(
    ("query", "absent"),
    [
        ("Tesla share price", "tesla"),
        ("bitcoin", "bitcoin"),
        ("market value of Apple", "value"),
        ("微软的市盈率", "市盈率"),
    ],
)
async def test_what_no_series_has_is_named(datafetch: Any, query: str, absent: str) -> None:
    assert absent in (await search(datafetch, query)).unmatched


async def test_the_past_does_not_know_series_that_begin_later(datafetch: Any) -> None:
    early = pb.SearchCatalogRequest(query="USMV")
    early.as_of.FromDatetime(datetime(2013, 6, 30))
    assert ids(await datafetch.SearchCatalog(early, Call.new())) == []
    early.query, early.kind = "", "economy"
    kind = (await datafetch.SearchCatalog(early, Call.new())).kinds[0]
    assert date.fromisoformat(kind.last_date) < date(2013, 6, 30)
    # The figure of June would be published in July.
    early.query, early.kind = "unemployment rate", ""
    rows = (await datafetch.SearchCatalog(early, Call.new())).series
    assert {row.last_date for row in rows if row.indicator == "unrate"} == {"2013-05-31"}


async def test_pages_follow_each_other_without_a_gap_and_repeat_byte_for_byte(datafetch: Any) -> None:
    whole = await search(datafetch, "home price index", page_size=50)
    first = await search(datafetch, "home price index", page_size=7)
    second = await search(datafetch, "home price index", page_size=7, page_token=first.next_page_token)
    assert [*first.series, *second.series] == list(whole.series[:14])
    assert whole == await search(datafetch, "home price index", page_size=50)


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"query": "x" * 501}, "query"), ({"query": "gold", "kind": "stocks"}, "kind"), ({"query": "", "kind": "bond"}, "kind"),
     ({"query": "gold", "page_size": 51}, "page_size"), ({"query": "gold", "page_token": "nonsense"}, "page_token")],
)  # fmt: skip
async def test_bad_fields_are_named(datafetch: Any, fields: dict[str, Any], named: str) -> None:
    with pytest.raises(errors.InvalidField) as bad:
        await datafetch.SearchCatalog(pb.SearchCatalogRequest(**fields), Call.new())
    assert bad.value.field == named


async def test_a_kind_without_a_query_lists_all_its_series(datafetch: Any) -> None:
    first = await search(datafetch, "", kind="stock", page_size=10)
    assert first.total == 22
    assert (first.series[0].indicator, first.series[0].entity_count) == ("close_adj", 21)
    assert list(first.series[1].entities) == ["AAPL"]
    assert [kind.kind for kind in first.kinds] == ["stock"]
    assert first.next_page_token


@pytest.mark.parametrize(
    "query", ["cpiaucsl unrate fedfunds inflation", "gs10 gs2 fedfunds treasury yield 10-year", "AAPL close_adj"]
)
async def test_ids_that_are_found_are_not_named_as_unmatched(datafetch: Any, query: str) -> None:
    assert list((await search(datafetch, query)).unmatched) == []


async def test_one_kind_alone_can_be_listed(datafetch: Any) -> None:
    response = await search(datafetch, "price", kind="fund")
    assert {row.kind for row in response.series} == {"fund"}


async def fetch(servicer: Any, **fields: Any) -> tuple[pb.QueryResponse, list[Any]]:
    """Return the response of a typed query, and the table of its first sheet."""
    response = await servicer.Query(pb.QueryRequest(typed=pb.TypedQuery(**fields)), Call.new())
    chunks = [
        part.chunk async for part in servicer.GetTable(pb.GetTableRequest(sheet_id=response.sheets[0].id), Call.new())
    ]
    return response, frames.from_arrow(b"".join(chunks)).to_dict("records")


async def test_the_row_before_the_window_makes_the_return_of_its_first_period_reproducible(datafetch: Any) -> None:
    fields = {"entities": ["CVX"], "indicators": ["close_adj"], "start_date": "2011-01-01", "end_date": "2020-12-31"}
    response, rows = await fetch(datafetch, **fields, frequency=pb.FREQUENCY_ANNUAL, include_previous=True)
    assert rows[0]["date"].date() == date(2010, 12, 31)
    assert len(rows) == 11
    # The figure that a user could not derive from the table without that row.
    assert rows[-1]["CVX.close_adj"] / rows[0]["CVX.close_adj"] - 1 == pytest.approx(0.369, abs=0.0005)
    assert response.sheets[0].columns[1].resampling == "last value of each year"
    assert response.understood.include_previous
    _, plain = await fetch(datafetch, **fields)
    assert plain[0]["date"].date() == date(2011, 1, 3)


async def test_each_series_has_its_own_row_before_the_window(datafetch: Any) -> None:
    _, rows = await fetch(
        datafetch, indicators=["unrate", "gs10"], start_date="2011-01-01", end_date="2011-02-28", include_previous=True
    )
    assert [row["date"].date().isoformat() for row in rows] == ["2010-12-31", "2011-01-31", "2011-02-28"]


async def test_conditions_and_order_take_names_as_indicators_do(datafetch: Any) -> None:
    day = {"start_date": "2020-12-31", "end_date": "2020-12-31", "entity_kind": "stock"}
    by_id = {"order_by": "close_adj", "filters": [pb.ValueFilter(indicator="close_adj", operator="<", value=100)]}
    by_name = {"order_by": "closing price", "filters": [pb.ValueFilter(indicator="price", operator="<", value=100)]}
    (_, one), (_, other) = [
        await fetch(datafetch, indicators=["close_adj"], **day, **given) for given in (by_id, by_name)
    ]
    assert one == other
    assert max(row["close_adj"] for row in one) < 100


async def test_a_condition_on_something_unknown_gives_no_rows(datafetch: Any) -> None:
    request = pb.TypedQuery(
        entity_kind="stock", indicators=["close_adj"], filters=[pb.ValueFilter(indicator="debt", operator="<", value=1)]
    )
    response = await datafetch.Query(pb.QueryRequest(typed=request), Call.new())
    assert ([item.subject for item in response.missing], list(response.sheets)) == (["debt"], [])


async def test_an_entity_alone_is_asked_for_its_default_series(datafetch: Any) -> None:
    response, _ = await fetch(datafetch, entities=["Apple"], start_date="2022-12-01")
    assert response.sheets[0].columns[1].name == "AAPL.close_adj"


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"entities": ["US"]}, "typed.indicators"), ({"entities": ["AAPL"], "entity_kind": "stock"}, "typed.entity_kind"),
     ({"entities": ["AAPL"], "include_previous": True}, "typed.include_previous"),
     ({"entities": ["AAPL"], "descending": True}, "typed.descending"), ({"entities": ["AAPL"], "currency": "YEN"}, "typed.currency"),
     ({"entities": ["AAPL"], "unit": "barrels"}, "typed.unit")],
)  # fmt: skip
async def test_contradictory_queries_are_refused_by_field(datafetch: Any, fields: dict[str, Any], named: str) -> None:
    with pytest.raises(errors.InvalidField) as bad:
        await datafetch.Query(pb.QueryRequest(typed=pb.TypedQuery(**fields)), Call.new())
    assert bad.value.field == named


async def test_sql_over_named_sheets_keeps_sources_and_units(datafetch: Any) -> None:
    response, _ = await fetch(datafetch, entities=["AAPL", "MSFT"], start_date="2022-01-01", end_date="2022-12-31")
    sql = 'select max("AAPL.close_adj") as top, count(*) as days from sheet_1'
    request = pb.RunSqlRequest(sql=sql, tables={"sheet_1": response.sheets[0].id})
    top, days = (await datafetch.RunSql(request, Call.new())).sheet.columns
    assert (top.unit, top.entity, top.indicator, top.source, top.formula) == (
        "USD",
        "AAPL",
        "close_adj",
        "skfolio",
        sql,
    )
    assert top.basis == "total return: adjusted for dividends and splits"
    assert (days.unit, days.source) == ("", "")
    request.sql = "select close from sheet_1"
    with pytest.raises(errors.InvalidField, match=r'sheet_1 has date, "AAPL\.close_adj", "MSFT\.close_adj"'):
        await datafetch.RunSql(request, Call.new())


async def test_sql_takes_the_units_that_a_caller_knows(datafetch: Any) -> None:
    response, _ = await fetch(datafetch, entities=["AAPL"], start_date="2022-12-01", end_date="2022-12-31")
    column = pb.Column(name="AAPL.close_adj", type="double", unit="EUR")
    request = pb.RunSqlRequest(
        sql='select "AAPL.close_adj" as close from sheet_1',
        tables={"sheet_1": response.sheets[0].id},
        columns={"sheet_1": pb.TableColumns(columns=[pb.Column(name="date"), column])},
    )
    [close] = (await datafetch.RunSql(request, Call.new())).sheet.columns
    assert (close.name, close.unit) == ("close", "EUR")


async def test_only_the_rows_that_have_most_words_vouch_for_them() -> None:
    prices, yen = ["consumer price index"], ["Japanese yen"]
    assert find_unmatched("Japanese consumer prices", [prices, yen]) == ("japanese",)
    assert find_unmatched("Coke and Pepsi price", [["Coke", "price"], ["Pepsi", "price"]]) == ()
    assert find_unmatched("德国十年期国债", [["十年期国债收益率"]]) == ("德国",)


async def test_the_command_prints_ids_dates_and_what_is_not_there(tables_dir: Path) -> None:
    lines = await list_catalogue("Tesla share price", "fund", 3, tables_dir.parents[1])
    assert lines[0].startswith(
        "MTUM,QUAL,SIZE,USMV,VLUE\tclose_adj\tadjusted close | USD | daily | 2014-01-02 to 2022-12-28"
    )
    assert "in no name of these rows: tesla" in lines
