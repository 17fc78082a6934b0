"""A try of one connector, for whoever wants to know whether it answers now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from types import MappingProxyType

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.errors import FathomError, InvalidField, NotFound
from fathom.services.datafetch.sources.base import DataRequest, Kind, VendorOff, get_today
from fathom.services.datafetch.sources.records import load_records
from fathom.services.datafetch.sources.symbols import Market
from fathom.services.datafetch.sources.vendors import ORDER, Vendors
from fathom.services.datafetch.warehouse.elsewhere import Database

# A person waits for it; a vendor across the internet answers in some seconds or not at all.
PROBE_S = 15.0
# Something large and old of each market, which every vendor of it has.
SYMBOLS: Mapping[Market, str] = MappingProxyType({Market.CN: "600519", Market.HK: "00700", Market.US: "AAPL"})
SERIES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"fred": ("GDP", ""), "worldbank": ("NY.GDP.MKTP.CD", "USA")},
)
# Long enough for a trading day in any week of holidays.
PRICE_DAYS = 21


async def probe_connector(
    request: pb.ProbeConnectorRequest,
    vendors: Vendors | None,
    databases: Mapping[str, Database],
    deadline: float | None,
) -> pb.ProbeConnectorResponse:
    """Return how a vendor or a database answers now.

    Raises ``InvalidField`` without a name, ``NotFound`` for an unknown one, and ``VendorOff``.
    """
    if not request.name.strip():
        raise InvalidField("name", "is empty")
    latest = time.monotonic() + PROBE_S
    deadline = latest if deadline is None else min(deadline, latest)
    if request.is_database:
        if request.name not in databases:
            raise NotFound("database", request.name, sorted(databases))
        probe = probe_database(databases[request.name], deadline)
    else:
        if request.name not in load_records():
            raise NotFound("vendor", request.name, sorted(load_records()))
        if vendors is None or request.name not in vendors.names:
            raise VendorOff(request.name, f"datafetch.connectors.enabled to hold {request.name}")
        probe = probe_vendor(request.name, vendors, deadline)
    began, failure = time.monotonic(), ""
    try:
        await probe
    except FathomError as error:
        failure = error.message or error.reason
    took = round((time.monotonic() - began) * 1_000)
    return pb.ProbeConnectorResponse(is_answering=not failure, failure=failure, duration_ms=took)


async def probe_vendor(name: str, vendors: Vendors, deadline: float) -> None:
    """Ask a vendor for something small; that it has nothing is an answer."""
    with suppress(NotFound):
        await vendors.probe(name, choose_request(name), deadline)


async def probe_database(database: Database, deadline: float) -> None:
    """Connect to a database and let it compute a constant."""
    left = max(0.1, deadline - time.monotonic())
    await asyncio.to_thread(database.run, "select 1 as answer", [], left)


def choose_request(name: str) -> DataRequest:
    """Return a small request that a vendor can answer, of the first kind and market that it is asked for."""
    kind, market = next((kind, market) for (kind, market), names in ORDER.items() if name in names)
    if kind is Kind.SERIES:
        symbol, entity = SERIES[name]
        return DataRequest(kind, symbol, entity=entity)
    if kind is Kind.PRICES:
        today = get_today()
        return DataRequest(kind, SYMBOLS[market], start=today - timedelta(days=PRICE_DAYS), end=today)
    return DataRequest(kind, SYMBOLS[market])
