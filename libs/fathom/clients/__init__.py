"""Typed async clients, one per service; the URL's scheme chooses the transport.

``grpc://host:port`` carries every kind of call, ``nats://host:port`` unary ones,
``inproc://service`` runs the servicer in this process through the same interceptors.
"""

from fathom.clients.connect import Clients, connect
from fathom.core.retry import RetryPolicy

__all__ = ["Clients", "RetryPolicy", "connect"]
