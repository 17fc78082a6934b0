"""Reserved ports: a server comes and goes on one while nobody else is given it."""

from __future__ import annotations

import socket

import grpc
import pytest

from fathom.core.config import ConfigError
from fathom.transport.sockets import PortInUse, format_host, listen, reserved_port


def test_a_server_comes_back_on_the_port_it_had() -> None:
    with reserved_port() as port:
        for _ in range(3):
            listener = listen("gateway", "127.0.0.1", port)
            with socket.create_connection(("127.0.0.1", port)) as client:
                assert client.getpeername() == listener.getsockname()
            listener.close()


async def test_grpc_serves_on_a_reserved_port() -> None:
    with reserved_port() as port:
        for _ in range(3):
            server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
            assert server.add_insecure_port(f"127.0.0.1:{port}") == port
            await server.start()
            await server.stop(0)


def test_no_two_reservations_and_no_automatic_port_are_the_same() -> None:
    with reserved_port() as first, reserved_port() as second:
        taken = set()
        for _ in range(2000):
            with socket.socket() as other:
                other.bind(("127.0.0.1", 0))
                taken.add(other.getsockname()[1])
        assert first != second
        assert not {first, second} & taken


def test_a_plain_bind_on_a_reserved_port_is_refused() -> None:
    with reserved_port() as port, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))


def test_two_servers_never_share_a_reserved_port() -> None:
    with reserved_port() as port:
        listener = listen("gateway", "127.0.0.1", port)
        with pytest.raises(PortInUse, match="gateway"):
            listen("gateway", "127.0.0.1", port)
        listener.close()


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_an_ipv6_address_is_listened_on(host: str) -> None:
    with reserved_port(host) as port:
        listener = listen("gateway", host, port)
        with socket.create_connection(("::1", port)) as client:
            assert client.getpeername() == listener.getsockname()
        listener.close()
    assert format_host(host) == "[::1]"


# Reserved for documentation (RFC 5737 and 3849): no machine has them.
@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
def test_an_address_of_no_interface_is_not_called_a_port_in_use(host: str) -> None:
    with pytest.raises(ConfigError, match=r"gateway cannot listen on .*: Cannot assign"):
        listen("gateway", host, 0)
    with pytest.raises(ConfigError, match="Cannot assign"), reserved_port(host):
        pass
