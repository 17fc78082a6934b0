"""Connectors to outside data: vendors, users' files and databases behind one interface, all disabled by default.

Vendors: AkShare (its prices from Eastmoney's endpoint by HTTP, its statements by the library), BaoStock (its TCP
protocol), yfinance (Yahoo's endpoint by HTTP), SEC EDGAR, FRED, World Bank (their JSON APIs by HTTP). Live access is
untested: the tests serve all answers from the local machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fathom.core.errors import NotFound
from fathom.services.datafetch.sources.base import (
    ChangedSchema,
    Connector,
    DataRequest,
    EmptySchema,
    Fetched,
    Kind,
    NoData,
    NoVintage,
    Offer,
    Provenance,
    RowIssue,
    VendorOff,
    Vintage,
)
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.connectors.akshare import AkShareStatements
from fathom.services.datafetch.sources.connectors.baostock import BaoStock
from fathom.services.datafetch.sources.connectors.eastmoney import Eastmoney
from fathom.services.datafetch.sources.connectors.edgar import Edgar
from fathom.services.datafetch.sources.connectors.fred import Fred
from fathom.services.datafetch.sources.connectors.sql import SqlDatabase, SqlRefused, SqlSource
from fathom.services.datafetch.sources.connectors.worldbank import WorldBank
from fathom.services.datafetch.sources.connectors.yahoo import Yahoo
from fathom.services.datafetch.sources.symbols import Market, Symbol, list_candidates, normalise
from fathom.services.datafetch.sources.upload import UploadLimits, filter_published, read_upload
from fathom.services.datafetch.sources.vendors import AllVendorsFailed, Answer, Vendors
from fathom.transport.bus.quotas import Quotas

__all__ = [
    "VENDORS",
    "AllVendorsFailed",
    "Answer",
    "ChangedSchema",
    "Connector",
    "ConnectorsConfig",
    "DataRequest",
    "EmptySchema",
    "Fetched",
    "Kind",
    "Market",
    "NoData",
    "NoVintage",
    "Offer",
    "Provenance",
    "RowIssue",
    "SqlDatabase",
    "SqlRefused",
    "SqlSource",
    "Symbol",
    "UploadLimits",
    "VendorOff",
    "Vendors",
    "Vintage",
    "connect",
    "filter_published",
    "list_candidates",
    "normalise",
    "read_upload",
]

VENDORS: Mapping[str, Callable[[ConnectorsConfig], Connector]] = {
    "akshare": Eastmoney,
    # Statements need the library, prices do not: two names, so that one can be enabled without the other.
    "akshare-statements": lambda _: AkShareStatements(),
    "baostock": BaoStock,
    "yfinance": Yahoo,
    "edgar": Edgar,
    "fred": Fred,
    "worldbank": WorldBank,
}


def connect(config: ConnectorsConfig, quotas: Quotas | None = None) -> Vendors:
    """Create the connectors that ``enabled`` names, without opening connections.

    Raises ``NotFound`` for an unknown name, ``VendorOff`` for one without its key, and ``MissingExtra``.
    """
    unknown = next((name for name in config.enabled if name not in VENDORS), None)
    if unknown is not None:
        raise NotFound("vendor in datafetch.connectors.enabled", unknown, sorted(VENDORS))
    return Vendors([VENDORS[name](config) for name in config.enabled], config, quotas)
