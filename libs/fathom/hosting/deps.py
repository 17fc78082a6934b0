"""Dependencies that a host opens for a service before it builds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fathom.clients import Clients
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
