"""Connector to Yahoo's chart endpoint by HTTP, yfinance's source, without a key.

It has daily bars of stocks, funds and indices. The library yfinance is not used: its addresses are fixed and it brings
a browser's TLS library. Live access is untested; the tests serve the endpoint's answers from the local machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fathom.services.datafetch.sources.base import (
    DataRequest,
    Fetched,
    Kind,
    NoData,
    Offer,
    convert_shape_errors,
    find_last_day,
    get_today,
    make_provenance,
    require_names,
)
from fathom.services.datafetch.sources.cells import Bar, make_price_table, make_price_units, parse_number
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.symbols import Market, normalise
from fathom.transport.http import HttpClient, HttpPolicy, MalformedAnswer, UpstreamRefused

QUOTES = ("open", "high", "low", "close", "volume")


class Yahoo:
    """A connector to bars as traded; Yahoo's are adjusted for all splits until today, which is undone here."""

    name = "yfinance"

    def __init__(self, config: ConnectorsConfig) -> None:
        self._url = config.yahoo_url.rstrip("/")
        policy = HttpPolicy(concurrency=config.concurrency, proxy=config.proxy)
        self._client = HttpClient(self.name, policy, {"user-agent": config.yahoo_agent})

    def offers(self) -> tuple[Offer, ...]:
        fields = dict.fromkeys((*QUOTES, "adj_close"), "")
        return (Offer(Kind.PRICES, (Market.US, Market.HK, Market.CN), fields, "daily", True),)

    async def fetch(self, request: DataRequest, as_of: date | None = None, deadline: float | None = None) -> Fetched:
        """Fetch daily bars, see ``Connector``."""
        symbol = normalise(request.symbol)
        place = f"{self._url}/v8/finance/chart/{symbol.yahoo}"
        # All bars since the start are requested, whatever the end: undoing splits needs the later ones.
        # A week before, as a dividend on the first day needs the close before it.
        start = datetime.combine(request.start or date(1970, 1, 2), time(), UTC) - timedelta(days=7)
        params = {
            "period1": int(start.timestamp()),
            # A day ahead, since it is tomorrow already in some time zones.
            "period2": int(datetime.now(UTC).timestamp()) + 86_400,
            "interval": "1d",
            "events": "div,splits",
        }
        try:
            answer = (await self._client.get(place, params, deadline=deadline)).json()
        except UpstreamRefused as error:
            if error.status == 404:
                raise NoData(self.name, request) from error
            raise
        result = read_chart(answer, self.name)
        if result is None:
            raise NoData(self.name, request)
        last = find_last_day(request, as_of)
        with convert_shape_errors(self.name):
            bars, notes = read_bars(result, last, as_of or get_today())
        bars = [bar for bar in bars if bar[0] <= last and (request.start is None or bar[0] >= request.start)]
        if not bars:
            raise NoData(self.name, request)
        meta = result["meta"]
        currency = str(meta.get("currency") or symbol.currency)
        facts = {"symbol": symbol.canonical, "name": str(meta.get("longName") or ""), "currency": currency}
        return Fetched(
            make_price_table(bars),
            make_price_units(currency),
            make_provenance(self.name, place, as_of, notes=notes),
            facts=facts,
        )

    async def aclose(self) -> None:
        await self._client.aclose()


def read_chart(answer: Any, vendor: str) -> Any:
    """Return the one result, or None for an unknown symbol or a period without bars.

    Raises ``MalformedAnswer``, ``EmptySchema`` and ``ChangedSchema``.
    """
    with convert_shape_errors(vendor):
        results = answer["chart"]["result"]
        if not results:
            return None
        result = results[0]
        require_names(vendor, result, ("meta", "indicators"))
        if "timestamp" not in result:  # a known symbol without a bar in the period
            return None
        quote = (result["indicators"].get("quote") or [{}])[0]
        require_names(vendor, quote, QUOTES)
        wrong = [name for name in QUOTES if len(quote[name]) != len(result["timestamp"])]
    if wrong:
        raise MalformedAnswer(vendor, f"{', '.join(wrong)} and timestamp differ in length")
    return result


