"""The NATS servers of a rendered chart as processes on this machine: same configuration, environment and options."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fathom.transport.bus.nats.server import find_binary
from fathom.transport.lifetime import ending_with_parent
from fathom.transport.sockets import reserved_port
from tests.chart.rendering import Document, by_key

DOORS = (4222, 6222, 8222)
"""Ports of clients, routes and monitoring."""


@dataclass(frozen=True)
class Servers:
    """Started servers: ports by ordinal and number in the chart, and the folder with the certificates."""

    ports: tuple[Mapping[int, int], ...]
    folder: Path


def certificates(folder: Path) -> None:
    """An authority and one certificate of it for 127.0.0.1, for servers and clients."""
    folder.mkdir(parents=True)
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    new = ["-newkey", "rsa:2048", "-nodes", "-days", "2"]
    for arguments in (
        ["req", "-x509", *new, "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt"],
        ["req", *new[:-2], "-subj", "/CN=nats", "-keyout", "tls.key", "-out", "tls.csr"],
        [
            "x509",
            "-req",
            "-in",
            "tls.csr",
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "names",
            "-out",
            "tls.crt",
        ],
    ):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


def environment(container: Document, secrets: Mapping[str, str], pod: str) -> dict[str, str]:
    """As a kubelet makes it: secrets, fields, and $(NAME) put in where NAME stands before."""
    found: dict[str, str] = {}
    for variable in container["env"]:
        source = variable.get("valueFrom", {})
        if "secretKeyRef" in source:
            found[variable["name"]] = secrets[source["secretKeyRef"]["key"]]
        elif "fieldRef" in source:
            found[variable["name"]] = pod
        elif "value" in variable:
            found[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda m: found.get(m[1], m[0]), variable["value"])
    return found


@asynccontextmanager
async def running(documents: tuple[Document, ...], secrets: Mapping[str, str], folder: Path) -> AsyncIterator[Servers]:
    """Every pod of NATS's StatefulSet, with its folders and ports instead of volumes and addresses."""
    (name,) = [name for kind, name in by_key(documents) if kind == "StatefulSet" and name.endswith("-nats")]
    found = by_key(documents)
    workload, text = found["StatefulSet", name]["spec"], found["ConfigMap", name]["data"]["nats.conf"]
    container = workload["template"]["spec"]["containers"][0]
    certificates(folder / "tls")
    async with AsyncExitStack() as stack:
        ports = tuple(
            {door: stack.enter_context(reserved_port()) for door in DOORS} for _ in range(workload["replicas"])
        )
        for ordinal, mine in enumerate(ports):
            environ = environment(container, secrets, f"{name}-{ordinal}")
            for other, theirs in enumerate(ports):
                host = f"{name}-{other}.{name}:6222"
                environ["ROUTES"] = environ.get("ROUTES", "").replace(host, f"127.0.0.1:{theirs[6222]}")
            own = text.replace("/etc/nats-tls", str(folder / "tls")).replace("/data", str(folder / f"data-{ordinal}"))
            for door, port in mine.items():
                own = re.sub(rf"port: {door}\b", f"port: {port}", own)
            path = folder / f"{ordinal}.conf"
            path.write_text(own)
            await stack.enter_async_context(run_server(path, environ, folder / f"{ordinal}.log"))
        yield Servers(ports, folder)


@asynccontextmanager
async def run_server(config: Path, environ: Mapping[str, str], log: Path) -> AsyncIterator[None]:
    """Run one server; what it says goes to ``log``."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *ending_with_parent([find_binary(), "--config", str(config), "-a", "127.0.0.1"]),
            env={**os.environ, **environ}, stdout=output, stderr=output,
        )  # fmt: skip
        try:
            yield
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
