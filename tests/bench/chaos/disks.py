"""Stores that fail: a disk that is full or slow, for the objects or for all that is written, and an S3 service that errs, hangs or breaks off."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from fathom.transport.sockets import reserved_port
from tests.integration.s3_server import serving

FULL, SLOW = "full", "slow"
ERRORS, HANGS, HALF = "store errors", "store hangs", "store answers half"
# Put before a service by ``sitecustomize``: what flushes a file to the disk, and what opens one of the store.
DISK = """
import errno, io, os, pathlib, time
control = os.environ["CHAOS_DISK"]
true_fsync, true_open = os.fsync, pathlib.Path.open

def find_fault():
    try:
        with io.open(control) as file:
            return file.read()
    except FileNotFoundError:
        return ""

def fsync(descriptor):
    fault = find_fault()
    if fault == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    time.sleep(1.0 if fault == "slow" else 0.0)
    return true_fsync(descriptor)

def open_slowly(self, mode="r", *arguments, **named):
    if mode == "rb" and self.name.endswith("~") and find_fault() == "slow":
        time.sleep(0.3)
    return true_open(self, mode, *arguments, **named)

os.fsync, pathlib.Path.open = fsync, open_slowly
"""
# What one run writes, several times over.
VOLUME_BYTES, CHUNK = 1 << 30, b"\0" * (1 << 20)
ERROR_REPLY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Disk:
    """Switch of the faults of the services' disk."""

    def __init__(self, folder: Path) -> None:
        self._control = folder / "disk_fault"

    @property
    def environment(self) -> dict[str, str]:
        return {"CHAOS_DISK": str(self._control)}

    async def fail(self, fault: str, seconds: float) -> None:
        """Let the disk be full or slow for so long."""
        # By a rename: a service never reads half of a word.
        with tempfile.NamedTemporaryFile("w", dir=self._control.parent, delete=False) as file:
            file.write(fault)
        os.replace(file.name, self._control)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._control.unlink()


@contextmanager
def own_volume(folder: Path) -> Iterator[bool]:
    """Give a folder a volume of its own, which can be full for whatever writes to it; yield whether this user may."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={VOLUME_BYTES}", "tmpfs", str(folder)]
    is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            # Lazily: a kernel's namespace may still have it.
            subprocess.run(["umount", "-l", str(folder)], check=False)


async def fill_volume(folder: Path, seconds: float) -> None:
    """Let the volume of a folder be full for so long."""
    ballast = folder / "ballast"
    try:
        await asyncio.to_thread(write_until_full, ballast)
        await asyncio.sleep(seconds)
    finally:
        ballast.unlink()


def write_until_full(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as opened:
        while opened.write(CHUNK):
            pass


class Proxy:
    """A proxy before an S3 service that answers wrongly while ``fault`` says so."""

    def __init__(self, upstream: str) -> None:
        self._upstream, self.fault = upstream, ""
        self._open: set[asyncio.Task[None]] = set()

    async def fail(self, fault: str, seconds: float) -> None:
        """Answer wrongly for so long; connections that are open then end."""
        self.begin(fault)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.begin("")

    def begin(self, fault: str) -> None:
        """Answer so from now on, "" for rightly; connections that are open end."""
        self.fault = fault
        for task in self._open:
            task.cancel()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection, until it ends or is cut."""
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._open.add(task)
        try:
            await asyncio.gather(task, return_exceptions=True)
        finally:
            self._open.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.fault == HANGS:
            await asyncio.Event().wait()
        if self.fault == ERRORS:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ERROR_REPLY)
            await writer.drain()
            return
        host, _, port = self._upstream.rpartition(":")
        upstream_reader, upstream_writer = await asyncio.open_connection(host, int(port))
        try:
            sending = asyncio.ensure_future(copy(reader, upstream_writer))
            await (send_half if self.fault == HALF else copy)(upstream_reader, writer)
            sending.cancel()
        finally:
            upstream_writer.close()

    @asynccontextmanager
    async def running(self, port: int) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self.accept, "127.0.0.1", port)
        try:
            yield self
        finally:
            server.close()
            self.begin("")


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


async def send_half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send the head of an answer and half of its body, or half of the head where there is no body."""
    data = await reader.read(65_536)
    head = data.find(b"\r\n\r\n") + 4
    cut = head + (len(data) - head) // 2 if len(data) > head > 3 else len(data) // 2
    writer.write(data[:cut])
    await writer.drain()


@asynccontextmanager
async def failing_s3(folder: Path) -> AsyncIterator[tuple[str, Proxy]]:
    """Run an S3 service behind a proxy; yield the URL of its bucket through the proxy, and the proxy."""
    with reserved_port() as behind, reserved_port() as before:
        async with serving(folder, f"127.0.0.1:{behind}") as url, Proxy(f"127.0.0.1:{behind}").running(before) as proxy:
            yield url.replace(f":{behind}/", f":{before}/"), proxy
