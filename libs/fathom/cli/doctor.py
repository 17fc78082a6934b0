"""``fathom doctor``: reports what is installed, built and running, and how to fix the rest."""

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
    """One line of the report. ``needed`` is True if the local stack does not work without it."""

    subject: str
    good: bool
    detail: str
    remedy: str = ""
    needed: bool = True


def examine(home: Path) -> int:
    """Print the report; return 0 if nothing required is missing, else 1."""
    return shown([*packages(), *programs(), *asyncio.run(walls()), *bundles(home), *asyncio.run(services(home))])


def examine_serving(urls: Sequence[str]) -> int:
    """Check services elsewhere, e.g. in a cluster; return 0 if every one of these URLs is ready, else 1."""
    return shown(asyncio.run(ready(urls)))


async def ready(urls: Sequence[str]) -> list[Finding]:
    """Check the health of each URL, over HTTP for a gateway."""
    return list(await asyncio.gather(*(page(url) if url.startswith("http") else health(url, url) for url in urls)))


async def page(url: str) -> Finding:
    """Check the readiness of a gateway."""

    def ask() -> str:
        with urllib.request.urlopen(f"{url}/healthz/ready", timeout=5.0) as reply:  # noqa: S310 - from the configuration
            return str(reply.status)

    try:
        return Finding(url, True, await asyncio.to_thread(ask))
    except (OSError, ValueError) as error:
        return Finding(url, False, str(error), "look at the gateway's log")


def shown(findings: Sequence[Finding]) -> int:
    """Print the findings as a table; return the exit status."""
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
    yield Finding("nats-server", bool(found), found or "missing: no bus", "pip install 'fathom[nats-server]'")


async def walls() -> list[Finding]:
    """Build and probe one session of the jail for the model's Python, as the sandbox does when it starts."""
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
    """Verify every checksum of the bundled data."""
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
    """Check the health of the running stack; a stack that is not running is no fault."""
    try:
        endpoints = read_endpoints(home)
    except FathomError as error:
        return [Finding("stack", False, error.message, "fathom up", needed=False)]
    checks = (health(name, url, endpoints.metrics.get(name, "")) for name, url in endpoints.services.items())
    return list(await asyncio.gather(*checks))


async def health(name: str, url: str, metrics: str = "") -> Finding:
    """Health of a service over gRPC, with the address of its metrics where it is known."""
    remedy = f"see the log of {name} (.fathom/logs on this machine), then restart it"
    async with grpc.aio.insecure_channel(url.removeprefix("grpc://")) as channel:
        try:
            request = health_pb2.HealthCheckRequest(service="ready")
            reply = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=2.0)
        except grpc.aio.AioRpcError as error:
            return Finding(name, False, f"{url}: {error.code().name}", remedy)
    state = health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)
    detail = f"{url} {state}" + (f", metrics at {metrics}" if metrics else "")
    return Finding(name, state == "SERVING", detail, remedy)
