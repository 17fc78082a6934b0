"""Targets of the isolation probe, which the supervisor sets up outside the jail, and the code that a worker runs."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

# Every line of its output is one thing that must have failed, or a fact; judged by ``probe.find_breaches``.
PROBE = """
import os, socket
def attempt(name, action):
    try:
        action()
    except BaseException as error:
        print(name, "refused", type(error).__name__)
    else:
        print(name, "went through")
def connect(family, address):
    with socket.socket(family) as peer:
        peer.settimeout(1)
        peer.connect(address)
attempt("read", lambda: print("canary", open({canary!r}).read()))
attempt("write", lambda: open({canary!r}, "a").write("x"))
attempt("tcp", lambda: connect(socket.AF_INET, ("127.0.0.1", {port})))
attempt("unix", lambda: connect(socket.AF_UNIX, {unix!r}))
attempt("abstract", lambda: connect(socket.AF_UNIX, chr(0) + {abstract!r}))
attempt("signal", lambda: os.kill({supervisor}, 0))
attempt("parent", lambda: os.kill(os.getppid(), 0))
attempt("limits", lambda: __import__("resource").prlimit({supervisor}, 7))
attempt("tables", lambda: open("/proc/self/net/tcp").read())
attempt("outside", lambda: open("/proc/version").read())
attempt("root", lambda: os.mkdir("/fathom-probe"))
attempt("ptrace", lambda: __import__("ctypes").CDLL(None, use_errno=True).ptrace(0, 0, 0, 0) and 1 / 0)
print("runtime", "readable" if os.access(os.__file__, os.R_OK) else "hidden")
open("probe", "w").write("x")
print("scratch", "written")
"""


@dataclass
class Canary:
    """A file and three listeners outside the jail that no session may reach."""

    folder: str
    secret: str
    port: int
    abstract: str
    visits: int = 0

    @property
    def file(self) -> str:
        return f"{self.folder}/canary"

    @property
    def unix(self) -> str:
        return f"{self.folder}/socket"


def write_canary_file(canary: Canary) -> None:
    """Create the canary file, readable and writable for everybody by its mode."""
    Path(canary.file).write_text(canary.secret)
    os.chmod(canary.file, 0o666)


@asynccontextmanager
async def open_canary() -> AsyncIterator[Canary]:
    """Provide the file and the listeners, which count their visitors, for the duration of the context."""
    with tempfile.TemporaryDirectory(prefix="fathom-canary-") as folder:
        # Its modes let everybody in, so that only a wall can keep a cell out.
        os.chmod(folder, 0o755)
        canary = Canary(folder, secrets.token_hex(16), 0, f"fathom-{secrets.token_hex(8)}")
        write_canary_file(canary)

        async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            canary.visits += 1
            writer.close()

        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(f"\0{canary.abstract}")
        servers = [
            await asyncio.start_server(visit, "127.0.0.1", 0),
            await asyncio.start_unix_server(visit, canary.unix),
            await asyncio.start_unix_server(visit, sock=abstract),
        ]
        os.chmod(canary.unix, 0o666)
        canary.port = servers[0].sockets[0].getsockname()[1]
        try:
            yield canary
        finally:
            for server in servers:
                server.close()
