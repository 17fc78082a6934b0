"""Listening sockets and reserved ports."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fathom.core.config import ConfigError
from fathom.core.errors import FathomError

# The state of a listening socket in /proc/net/tcp.
LISTENING = "0A"


class PortInUse(FathomError):
    """The port is taken; the message names service and port, and who listens where that is known."""

    code, reason = "FAILED_PRECONDITION", "CONFLICT"

    def __init__(self, service: str, host: str, port: int, holder: str = "") -> None:
        by = f" by {holder}" if holder else ""
        super().__init__(
            f"{service} cannot listen on {format_host(host)}:{port}: the port is in use{by}; "
            "choose another one, or 0 for any (--port 0)",
            metadata={"service": service, "port": str(port)},
        )


def format_host(host: str) -> str:
    """Return a host as it stands before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def family_of(host: str) -> socket.AddressFamily:
    """Return the family of a host's addresses: IPv6 for an address of it, else IPv4."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def bind(listener: socket.socket, service: str, host: str, port: int) -> None:
    """Bind a socket; raise ``PortInUse``, and ``ConfigError`` for an address that cannot be had at all."""
    try:
        listener.bind((host.strip("[]"), port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(service, host, port, listener_of(port)) from error
        cause = error.strerror or str(error)
        message = f"{service} cannot listen on {format_host(host)}:{port}: {cause}"
        raise ConfigError(message, metadata={"field": "host"}) from error


def listen(service: str, host: str, port: int) -> socket.socket:
    """Return a bound listening socket; raise ``PortInUse`` and ``ConfigError`` naming the service."""
    listener = socket.socket(family_of(host), socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bind(listener, service, host, port)
    except FathomError:
        listener.close()
        raise
    # Connections that wait to be accepted while the event loop is busy.
    listener.listen(128)
    return listener


@contextmanager
def reserved_port(host: str = "127.0.0.1", port: int = 0, service: str = "a service") -> Iterator[int]:
    """Reserve a port for the duration of the context, for a server that may stop and restart on it.

    The socket stays bound and never listens. Any free port is taken unless ``port`` names one. Raise ``PortInUse``,
    which names ``service``, when another process listens on it, and ``ConfigError`` for an address that cannot be had.
    """
    with socket.socket(family_of(host), socket.SOCK_STREAM) as holder:
        if port:  # without it, connections that are about to end would block the port for a minute
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bind(holder, service, host, port)
        # Set after the bind: a server that allows reuse too (gRPC, uvicorn, Go's) can then bind and listen beside this
        # socket, but the kernel gives the port neither to a bind to port 0 nor to an outgoing connection.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield holder.getsockname()[1]


def listener_of(port: int) -> str:
    """Return name and id of the process that listens on a TCP port, "" where that cannot be seen (Linux).

    Other users' processes show their sockets to root only.
    """
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
            inodes |= {row[9] for row in rows if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port}
    # Processes come and go while they are listed, and other users' cannot be read: each may fail alone.
    for entry in Path("/proc").glob("[0-9]*/fd/*") if inodes else ():
        with suppress(OSError):
            if entry.readlink().name.removeprefix("socket:[").removesuffix("]") in inodes:
                process = entry.parents[1]
                return f"{(process / 'comm').read_text().strip()}, process {process.name}"
    return ""
