"""Codes that the tables do not know: prices from vendors beside the tables' own sheets, or the reason why not."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from aiohttp import web

from fathom.services.datafetch.query.model import Frequency, Missing, Query, Result, Transform
from fathom.services.datafetch.sources import ConnectorsConfig, connect
from fathom.services.datafetch.sources.gap_filler import GapFiller
from tests.servers import Servers

LINES = [
    "2024-01-02,1715.00,1685.01,1718.19,1678.10,32156,5440082548.00,2.33,-2.37,-40.99,0.26",
    "2024-01-03,1681.11,1694.00,1695.22,1676.33,20229,3411400700.00,1.12,0.53,8.99,0.16",
]
QUERY = Query(entities=("600519",), indicators=("close",), start=date(2024, 1, 1), end=date(2024, 1, 31))


def result(query: Query = QUERY, *missing: Missing) -> Result:
    items = missing or tuple(Missing(name, "UNKNOWN_ENTITY", "not here") for name in query.entities)
    return Result((), items, query, "snapshot")


async def outside(
    serve: Servers, closes: float = 1.0, status: int = 200, **settings: Any
) -> tuple[GapFiller, list[str]]:
    """Eastmoney and Yahoo; the latter's closes are ``closes`` times the former's."""
    asked: list[str] = []

    async def eastmoney(request: web.Request) -> web.Response:
        asked.append(request.query["secid"])
        return web.json_response({"data": {"name": "贵州茅台", "klines": LINES}}, status=status)

    async def yahoo(request: web.Request) -> web.Response:
        asked.append(request.path)
        values = [1685.01 * closes, 1694.0 * closes]
        quote = {name: values for name in ("open", "high", "low", "close", "volume")}
        stamps = [1_704_159_000, 1_704_245_400]
        answer = {
            "meta": {"currency": "CNY", "exchangeTimezoneName": "Asia/Shanghai"},
            "timestamp": stamps,
            "indicators": {"quote": [quote]},
        }
        return web.json_response({"chart": {"result": [answer], "error": None}}, status=status)

    url = await serve({"/api/qt/stock/kline/get": eastmoney, "/v8/finance/chart/{symbol}": yahoo})
    config = ConnectorsConfig(
        **{"enabled": ("akshare", "yfinance"), "eastmoney_url": url, "yahoo_url": url, "per_second": 1e6, **settings}
    )
    return GapFiller(serve.close_after(connect(config)), config), asked


async def test_an_unknown_code_gets_a_sheet_with_its_vendor(serve: Servers) -> None:
    filler, asked = await outside(serve)
    filled = await filler.fill(result(), date(2024, 1, 2), None)
    (sheet,) = filled.sheets
    assert [(column.name, column.unit, column.vendor, column.entity) for column in sheet.columns] == [
        ("date", "", "", ""),
        ("close", "CNY", "akshare", "600519.SH"),
    ]
    assert (sheet.rows, filled.missing, asked) == (1, (), ["1.600519"])
    await filler.close()


async def test_what_the_tables_found_stays(serve: Servers) -> None:
    filler, _ = await outside(serve)
    own = (await filler.fill(result(), None, None)).sheets
    other = Missing("MSFT", "NO_DATA_IN_PERIOD", "x")
    before = replace(result(QUERY, Missing("600519", "UNKNOWN_ENTITY", "not here"), other), sheets=own)
    filled = await filler.fill(before, None, None)
    assert (len(filled.sheets), filled.sheets[0], filled.missing) == (2, own[0], (other,))


async def test_closes_as_traded_stand_in_for_adjusted_ones_and_say_so(serve: Servers) -> None:
    filler, _ = await outside(serve)
    query = replace(QUERY, indicators=("close_adj",))
    filled = await filler.fill(result(query), None, None)
    assert [column.name for column in filled.sheets[0].columns] == ["date", "close"]
    assert [(item.aspect, "as traded" in item.detail) for item in filled.missing] == [("close_adj", True)]


async def test_a_failing_vendor_is_told_and_nothing_is_invented(serve: Servers) -> None:
    filler, _ = await outside(serve, status=503)
    filled = await filler.fill(result(), None, time.monotonic() + 8)
    assert filled.sheets == ()
    assert [(item.subject, item.reason) for item in filled.missing] == [("600519", "SOURCE_FAILED")]
    assert "akshare" in filled.missing[0].detail
    assert "yfinance" in filled.missing[0].detail


async def test_prices_that_differ_are_both_shown_and_flagged(serve: Servers) -> None:
    filler, _ = await outside(serve, closes=1.1, check_prices=True)
    filled = await filler.fill(result(), None, None)
    assert [sheet.columns[1].vendor for sheet in filled.sheets] == ["akshare", "yfinance"]
    (flag,) = filled.missing
    assert "disagree on 2 of 2 days" in flag.detail
    agreeing, _ = await outside(serve, check_prices=True)
    agreed = await agreeing.fill(result(), None, None)
    assert (len(agreed.sheets), agreed.missing) == (1, ())


@pytest.mark.parametrize(
    "query",
    [
        replace(QUERY, indicators=("net_profit",)), replace(QUERY, frequency=Frequency.MONTHLY), replace(QUERY, transform=Transform("yoy")),
        replace(QUERY, currency="USD"), replace(QUERY, entities=("某某公司",)),
    ],
)  # fmt: skip
async def test_what_bars_do_not_answer_is_left_as_it_is(serve: Servers, query: Query) -> None:
    filler, asked = await outside(serve)
    before = result(query)
    assert await filler.fill(before, None, None) == before
    assert asked == []


async def test_words_of_a_question_are_no_codes_and_other_markets_stay_missing(serve: Servers) -> None:
    filler, asked = await outside(serve, enabled=("akshare",))
    question = result(replace(QUERY, entities=()), Missing("CEO", "UNKNOWN_ENTITY", "not here"))
    assert await filler.fill(question, None, None) == question
    american = result(replace(QUERY, entities=("TSLA",)))
    assert await filler.fill(american, None, None) == american
    coded = result(
        replace(QUERY, entities=()),
        Missing("600519.SH", "UNKNOWN_ENTITY", "x"),
        Missing("close", "NO_MATCH", "needs a name", "close"),
    )
    filled = await filler.fill(coded, None, None)
    assert (len(filled.sheets), filled.missing, len(asked)) == (1, (), 1)
    off = GapFiller(None, ConnectorsConfig())
    assert await off.fill(result(), None, None) == result()
    await off.close()


async def test_a_vendor_that_is_left_out_is_not_asked_and_the_next_one_answers(serve: Servers) -> None:
    filler, asked = await outside(serve)
    filled = await filler.fill(result(), None, None, {"akshare"})
    assert [column.vendor for column in filled.sheets[0].columns if column.vendor] == ["yfinance"]
    assert all("chart" in path for path in asked)
    # Without any vendor for its market the code stays as unknown as it was, and nobody is asked.
    asked.clear()
    before = result()
    assert await filler.fill(before, None, None, {"akshare", "yfinance"}) == before
    assert asked == []
    # It is left out of that question alone.
    again = await filler.fill(result(), None, None)
    assert [column.vendor for column in again.sheets[0].columns if column.vendor] == ["akshare"]
    await filler.close()
