"""The real engine and its tables beside a vendor served here: one query, both kinds of sheets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date
from pathlib import Path

from aiohttp import web

from fathom.api.common.v1.common_pb2 import MISSING_REASON_UNKNOWN_ENTITY
from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.call import Call
from fathom.domain import frames
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.server import DatafetchServicer
from fathom.services.datafetch.sources import connect
from fathom.services.datafetch.sources.gap_filler import GapFiller
from fathom.transport.store.memory import MemoryStore

Serve = Callable[..., Awaitable[str]]
LINES = [
    "2015-01-05,190.13,202.52,203.30,188.50,94515,1911330000,7.8,6.8,12.9,0.83",
    "2015-01-06,199.00,197.83,206.79,197.01,55020,1098750000,4.8,-2.3,-4.69,0.48",
]


async def test_a_code_that_the_tables_do_not_know_comes_from_a_vendor(tables_dir: Path, serve: Serve) -> None:
    asked: list[str] = []

    async def kline(request: web.Request) -> web.Response:
        asked.append(request.query["secid"])
        return web.json_response({"data": {"name": "贵州茅台", "klines": LINES}})

    url = await serve({"/api/qt/stock/kline/get": kline})
    config = Config.model_validate(
        {"data_dir": tables_dir, "connectors": {"enabled": ["akshare"], "eastmoney_url": url}}
    )
    engine, store = Engine(config), MemoryStore()
    await engine.start()
    outside = GapFiller(connect(config.connectors), config.connectors)
    servicer = DatafetchServicer(engine, store, config, outside)
    typed = pb.TypedQuery(
        entities=["AAPL", "600519.SH", "TSLA"], indicators=["close"], start_date="2015-01-01", end_date="2015-01-31"
    )
    response = await servicer.Query(pb.QueryRequest(typed=typed), Call("req_1"))
    own, bought = response.sheets
    assert own.columns[1].vendor != "akshare"
    assert [(column.name, column.unit, column.vendor) for column in bought.columns][1] == ("close", "CNY", "akshare")
    table = frames.read_parquet(await store.get(f"tables/{bought.id}.parquet"))
    assert table.to_pydict() == {"date": [date(2015, 1, 5), date(2015, 1, 6)], "close": [202.52, 197.83]}
    assert [(item.subject, item.reason) for item in response.missing] == [("TSLA", MISSING_REASON_UNKNOWN_ENTITY)]
    assert asked == ["1.600519"]
    await outside.close()
    await engine.close()
