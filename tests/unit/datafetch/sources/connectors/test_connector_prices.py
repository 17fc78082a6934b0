"""Yahoo's and Eastmoney's bars, served here in the endpoints' forms; nothing later than ``as_of`` is worked in."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from aiohttp import web

from fathom.core.errors import DependencyFailed, InvalidField
from fathom.services.datafetch.sources.base import ChangedSchema, DataRequest, EmptySchema, Fetched, Kind, NoData
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.connectors.eastmoney import Eastmoney
from fathom.services.datafetch.sources.connectors.yahoo import Yahoo
from fathom.transport.http import MalformedAnswer
from tests.servers import Servers

NEW_YORK = ZoneInfo("America/New_York")
DAYS = [date(2020, 8, 26), date(2020, 8, 27), date(2020, 8, 28), date(2020, 8, 31), date(2020, 9, 1), date(2020, 9, 2)]


def stamp(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, 9, 30, tzinfo=NEW_YORK).timestamp())


def chart(traded: dict[date, float], splits: dict[date, float], dividends: dict[date, float]) -> dict[str, Any]:
    """Yahoo's answer: closes as traded are given in today's shares, with the events of all time."""

    def today(day: date, value: float) -> float:
        for when, ratio in splits.items():
            value /= ratio if when > day else 1.0
        return value

    closes = [today(day, close) for day, close in traded.items()]
    quote = {
        "open": closes,
        "high": closes,
        "low": closes,
        "close": closes,
        "volume": [1_000_000 * 100.0 / close for close in closes],
    }
    events = {
        "splits": {
            str(stamp(d)): {"date": stamp(d), "numerator": ratio, "denominator": 1, "splitRatio": f"{ratio}:1"}
            for d, ratio in splits.items()
        },
        "dividends": {str(stamp(d)): {"date": stamp(d), "amount": today(d, amount)} for d, amount in dividends.items()},
    }
    meta = {"currency": "USD", "symbol": "AAPL", "exchangeTimezoneName": "America/New_York", "longName": "Apple Inc."}
    result = {
        "meta": meta,
        "timestamp": [stamp(day) for day in traded],
        "events": events,
        "indicators": {"quote": [quote], "adjclose": [{}]},
    }
    return {"chart": {"result": [result], "error": None}}


TRADED = dict(zip(DAYS, (500.0, 504.0, 500.0, 129.0, 134.0, 131.0), strict=True))
SPLITS, DIVIDENDS = {date(2020, 8, 31): 4.0}, {date(2020, 8, 28): 5.04, date(2020, 9, 2): 1.34}


async def yahoo(serve: Servers, answer: Any, status: int = 200) -> tuple[Yahoo, list[dict[str, str]]]:
    asked: list[dict[str, str]] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append({**request.query, "path": request.path, "agent": request.headers["User-Agent"]})
        return web.json_response(answer, status=status)

    url = await serve({"/v8/finance/chart/{symbol}": handler})
    return serve.close_after(Yahoo(ConnectorsConfig(yahoo_url=url))), asked


def column(fetched: Fetched, name: str) -> list[Any]:
    return [
        None if value is None else round(value, 6) if isinstance(value, float) else value
        for value in fetched.table.column(name).to_pylist()
    ]


async def test_bars_are_as_traded_with_units_and_source(serve: Servers) -> None:
    source, asked = await yahoo(serve, chart(TRADED, SPLITS, DIVIDENDS))
    found = await source.fetch(DataRequest(Kind.PRICES, "AAPL", start=DAYS[1], end=DAYS[4]))
    assert column(found, "date") == DAYS[1:5]
    assert column(found, "close") == [504.0, 500.0, 129.0, 134.0]
    assert (found.units["close"], found.units["volume"]) == ("USD", "shares")
    assert found.facts["name"] == "Apple Inc."
    assert found.provenance.vendor == "yfinance"
    assert asked[0]["path"].endswith("/AAPL")
    assert asked[0]["agent"].startswith("Mozilla")
    volumes = column(found, "volume")
    assert volumes[0] == pytest.approx(1_000_000 * 100 / 126 / 4)
    await source.aclose()


async def test_adjusted_closes_know_no_later_event(serve: Servers) -> None:
    source, _ = await yahoo(serve, chart(TRADED, SPLITS, DIVIDENDS))
    before = await source.fetch(DataRequest(Kind.PRICES, "AAPL", start=DAYS[0]), as_of=DAYS[2])
    assert column(before, "date") == DAYS[:3]
    assert column(before, "adj_close") == [pytest.approx(500 * 0.99), pytest.approx(504 * 0.99), 500.0]
    after = await source.fetch(DataRequest(Kind.PRICES, "AAPL", start=DAYS[0]), as_of=DAYS[3])
    assert column(after, "adj_close") == pytest.approx([500 * 0.99 / 4, 504 * 0.99 / 4, 125.0, 129.0])
    assert column(after, "close")[:3] == [500.0, 504.0, 500.0]


async def test_what_happens_later_changes_nothing(serve: Servers) -> None:
    """The look-ahead test: later bars, splits and dividends leave the answer as of a day as it was."""
    early = {day: TRADED[day] for day in DAYS[:3]}
    then, _ = await yahoo(serve, chart(early, {}, {DAYS[2]: 5.04}))
    now, _ = await yahoo(serve, chart(TRADED, SPLITS, DIVIDENDS))
    request = DataRequest(Kind.PRICES, "AAPL", start=DAYS[0])
    old, new = await then.fetch(request, as_of=DAYS[2]), await now.fetch(request, as_of=DAYS[2])
    for name in old.table.column_names:
        assert column(old, name) == pytest.approx(column(new, name)), name


async def test_a_session_that_runs_gives_no_bar(serve: Servers) -> None:
    now = datetime.now(UTC)
    answer = chart({now.date() - timedelta(days=5): 10.0, now.date(): 11.0}, {}, {})
    result = answer["chart"]["result"][0]
    result["timestamp"][1] = int(now.timestamp())
    result["meta"]["exchangeTimezoneName"] = "UTC"
    result["meta"]["currentTradingPeriod"] = {
        "regular": {"start": int(now.timestamp()) - 1, "end": int(now.timestamp()) + 600}
    }
    source, _ = await yahoo(serve, answer)
    found = await source.fetch(DataRequest(Kind.PRICES, "AAPL"))
    assert column(found, "close") == [10.0]
    assert found.provenance.notes == ("the bar of the running session is left out",)


def change_chart(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    answer = deepcopy(chart(TRADED, SPLITS, DIVIDENDS))
    change(answer["chart"]["result"][0])
    return answer


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (change_chart(lambda r: r["indicators"]["quote"][0].pop("volume")), ChangedSchema, "volume"),
        (change_chart(lambda r: r["indicators"]["quote"][0].clear()), EmptySchema, "open, high, low, close, volume"),
        (change_chart(lambda r: r["indicators"].update(quote=[{}])), EmptySchema, "close"),
        (change_chart(lambda r: r.pop("indicators")), ChangedSchema, "indicators"),
        (change_chart(lambda r: r["timestamp"].pop()), MalformedAnswer, "differ in length"),
        (change_chart(lambda r: r["indicators"]["quote"][0].update(close=["x"] * 6)), MalformedAnswer, "another shape"),
        (change_chart(lambda r: r["events"].update(splits={"1": {}})), MalformedAnswer, "another shape"),
        ({"finance": {}}, MalformedAnswer, "chart"),
        ([], MalformedAnswer, "another shape"),
        ({"chart": {"result": None, "error": {"code": "Not Found"}}}, NoData, "AAPL"),
        (change_chart(lambda r: r.pop("timestamp")), NoData, "AAPL"),
    ],
)
async def test_answers_of_another_shape_are_typed(
    serve: Servers, answer: Any, error: type[Exception], says: str
) -> None:
    source, _ = await yahoo(serve, answer)
    with pytest.raises(error, match=says):
        await source.fetch(DataRequest(Kind.PRICES, "AAPL"))


async def test_unknown_symbols_and_failing_servers(serve: Servers) -> None:
    source, _ = await yahoo(serve, {"chart": {"result": None}}, status=404)
    with pytest.raises(NoData):
        await source.fetch(DataRequest(Kind.PRICES, "ZZZZ"))
    with pytest.raises(InvalidField):
        await source.fetch(DataRequest(Kind.PRICES, "no such code"))
    source, asked = await yahoo(serve, {}, status=500)
    with pytest.raises(DependencyFailed, match="yfinance"):
        await source.fetch(DataRequest(Kind.PRICES, "AAPL"))
    assert len(asked) == 3


LINES = [
    "2024-01-02,1715.00,1685.01,1718.19,1678.10,32156,5440082548.00,2.33,-2.37,-40.99,0.26",
    "2024-01-03,1681.11,1694.00,1695.22,1676.33,20229,3411400700.00,1.12,0.53,8.99,0.16",
    "2024-01-04,1693.00,1669.00,1693.00,1662.93,21551,3603970100.00,1.78,-1.48,-25.00,0.17",
]


async def eastmoney(serve: Servers, answer: Any) -> tuple[Eastmoney, list[dict[str, str]]]:
    asked: list[dict[str, str]] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        return web.json_response(answer)

    url = await serve({"/api/qt/stock/kline/get": handler})
    return serve.close_after(Eastmoney(ConnectorsConfig(eastmoney_url=url))), asked


def kline(lines: list[Any], name: str = "贵州茅台") -> dict[str, Any]:
    return {"rc": 0, "data": {"code": "600519", "market": 1, "name": name, "klines": lines}}


async def test_eastmoneys_bars(serve: Servers) -> None:
    source, asked = await eastmoney(serve, kline(LINES))
    found = await source.fetch(
        DataRequest(Kind.PRICES, "贵州茅台(600519)", start=date(2024, 1, 2)), as_of=date(2024, 1, 3)
    )
    assert column(found, "date") == [date(2024, 1, 2), date(2024, 1, 3)]
    assert column(found, "close") == [1685.01, 1694.0]
    assert column(found, "high") == [1718.19, 1695.22]
    assert column(found, "volume") == [3_215_600.0, 2_022_900.0], "lots of 100 become shares"
    assert column(found, "adj_close") == [None, None]
    assert (found.units["close"], found.facts["name"]) == ("CNY", "贵州茅台")
    assert (asked[0]["secid"], asked[0]["fqt"], asked[0]["beg"], asked[0]["end"]) == (
        "1.600519",
        "0",
        "20240102",
        "20240103",
    )


async def test_a_broken_line_is_reported_and_the_rest_comes(serve: Servers) -> None:
    source, _ = await eastmoney(
        serve,
        kline([LINES[0], "2024-13-45,1,2,3,4,5", LINES[1].replace("1694.00", "abc"), LINES[2].replace("1669.00", "-")]),
    )
    found = await source.fetch(DataRequest(Kind.PRICES, "600519"))
    assert [issue.row for issue in found.issues] == [2, 3]
    assert column(found, "close") == [1685.01, None]


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (kline([",".join(LINES[0].split(",")[:6])]), ChangedSchema, "amount, amplitude"),
        (kline([""]), EmptySchema, "date, open"),
        (kline([]), NoData, "600519"),
        ({"rc": 0, "data": None}, NoData, "600519"),
        ({"rc": 0, "data": {"klines": None}}, MalformedAnswer, "klines"),
        ([], MalformedAnswer, "data"),
    ],
)
async def test_eastmoneys_odd_answers_are_typed(serve: Servers, answer: Any, error: type[Exception], says: str) -> None:
    source, _ = await eastmoney(serve, answer)
    with pytest.raises(error, match=says):
        await source.fetch(DataRequest(Kind.PRICES, "600519"))


async def test_the_library_akshare_reads_the_same_answer_alike(serve: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    akshare = pytest.importorskip("akshare", reason="the extra akshare is not installed")
    source, _ = await eastmoney(serve, kline(LINES))
    ours = await source.fetch(DataRequest(Kind.PRICES, "600519"))

    class Answer:
        def json(self) -> dict[str, Any]:
            return kline(LINES)

    monkeypatch.setattr("requests.get", lambda *_, **__: Answer())
    theirs = akshare.stock_zh_a_hist(
        symbol="600519", period="daily", start_date="20240101", end_date="20240105", adjust=""
    )
    assert theirs["日期"].tolist() == column(ours, "date")
    for chinese, english in (("开盘", "open"), ("收盘", "close"), ("最高", "high"), ("最低", "low")):
        assert theirs[chinese].tolist() == column(ours, english)
    assert (theirs["成交量"] * 100).tolist() == column(ours, "volume")


async def test_requests_that_make_no_sense(serve: Servers) -> None:
    with pytest.raises(InvalidField, match="period"):
        DataRequest(Kind.PRICES, "600519", start=date(2024, 2, 1), end=date(2024, 1, 1))
    with pytest.raises(InvalidField, match="symbol"):
        DataRequest(Kind.PRICES, " ")
    source, asked = await eastmoney(serve, kline(LINES))
    with pytest.raises(NoData):
        await source.fetch(DataRequest(Kind.PRICES, "600519", start=date(2024, 2, 1)), as_of=date(2024, 1, 1))
    assert asked == []
