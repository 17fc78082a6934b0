"""Connector to Eastmoney's endpoint by HTTP, AkShare's source of daily bars: China and Hong Kong, without a key.

The library AkShare is not used here: its addresses are fixed and most of its calls have no deadline (its statements,
which need several calls, come through the library in ``akshare.py``). Live access is untested; the tests serve the
endpoint's answers from the local machine, and the library reads the same answers alike.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from fathom.services.datafetch.sources.base import (
    ChangedSchema,
    DataRequest,
    EmptySchema,
    Fetched,
    Kind,
    NoData,
    Offer,
    RowIssue,
    find_last_day,
    make_provenance,
)
from fathom.services.datafetch.sources.cells import Bar, make_price_table, make_price_units, parse_day, parse_number
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.symbols import Market, Symbol, normalise
from fathom.transport.http import HttpClient, HttpPolicy, MalformedAnswer

# The fields f51 to f61, in the requested order.
FIELDS = ("date", "open", "close", "high", "low", "volume", "amount", "amplitude", "change_pct", "change", "turnover")
# Mainland volumes come in lots of a hundred shares.
LOT = 100


class Eastmoney:
    """A connector to unadjusted daily bars."""

    # Adjusted bars would contain events after as_of.
    name = "akshare"

    def __init__(self, config: ConnectorsConfig) -> None:
        self._place = config.eastmoney_url.rstrip("/") + "/api/qt/stock/kline/get"
        self._client = HttpClient(self.name, HttpPolicy(concurrency=config.concurrency, proxy=config.proxy))

    def offers(self) -> tuple[Offer, ...]:
        fields = dict.fromkeys(("open", "high", "low", "close", "volume"), "")
        return (Offer(Kind.PRICES, (Market.CN, Market.HK), fields, "daily", True),)

    async def fetch(self, request: DataRequest, as_of: date | None = None, deadline: float | None = None) -> Fetched:
        """Fetch daily bars, see ``Connector``."""
        symbol, last = normalise(request.symbol), find_last_day(request, as_of)
        if request.start and request.start > last:
            raise NoData(self.name, request)
        params = {
            "secid": symbol.eastmoney,
            "fields1": "f1,f2,f3,f4,f5,f6",
            "fields2": ",".join(f"f{number}" for number in range(51, 62)),
            # klt 101 asks for daily bars, fqt 0 for unadjusted prices.
            "klt": "101",
            "fqt": "0",
            "beg": f"{request.start or date(1970, 1, 1):%Y%m%d}",
            "end": f"{last:%Y%m%d}",
        }
        answer = (await self._client.get(self._place, params, deadline=deadline)).json()
        lines, name = read_klines(answer, self.name)
        bars, issues = read_bars(lines, symbol, self.name)
        # The endpoint's own bounds are not relied on.
        bars = [bar for bar in bars if bar[0] <= last and (request.start is None or bar[0] >= request.start)]
        if not bars:
            raise NoData(self.name, request)
        facts = {"symbol": symbol.canonical, "name": name, "currency": symbol.currency}
        where = make_provenance(self.name, self._place, as_of)
        return Fetched(make_price_table(bars), make_price_units(symbol.currency), where, issues, facts)

    async def aclose(self) -> None:
        await self._client.aclose()


def read_klines(answer: Any, vendor: str) -> tuple[list[Any], str]:
    """Return the raw lines and the security's name, or no lines for an unknown code; raises ``MalformedAnswer``."""
    if not isinstance(answer, dict) or "data" not in answer:
        raise MalformedAnswer(vendor, "has no field data")
    data = answer["data"]
    # So the endpoint answers an unknown code.
    if data is None:
        return [], ""
    if not isinstance(data, dict) or not isinstance(data.get("klines"), list):
        raise MalformedAnswer(vendor, "has no list data.klines")
    return data["klines"], str(data.get("name") or "")


def read_bars(lines: list[Any], symbol: Symbol, vendor: str) -> tuple[list[Bar], tuple[RowIssue, ...]]:
    """Parse bars and report invalid lines; raises ``EmptySchema`` and ``ChangedSchema``, judged by the first line."""
    if lines:
        first = str(lines[0])
        count = len(first.split(",")) if first else 0
        if not count:
            raise EmptySchema(vendor, FIELDS)
        if count < len(FIELDS):
            raise ChangedSchema(vendor, FIELDS[count:], FIELDS[:count])
    lot = LOT if symbol.market is Market.CN else 1
    bars: list[Bar] = []
    issues: list[RowIssue] = []
    for row, line in enumerate(lines, start=1):
        try:
            cells = str(line).split(",")
            when = parse_day(cells[0])
            # The close stands second here, unlike the usual order.
            opened, close, high, low, volume = (parse_number(cell) for cell in cells[1:6])
            if when is None:
                raise ValueError("has no day")
        except (ValueError, IndexError) as error:
            issues.append(RowIssue(row, str(error)))
            continue
        bars.append((when, opened, high, low, close, None if volume is None else volume * lot, None))
    return bars, tuple(issues)
