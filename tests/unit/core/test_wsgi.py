"""The small HTTP server of metrics and health."""

import socket
import urllib.request

import pytest

from fathom.core.wsgi import WsgiThread


def answer(environ, start):
    start("200 OK", [("Content-Type", "text/plain")])
    return [environ["PATH_INFO"].encode()]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_it_serves_until_it_is_closed(host):
    try:
        server = WsgiThread("test", answer, host, 0)
    except OSError:
        pytest.skip(f"{host} is not an address of this machine")
    shown = f"[{host}]" if ":" in host else host
    with urllib.request.urlopen(f"http://{shown}:{server.port}/metrics", timeout=10) as response:
        assert response.read() == b"/metrics"
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, server.port), timeout=10)


def test_a_taken_port_is_an_error_of_the_system():
    server = WsgiThread("first", answer, "127.0.0.1", 0)
    try:
        with pytest.raises(OSError, match="Address already in use"):
            WsgiThread("second", answer, "127.0.0.1", server.port)
    finally:
        server.close()


def test_closing_does_not_wait_for_the_servers_next_look_at_its_flag(monkeypatch):
    # serve_forever looks at the flag of shutdown() between two waits: with a wait of ten minutes only a connection
    # can end it, and a close that relied on the wait would never return.
    monkeypatch.setattr("socketserver.BaseServer.serve_forever.__defaults__", (600.0,))
    server = WsgiThread("patient", answer, "127.0.0.1", 0)
    server.close()
    assert not server._thread.is_alive()