def read_bars(result: Mapping[str, Any], last: date, known: date) -> tuple[list[Bar], tuple[str, ...]]:
    """Return the bars as traded until ``last``, and notes; the bar of a running session is left out.

    ``adj_close`` includes splits and dividends until ``known``.
    """
    zone = find_zone(result["meta"])
    # Time stamps are the opening of a session; only in the exchange's zone is its day right.
    days = [datetime.fromtimestamp(stamp, zone).date() for stamp in result["timestamp"]]
    quote = result["indicators"]["quote"][0]
    splits, dividends = read_events(result, zone)
    unfinished = find_open_day(result["meta"], zone)
    rows: list[Bar] = []
    adjusted = adjust_closes(days, [parse_number(value) for value in quote["close"]], splits, dividends, known)
    for index, when in enumerate(days):
        values = [parse_number(quote[name][index]) for name in QUOTES]
        if values[3] is None or when > last or when == unfinished:
            continue
        ratio = compute_ratio_after(splits, when)
        # Yahoo divides old prices by later splits; multiplying gives the price that was paid.
        prices = [None if value is None else value * ratio for value in values[:4]]
        volume = None if values[4] is None else values[4] / ratio
        rows.append((when, prices[0], prices[1], prices[2], prices[3], volume, adjusted[index]))
    notes = ("the bar of the running session is left out",) if unfinished in days and unfinished <= last else ()
    return rows, notes


def adjust_closes(
    days: Sequence[date],
    closes: Sequence[float | None],
    splits: Sequence[tuple[date, float]],
    dividends: Sequence[tuple[date, float]],
    known: date,
) -> list[float | None]:
    """Return closes adjusted for splits and dividends until ``known``, in the shares of that day.

    ``closes`` and ``dividends`` are in today's shares, as Yahoo gives them. A dividend D multiplies all earlier closes
    by 1 - D / c, where c is the close of the day before it.
    """
    back = compute_ratio_after(splits, known)
    paid = {when: amount for when, amount in dividends if when <= known}
    adjusted: list[float | None] = [None] * len(days)
    factor = 1.0
    # From the newest day back, as each dividend lowers all closes before it.
    for index in range(len(days) - 1, -1, -1):
        close = closes[index]
        adjusted[index] = None if close is None or days[index] > known else close * factor * back
        before = closes[index - 1] if index else None
        if (amount := paid.get(days[index])) is not None and before:
            factor *= 1.0 - amount / before
    return adjusted


def compute_ratio_after(splits: Sequence[tuple[date, float]], when: date) -> float:
    """Return the number of today's shares that one share of ``when`` has become."""
    ratio = 1.0
    for day, factor in splits:
        if day > when:
            ratio *= factor
    return ratio


def read_events(result: Mapping[str, Any], zone: Any) -> tuple[list[tuple[date, float]], list[tuple[date, float]]]:
    """Return splits (new shares per old one) and dividends (per today's share) with their days."""
    found = result.get("events") or {}
    splits = [
        (datetime.fromtimestamp(event["date"], zone).date(), float(event["numerator"]) / float(event["denominator"]))
        for event in (found.get("splits") or {}).values()
    ]
    dividends = [
        (datetime.fromtimestamp(event["date"], zone).date(), float(event["amount"]))
        for event in (found.get("dividends") or {}).values()
    ]
    return sorted(splits), sorted(dividends)


def find_zone(meta: Mapping[str, Any]) -> Any:
    try:
        return ZoneInfo(str(meta.get("exchangeTimezoneName") or "UTC"))
    # UTC gives the right day for all exchanges of Europe and America during their sessions.
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def find_open_day(meta: Mapping[str, Any], zone: Any) -> date | None:
    """Return the day of a session that has not ended, or None."""
    session = (meta.get("currentTradingPeriod") or {}).get("regular") or {}
    start, end = session.get("start"), session.get("end")
    if not start or not end or datetime.now(UTC).timestamp() >= end:
        return None
    return datetime.fromtimestamp(start, zone).date()
