"""Measure what a group of like rollouts costs a vendor: every question asked anew, against one cache and shared calls.

Eight rollouts ask the same twenty questions of a local stand-in for Eastmoney's endpoint, which takes 50 ms for an
answer; the connector, HTTP and the lane are the real ones. Rate limits are off, or they would be what is measured.
"""

from __future__ import annotations

import asyncio
import time
from datetime import date

from aiohttp import web
from aiohttp.test_utils import TestServer

from fathom.services.datafetch.sources import ConnectorsConfig, DataRequest, Kind, Vendors, connect

ROLLOUTS, QUESTIONS, ANSWER_S, AS_OF = 8, 20, 0.05, date(2024, 1, 31)
LINE = "2024-01-{day:02d},1715.00,1685.01,1718.19,1678.10,32156,5440082548.00,2.33,-2.37,-40.99,0.26"


async def run() -> None:
    asked = 0

    async def endpoint(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await asyncio.sleep(ANSWER_S)
        return web.json_response({"data": {"name": "x", "klines": [LINE.format(day=day) for day in range(2, 31)]}})

    app = web.Application()
    app.router.add_get("/api/qt/stock/kline/get", endpoint)
    figures: dict[str, tuple[int, float]] = {}
    async with TestServer(app) as server:
        url = str(server.make_url("")).rstrip("/")
        for name, cached in (("asked anew", 0), ("one cache", 64 << 20)):
            config = ConnectorsConfig(
                enabled=("akshare",), eastmoney_url=url, cache_bytes=cached, per_second=1e6, concurrency=8
            )
            asked, started = 0, time.monotonic()
            await group(config, separate=not cached)
            figures[name] = asked, time.monotonic() - started
    for name, (calls, seconds) in figures.items():
        print(f"{name:12} {calls:4} upstream calls  {seconds:6.2f} s")
    (before, slow), (after, fast) = figures["asked anew"], figures["one cache"]
    print(f"upstream calls {before / after:.1f} times fewer, {slow / fast:.1f} times faster")


async def group(config: ConnectorsConfig, separate: bool) -> None:
    """All rollouts at once; each with vendors of its own (nothing shared), or all with the same."""
    shared = connect(config)
    asking = [connect(config) if separate else shared for _ in range(ROLLOUTS)]
    await asyncio.gather(*(questions(vendors) for vendors in asking))
    for vendors in {id(vendors): vendors for vendors in asking}.values():
        await vendors.aclose()


async def questions(vendors: Vendors) -> None:
    """One rollout: its questions one after the other."""
    for number in range(QUESTIONS):
        await vendors.fetch(DataRequest(Kind.PRICES, f"{600_000 + number}"), AS_OF)
