"""Address checks for fetching: only public addresses, resolved once, and connected to as resolved.

A name that is checked and then resolved again can point elsewhere the second time (DNS rebinding). So the name is
resolved here, all its addresses must be allowed, and the connection is made to one of these.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from fathom.core.errors import DependencyFailed, InvalidField

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

# A public address by the registries, but Azure serves its own metadata to its machines there.
METADATA_ADDRESSES = frozenset({ipaddress.ip_address("168.63.129.16")})
# Prefixes of IPv6 that carry an IPv4 address in their last 32 bits: a private one would be reached through a
# public-looking name.
NAT64 = ipaddress.ip_network("64:ff9b::/96")
COMPATIBLE = ipaddress.ip_network("::/96")
# Longer addresses are refused by most servers anyway.
MOST_URL = 2_048


class BlockedAddress(InvalidField):
    """The URL leads to a private, local or metadata address, or to a port that is not allowed."""

    def __init__(self, host: str, message: str) -> None:
        super().__init__("url", f"{host} {message}")


@dataclass(frozen=True)
class Target:
    """Destination of a request: ``address`` is connected to, ``host`` is for the Host header and the certificate."""

    scheme: str
    host: str
    port: int
    path: str
    address: Address

    @property
    def url(self) -> str:
        """Return the URL with the address in place of the host."""
        literal = f"[{self.address}]" if self.address.version == 6 else str(self.address)
        return f"{self.scheme}://{literal}:{self.port}{self.path}"

    @property
    def authority(self) -> str:
        """Return the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"


def split_url(url: str, ports: Sequence[int]) -> tuple[str, str, int, str]:
    """Return scheme, host, port and path with query; raise ``InvalidField("url")`` or ``BlockedAddress``."""
    # Programs differ on what these characters mean in a URL, so the address checked may not be the one fetched.
    if len(url) > MOST_URL or any(ord(char) <= 32 or ord(char) == 127 for char in url) or "\\" in url:
        raise InvalidField("url", "is too long or holds a space, a backslash or a control character")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
        # Names in other scripts are compared and resolved in their ASCII form.
        host = host if ":" in host else host.encode("idna").decode("ascii")
    except ValueError as error:
        raise InvalidField("url", f"cannot be read: {error}") from error
    if parts.scheme not in {"http", "https"}:
        raise InvalidField("url", f"scheme {parts.scheme!r} is neither http nor https")
    if not host:
        raise InvalidField("url", "names no host")
    # "http://public.example@10.0.0.1/" reads like the public host.
    if "@" in parts.netloc:
        raise InvalidField("url", "must not carry a user or a password")
    number = (443 if parts.scheme == "https" else 80) if port is None else port
    if ports and number not in ports:
        raise BlockedAddress(host, f"is asked for on port {number}, which is not allowed")
    return parts.scheme, host.lower(), number, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name, in the system's order; numeric hosts in any notation count as names."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def resolve_target(
    url: str, ports: Sequence[int], allowed: Sequence[Network], resolver: Resolver = resolve
) -> Target:
    """Resolve ``url``; raise ``InvalidField``, ``BlockedAddress``, and ``DependencyFailed`` for unknown names."""
    scheme, host, port, path = split_url(url, ports)
    try:
        texts = await resolver(host, port)
    except (OSError, UnicodeError) as error:
        raise DependencyFailed(host, "its name cannot be resolved") from error
    # A link-local address carries its interface behind a percent sign.
    addresses = [ipaddress.ip_address(text.partition("%")[0]) for text in texts]
    if not addresses:
        raise DependencyFailed(host, "its name has no address")
    # All of them: one bad address among good ones is how a name is rebound.
    for address in addresses:
        if not is_reachable(address, allowed):
            raise BlockedAddress(host, "leads to a private, local or reserved address")
    return Target(scheme, host, port, path, addresses[0])


def is_reachable(address: Address, allowed: Sequence[Network]) -> bool:
    """Return True for a public address, or one in an allowed network; embedded addresses are checked too."""
    if any(address.version == network.version and address in network for network in allowed):
        return True
    # 6to4 was given up (RFC 7526), and Python's versions differ on whether its addresses are public.
    if isinstance(address, ipaddress.IPv6Address) and address.sixtofour is not None:
        return False
    if address in METADATA_ADDRESSES or not address.is_global or address.is_multicast or address.is_reserved:
        return False
    # Without the allowed networks: they are stated for plain addresses only.
    return all(is_reachable(inner, ()) for inner in list_embedded(address))


def list_embedded(address: Address) -> list[Address]:
    """Return the IPv4 addresses embedded in an IPv6 one: mapped, compatible, Teredo, NAT64."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    found: list[Address | None] = [address.ipv4_mapped, *(address.teredo or ())]
    if address in NAT64 or address in COMPATIBLE:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [inner for inner in found if inner is not None]
