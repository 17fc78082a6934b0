"""Listening sockets and reserved ports."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from fathom.rpc.server import PortInUse


def listen(service: str, host: str, port: int) -> socket.socket:
    """A bound listening socket; raises ``PortInUse`` naming the service."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise PortInUse(service, host, port) from error
    listener.listen(128)
    return listener


@contextmanager
def reserved_port(host: str = "127.0.0.1") -> Iterator[int]:
    """A port that nobody else is given while the context lasts, for a server that may come and go on it.

    The socket stays bound and never listens. Once it is bound it allows the address to be reused, so
    that a server which allows it too (gRPC, uvicorn, Go's) can bind and listen beside it; the system
    hands the port neither to a socket bound to port 0 nor to an outgoing connection.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as holder:
        holder.bind((host, 0))
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield holder.getsockname()[1]
