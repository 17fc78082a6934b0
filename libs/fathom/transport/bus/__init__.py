"""The message bus: request/reply between services, durable work queues and event streams.

Only this package imports nats. ``nats://`` is the bus of a cluster and of the local stack; ``memory://`` behaves the
same within one process.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from fathom.core.config import ConfigError
from fathom.core.extras import name_missing_extra
from fathom.transport.bus.base import Bus, Closable, Delivery, Handler, Message
from fathom.transport.bus.streams import Topology, topology
from fathom.transport.store.base import ObjectStore

__all__ = ["Bus", "Closable", "Delivery", "Handler", "Message", "open_bus"]


async def open_bus(url: str, store: ObjectStore, streams: Topology | None = None) -> Bus:
    """Open ``nats://[user:password@]host:port`` or ``memory://``; large payloads go through ``store``.

    Each ``memory://`` is a separate bus. Raises ``ConfigError`` for any other URL or a server that cannot carry
    Fathom's messages, ``NotReady`` when no server answers within 10 seconds, ``MissingExtra`` without nats-py.
    """
    scheme = urlsplit(url).scheme
    if scheme == "memory":
        from fathom.transport.bus.memory import MemoryBus

        return MemoryBus(store, streams or topology())
    if scheme in ("nats", "tls"):
        with name_missing_extra():
            from fathom.transport.bus.nats.bus import NatsBus

        return await NatsBus.open(url, store, streams or topology())
    raise ConfigError(f"bus_url: unknown scheme {scheme!r}; known: nats, tls, memory", metadata={"field": "bus_url"})
