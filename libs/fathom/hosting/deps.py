"""Dependencies that a host opens for a service before it builds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fathom.clients import Clients
    from fathom.core.admission import Quota
    from fathom.core.identity import Tokens
    from fathom.core.telemetry import Telemetry
    from fathom.transport.bus.base import Bus
    from fathom.transport.store import ObjectStore
    from fathom.transport.tls import Certificates


@dataclass(frozen=True)
class Deps:
    """External dependencies of a service, built by its host and passed to ``build(config, deps)``."""

    clients: Clients
    store: ObjectStore
    bus: Bus
    telemetry: Telemetry
    tokens: Tokens | None = None
    """Tokens of services and their callers; None while callers are not identified."""
    certificates: Certificates | None = None
    """Certificates of this process for mutual TLS; None for connections in plain text."""
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    """Quotas of the settings by name, e.g. ``tenant.acme``; those of the bus come before them."""
