"""List of what can be connected beside the bundled tables, as ``ListConnectors`` gives it."""

from __future__ import annotations

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.domain.contact import check_credential
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.sources import ConnectorsConfig, Vendors, load_records
from fathom.services.datafetch.sources.vendors import ORDER


def list_connectors(config: Config, vendors: Vendors | None) -> pb.ListConnectorsResponse:
    """Return every vendor, enabled or not, and the databases of the settings; their URLs hold passwords and stay."""
    databases = [
        pb.Connector(name=name, is_database=True, is_enabled=True, setting=f"datafetch.databases.{name}")
        for name in sorted(config.databases)
    ]
    listed = [describe_vendor(name, config.connectors, vendors) for name in sorted(load_records())]
    return pb.ListConnectorsResponse(connectors=[*listed, *databases])


def describe_vendor(name: str, config: ConnectorsConfig, vendors: Vendors | None) -> pb.Connector:
    """Return a vendor; its health is this replica's."""
    found = pb.Connector(
        name=name,
        is_enabled=vendors is not None and name in vendors.names,
        offers=list_offers(name),
        credential=find_credential(name, config),
        setting="datafetch.connectors.enabled",
    )
    if vendors is not None and found.is_enabled:
        lane = vendors.lane(name)
        found.is_paused = lane.is_paused
        found.contact.CopyFrom(lane.contact.to_proto())
    return found


def list_offers(name: str) -> list[pb.ConnectorOffer]:
    """Return what a vendor is asked for, by kind of table."""
    # Of the order and not of the connector's own offers: one that is off cannot be made without its key or library.
    markets: dict[str, list[str]] = {}
    for (kind, market), names in ORDER.items():
        if name in names:
            markets.setdefault(kind.value, []).append(market.value)
    return [pb.ConnectorOffer(kind=kind, markets=sorted(found)) for kind, found in markets.items()]


def find_credential(name: str, config: ConnectorsConfig) -> common.Credential:
    """Return whether what a vendor asks of its callers is here."""
    if name == "fred":
        # FRED serves nobody without a key: a setting that names no variable leaves it without one.
        return check_credential([config.fred_key_env]) or common.CREDENTIAL_MISSING
    if name == "edgar":
        # No secret: the SEC wants to know whom to write to.
        return common.CREDENTIAL_SET if config.edgar_agent.strip() else common.CREDENTIAL_MISSING
    return common.CREDENTIAL_UNSPECIFIED
