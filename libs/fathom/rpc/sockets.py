"""Listening sockets and reserved ports."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from fathom.rpc.server import PortInUse


def listen(service: str, host: str, port: int) -> socket.socket:
    """Return a bound listening socket; raise ``PortInUse`` naming the service."""
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
    """Reserve a free port for the duration of the context, for a server that may stop and restart on it.

    The socket stays bound and never listens.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as holder:
        holder.bind((host, 0))
        # Set after the bind: a server that allows reuse too (gRPC, uvicorn, Go's) can then bind and listen beside this
        # socket, but the kernel gives the port neither to a bind to port 0 nor to an outgoing connection.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield holder.getsockname()[1]
