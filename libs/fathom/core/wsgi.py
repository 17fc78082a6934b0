"""A small HTTP server on a thread of its own, for metrics and health of a process."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

App = Callable[[dict[str, Any], Any], Iterable[bytes]]

# Read timeout of a request in seconds: a caller that sends nothing must not hold a thread for ever.
READ_S = 10
# Seconds between two connections that wake the server to see that it shall stop.
WAKE_S = 0.02


class _Server(ThreadingMixIn, WSGIServer):
    """WSGI server with one thread per request, so that a slow scrape does not delay a probe."""

    daemon_threads = True


class _Ipv6Server(_Server):
    """The same on an IPv6 address."""

    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    """Request handler that does not log probes and scrapes."""

    timeout = READ_S

    def log_message(self, format: str, *args: Any) -> None:
        return


class WsgiThread:
    """Serves a WSGI application from a daemon thread until ``close``."""

    def __init__(self, name: str, app: App, host: str, port: int) -> None:
        """Listen and begin to serve; raise ``OSError`` where the port is taken. Port 0 stands for a free one."""
        self._server = make_server(host, port, app, _Ipv6Server if ":" in host else _Server, _QuietHandler)
        self._host, self.port = host, int(self._server.server_port)
        self._thread = threading.Thread(target=self._server.serve_forever, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving and free the port."""
        # shutdown() sets a flag that the server reads only between two of its waits of half a second, which made
        # every stop of the local stack three seconds longer: a connection of our own ends the wait.
        ending = threading.Thread(target=self._server.shutdown)
        ending.start()
        while ending.is_alive():  # again, should a connection have arrived before the flag was set
            with contextlib.suppress(OSError):
                socket.create_connection((self._host, self.port), timeout=1.0).close()
            ending.join(WAKE_S)
        # In this order: shutdown returns when serve_forever has ended, and only then may the socket be closed.
        self._server.server_close()
        self._thread.join()
