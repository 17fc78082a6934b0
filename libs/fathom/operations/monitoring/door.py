"""HTTP server for metrics and health, for a process without any other server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from fathom.transport.sockets import PortInUse

# Read timeout of a request in seconds.
READ_S = 10


class Server(ThreadingMixIn, WSGIServer):
    """WSGI server with one thread per request, so that a slow scrape does not delay a probe."""

    daemon_threads = True


class Quiet(WSGIRequestHandler):
    """Request handler that does not log probes and scrapes."""

    timeout = READ_S

    def log_message(self, format: str, *args: Any) -> None:
        return


class Door:
    """Serves ``/metrics`` of a registry, and one path per check in ``health``: 200 if true, 503 if false."""

    def __init__(self, registry: CollectorRegistry, health: Mapping[str, Callable[[], bool]]) -> None:
        self._metrics: Any = make_wsgi_app(registry)
        self._health = dict(health)

    def open(self, name: str, host: str, port: int) -> int:
        """Start serving on a separate thread; return the port, a free one for 0. Raises ``PortInUse``."""
        try:
            self._server = make_server(host, port, self._answer, Server, Quiet)
        except OSError as error:
            raise PortInUse(name, host, port) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name=f"door of {name}", daemon=True)
        self._thread.start()
        return self._server.server_port

    def close(self) -> None:
        # In this order: shutdown returns when serve_forever has ended, and only then may the socket be closed.
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            found: Iterable[bytes] = self._metrics(environ, start)
            return found
        status, said = "404 Not Found", b"no such path\n"
        if path in self._health:
            well = self._health[path]()
            status, said = ("200 OK", b"ok\n") if well else ("503 Service Unavailable", b"not now\n")
        # A new list each time: wsgiref adds its own headers to the one that it is given.
        start(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(said)))])
        return [said]
