"""The pods' network: a bridge, an address per pod, names that follow who is ready, and virtual addresses."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

SUBNET, NODE, BRIDGE = "10.96", "10.96.0.1", "pods"
# A bridge without a hardware address of its own takes one of its ports', and another when that pod leaves. All other
# pods go on sending to the old one, for a minute or for ever, and what a pod says at its end is lost.
HARDWARE = "02:00:0a:60:00:01"
DOMAIN = "svc.cluster.local"
TTL_S = 5
A, AAAA, IN = 1, 28, 1
NXDOMAIN = 3
Lookup = Callable[[str], Sequence[str] | None]


class Network:
    """Gives pods their addresses; made once per node, inside the node's own namespaces."""

    def __init__(self) -> None:
        self._numbers = itertools.count(2)

    async def start(self) -> None:
        await ip(
            f"link add {BRIDGE} address {HARDWARE} type bridge",
            f"addr add {NODE}/16 dev {BRIDGE}",
            f"link set {BRIDGE} up",
            "link set lo up",
        )

    def address(self) -> str:
        """An address that nothing had before."""
        number = next(self._numbers)
        return f"{SUBNET}.{number >> 8}.{number & 255}"

    async def join(self, name: str, address: str) -> str:
        """Makes a network namespace with this address; gives its file."""
        link = f"v{address.removeprefix(SUBNET)}"
        await ip(f"netns add {name}")
        await ip(
            f"link add {link} type veth peer name eth0 netns {name}",
            f"link set {link} master {BRIDGE} up",
        )
        nsenter = ["nsenter", f"--net=/run/netns/{name}", "ip", "-batch", "-"]
        await run(
            nsenter, f"addr add {address}/16 dev eth0\nlink set eth0 up\nlink set lo up\nroute add default via {NODE}\n"
        )
        return f"/run/netns/{name}"

    async def leave(self, name: str) -> None:
        await ip(f"netns del {name}")

    async def own(self, address: str) -> None:
        """Makes the node answer for an address."""
        await ip(f"addr add {address}/32 dev {BRIDGE}")


async def ip(*lines: str) -> None:
    await run(["ip", "-batch", "-"], "".join(f"{line}\n" for line in lines))


async def run(command: list[str], text: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate(text.encode())
    if process.returncode:
        raise RuntimeError(f"{command}: {errors.decode()}\n{text}")


class Names(asyncio.DatagramProtocol):
    """A name server: A records from ``lookup``; a name without addresses exists, one that it does not know does not."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        self._transport.sendto(answer(data, self._lookup), address)


def answer(query: bytes, lookup: Lookup) -> bytes:
    """The response to one query of one question (RFC 1035)."""
    (identity,) = struct.unpack_from("!H", query)
    labels, place = [], 12
    while size := query[place]:
        labels.append(query[place + 1 : place + 1 + size].decode().lower())
        place += 1 + size
    kind, _ = struct.unpack_from("!HH", query, place + 1)
    question = query[12 : place + 5]
    found = lookup(".".join(labels))
    records = [] if found is None or kind != A else list(found)
    code = NXDOMAIN if found is None else 0
    header = struct.pack("!HHHHHH", identity, 0x8580 | code, 1, len(records), 0, 0)
    body = b"".join(struct.pack("!HHHIH", 0xC00C, A, IN, TTL_S, 4) + socket.inet_aton(record) for record in records)
    return header + question + body


async def serve_names(lookup: Lookup) -> asyncio.DatagramTransport:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: Names(lookup), local_addr=(NODE, 53))
    return transport


async def serve_virtual(address: str, port: int, targets: Callable[[], Sequence[tuple[str, int]]]) -> asyncio.Server:
    """A Service with an address of its own: each connection goes to one of the targets in turn."""
    turns = itertools.count()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = targets()
        if not there:
            writer.close()
            return
        host, target = there[next(turns) % len(there)]
        try:
            onward, backward = await asyncio.open_connection(host, target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, backward), pump(onward, writer))

    return await asyncio.start_server(carry, address, port)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
