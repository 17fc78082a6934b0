"""Outside data: vendors, users' files and databases behind one interface, vendors disabled by default.

The connectors to vendors are a distribution of their own, and none is imported before it is enabled by name;
``records.yaml`` says of each how far it was tried.
"""

from __future__ import annotations

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
from fathom.services.datafetch.sources.records import ConnectorsMissing, VendorRecord, load_records
from fathom.services.datafetch.sources.symbols import Market, Symbol, list_candidates, normalise
from fathom.services.datafetch.sources.upload import UploadLimits, filter_published, read_upload
from fathom.services.datafetch.sources.vendors import AllVendorsFailed, Answer, Vendors
from fathom.transport.bus.quotas import Quotas

__all__ = [
    "AllVendorsFailed",
    "Answer",
    "ChangedSchema",
    "Connector",
    "ConnectorsConfig",
    "ConnectorsMissing",
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
    "Symbol",
    "UploadLimits",
    "VendorOff",
    "VendorRecord",
    "Vendors",
    "Vintage",
    "connect",
    "filter_published",
    "list_candidates",
    "load_records",
    "normalise",
    "read_upload",
]


def connect(config: ConnectorsConfig, quotas: Quotas | None = None) -> Vendors:
    """Create the connectors that ``enabled`` names, without opening connections.

    Raises ``NotFound`` for an unknown name, ``ConnectorsMissing`` where the connectors are not installed, ``VendorOff``
    for one without its key, and ``MissingExtra``.
    """
    records = load_records()
    unknown = next((name for name in config.enabled if name not in records), None)
    if unknown is not None:
        raise NotFound("vendor in datafetch.connectors.enabled", unknown, sorted(records))
    return Vendors([records[name].load()(config) for name in config.enabled], config, quotas)
