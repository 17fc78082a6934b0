"""HTTP server for metrics and health, for a process without any other server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, make_wsgi_app

from fathom.core.wsgi import WsgiThread
from fathom.transport.sockets import PortInUse


class Door:
    """Serves ``/metrics`` of a registry, and one path per check in ``health``: 200 if true, 503 if false."""

    def __init__(self, registry: CollectorRegistry, health: Mapping[str, Callable[[], bool]]) -> None:
        self._metrics: Any = make_wsgi_app(registry)
        self._health = dict(health)

    def open(self, name: str, host: str, port: int) -> int:
        """Start serving on a separate thread; return the port, a free one for 0. Raises ``PortInUse``."""
        try:
            self._server = WsgiThread(f"door of {name}", self._answer, host, port)
        except OSError as error:
            raise PortInUse(name, host, port) from error
        return self._server.port

    def close(self) -> None:
        """Stop serving and free the port."""
        self._server.close()

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
