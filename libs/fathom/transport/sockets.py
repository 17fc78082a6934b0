"""Listening sockets and reserved ports."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fathom.core.errors import FathomError

# The state of a listening socket in /proc/net/tcp.
LISTENING = "0A"


class PortInUse(FathomError):
    """The port is taken; the message names service and port, and who listens where that is known."""

    code, reason = "FAILED_PRECONDITION", "CONFLICT"

    def __init__(self, service: str, host: str, port: int, holder: str = "") -> None:
        by = f" by {holder}" if holder else ""
        super().__init__(
            f"{service} cannot listen on {host}:{port}: the port is in use{by}; "
            "choose another one, or 0 for any (--port 0)",
            metadata={"service": service, "port": str(port)},
        )


def listen(service: str, host: str, port: int) -> socket.socket:
    """Return a bound listening socket; raise ``PortInUse`` naming the service."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise PortInUse(service, host, port, listener_of(port)) from error
    # Connections that wait to be accepted while the event loop is busy.
    listener.listen(128)
    return listener


@contextmanager
def reserved_port(host: str = "127.0.0.1", port: int = 0, service: str = "a service") -> Iterator[int]:
    """Reserve a port for the duration of the context, for a server that may stop and restart on it.

    The socket stays bound and never listens. Any free port is taken unless ``port`` names one. Raise ``PortInUse``,
    which names ``service``, when another process listens on it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as holder:
        if port:  # without it, connections that are about to end would block the port for a minute
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind((host, port))
        except OSError as error:
            raise PortInUse(service, host, port, listener_of(port)) from error
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
