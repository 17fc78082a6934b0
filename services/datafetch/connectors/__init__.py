"""Connectors to outside data: vendors, users' files and databases behind one interface, all disabled by default.

Vendors: AkShare (its prices from Eastmoney's endpoint by HTTP, its statements by the library), BaoStock (its TCP
protocol), yfinance (Yahoo's endpoint by HTTP), SEC EDGAR, FRED, World Bank (their JSON APIs by HTTP). Live access is
untested: the tests serve all answers from the local machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fathom.errors import NotFound
from services.datafetch.connectors.akshare import AkShareStatements
from services.datafetch.connectors.baostock import BaoStock
from services.datafetch.connectors.base import (
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
from services.datafetch.connectors.config import ConnectorsConfig
from services.datafetch.connectors.eastmoney import Eastmoney
from services.datafetch.connectors.edgar import Edgar
from services.datafetch.connectors.fred import Fred
from services.datafetch.connectors.sql import SqlDatabase, SqlRefused, SqlSource
from services.datafetch.connectors.symbols import Market, Symbol, candidates, normalise
from services.datafetch.connectors.upload import UploadLimits, published_until, read_upload
from services.datafetch.connectors.vendors import AllVendorsFailed, Answer, Vendors
from services.datafetch.connectors.worldbank import WorldBank
from services.datafetch.connectors.yahoo import Yahoo

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
    "candidates",
    "connect",
    "normalise",
    "published_until",
    "read_upload",
]

VENDORS: Mapping[str, Callable[[ConnectorsConfig], Connector]] = {
    "akshare": Eastmoney,
    "akshare-statements": lambda _: AkShareStatements(),
    "baostock": BaoStock,
    "yfinance": Yahoo,
    "edgar": Edgar,
    "fred": Fred,
    "worldbank": WorldBank,
}


def connect(config: ConnectorsConfig) -> Vendors:
    """Create the connectors that ``enabled`` names, without opening connections.

    Raises ``NotFound`` for an unknown name, ``VendorOff`` for one without its key, and ``MissingExtra``.
    """
    unknown = next((name for name in config.enabled if name not in VENDORS), None)
    if unknown is not None:
        raise NotFound("vendor in datafetch.connectors.enabled", unknown, sorted(VENDORS))
    return Vendors([VENDORS[name](config) for name in config.enabled], config)
