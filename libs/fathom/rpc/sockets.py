"""Listening sockets and free ports."""

from __future__ import annotations

import socket

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


def free_port(host: str = "127.0.0.1") -> int:
    """A port that was free a moment ago, for a child that must come back on the same one."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
