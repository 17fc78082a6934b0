"""Listening sockets and free ports."""

from __future__ import annotations

import random
import socket

from fathom.errors import Overloaded
from fathom.rpc.server import PortInUse

# Below the range from which systems take the source ports of outgoing connections: a port that is free
# now is not taken by chance before its service binds it.
PORTS = range(20_000, 32_000)
ATTEMPTS = 100


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


def free_port(host: str = "127.0.0.1") -> int:
    """A port that is free now, for a child that must come back on the same one."""
    for port in random.sample(PORTS, ATTEMPTS):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise Overloaded(f"no free port on {host} among {ATTEMPTS} tries", retry_after_s=1.0)
