"""Host for services: builds their dependencies, serves them, warms them up and drains them.

``main`` is the whole ``__main__`` of a service; ``fathom.services.local`` hosts all of them in one process with the
same ``hosting``.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TextIO
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from fathom.clients import Clients
from fathom.core.admission import QuotaSetting
from fathom.core.admission.quota import NAME_PATTERN
from fathom.core.call import Lane
from fathom.core.config import ConfigError, Settings, load
from fathom.core.errors import FathomError
from fathom.core.identity import LIFETIME_S, SETTING, Tokens, service_credentials
from fathom.core.library_logs import library_logs
from fathom.core.retry import RetryPolicy
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.starting import wait_for_bus
from fathom.transport.bus.base import Closable
from fathom.transport.bus.streams import ACK_WAIT_S, LEAST_EVENT_BYTES, MAX_EVENT_BYTES, topology
from fathom.transport.lifetime import end_with_parent
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.door import OpenDoor, TokenDoor
from fathom.transport.rpc.idempotency import MAX_BYTES
from fathom.transport.rpc.mount import mount
from fathom.transport.rpc.server import GrpcServer
from fathom.transport.rpc.service import Service
from fathom.transport.sockets import format_host
from fathom.transport.store import open_store
from fathom.transport.tls import SETTING as TLS_SETTING
from fathom.transport.tls import VARIABLE as TLS_VARIABLE
from fathom.transport.tls import Certificates

Build = Callable[[Any, Deps], Any]
Host = Callable[[Any, Deps, "Runtime"], AbstractAsyncContextManager[Any]]


def strip_brackets(host: str) -> str:
    """Return an IPv6 address without the brackets that URLs put around it."""
    return host.removeprefix("[").removesuffix("]")


class Runtime(Settings):
    """Addresses a service listens on and connects to; section ``runtime``, ``FATHOM_RUNTIME_*``."""

    host: Annotated[str, AfterValidator(strip_brackets)] = "127.0.0.1"
    """Address to listen on, e.g. ::1; pods use 0.0.0.0."""
    port: int = 0
    """Port to listen on; 0 picks any free one."""
    identity_file: str = ""
    """File with the Ed25519 keys, in PEM, by which services and their callers prove who they are.

    The first private key signs; tokens of all keys, also of public ones, are accepted. Empty leaves callers
    unidentified, which only services that listen on loopback may do. ``fathom identity keys`` makes them.
    """
    token_lifetime_s: float = Field(default=LIFETIME_S, ge=10, le=3600)
    """Seconds for which the token that a service shows to another one is valid."""
    tls_dir: str = ""
    """Folder with ``tls.crt``, ``tls.key`` and ``ca.crt``, as cert-manager mounts them, read again when they change.

    A service then speaks mutual TLS: it shows its certificate, and admits callers with one of the same authority. Its
    calls to ``grpcs://`` endpoints do likewise. Empty leaves connections in plain text.
    """
    tls_required: bool = False
    """Refuse to listen beyond loopback, and to call other machines, without certificates."""
    health_port: int = -1
    """Port of gRPC health without TLS, for probes that have no certificate; 0 picks any free one, -1 opens none."""
    metrics_port: int = -1
    """Port of ``/metrics``; 0 picks any free one, -1 disables it."""
    bus_url: str = "memory://"
    """``nats://host:port``, or ``memory://`` for a service that runs alone."""
    bus_wait_s: float = Field(default=0.0, ge=0)
    """Seconds that the start waits for a bus that does not answer; then the process ends with the reason."""
    ack_wait_s: float = Field(default=ACK_WAIT_S, gt=0)
    """Seconds without a heartbeat after which a message taken from the bus is redelivered to another process.

    All processes of a bus must use the same value and send heartbeats well within it.
    """
    event_bytes: int = Field(default=MAX_EVENT_BYTES, ge=LEAST_EVENT_BYTES)
    """Bytes of the events of all runs together, which the bus keeps for a day at most.

    Above it the oldest go; a reader that asks for them is told so, and the record of an ended run stays. A server of
    the bus sets as much of its storage aside. All processes of a bus must use the same value.
    """
    store_url: str = "memory://"
    """``file:///dir``, ``s3://key:secret@host:port/bucket`` or ``memory://``."""
    endpoints: Mapping[str, str] = Field(default_factory=dict)
    """URL by service name, e.g. ``{"retrieval": "nats://"}``."""
    quotas: Mapping[Annotated[str, StringConstraints(pattern=NAME_PATTERN)], QuotaSetting] = Field(default_factory=dict)
    """Quotas by name, e.g. ``{"tenant.acme": {"running": 4}}``; ``fathom quota set`` changes one while services run."""
    log_level: str = "info"
    """debug, info, warning or error."""
    log_format: str = "json"
    """json or console."""
    otlp_endpoint: str = ""
    """OTLP/gRPC endpoint for traces; empty exports none."""
    call_attempts: int = Field(default=10, ge=1)
    """Maximum attempts for a call to another service; 20 attempts take half a minute, which a pod may need to move."""
    idempotency_bytes: int = Field(default=MAX_BYTES, ge=0)
    """Bytes of replies that are held, for ten minutes at most, to answer repeated requests."""
    grace_s: float = 5.0
    """Seconds that running calls get to finish on shutdown."""
    die_with_parent: bool = False
    """End when the parent process ends for any reason; used for the children of a local stack."""


@dataclass(frozen=True)
class Hosted:
    """A running service and the tasks that watch it."""

    name: str
    url: str
    dispatcher: Dispatcher
    warm: asyncio.Task[None]
    """Task of the warm-up; it ends with its error when the warm-up fails."""
    metrics_port: int
    following: asyncio.Task[None]
    """Task that ends with an error when the service can no longer be used."""
    health_port: int = -1
    """Port of health without TLS; -1 without one."""


@asynccontextmanager
async def dependencies(
    name: str, runtime: Runtime, log: TextIO | None = None, *, lane: Lane = Lane.INTERACTIVE
) -> AsyncIterator[Deps]:
    """Open telemetry, store, bus and clients as configured by ``runtime``; close them in reverse order.

    Telemetry logs to ``log``, by default stderr. ``lane`` applies to calls that are not made while handling another
    one.
    """
    telemetry = Telemetry(
        name,
        log_level=runtime.log_level,
        log_format=runtime.log_format,
        otlp_endpoint=runtime.otlp_endpoint,
        stream=log,
    )
    tokens = Tokens.open(runtime.identity_file, runtime.token_lifetime_s)
    certificates = Certificates.open(runtime.tls_dir)
    if runtime.tls_required:
        require_tls(name, runtime)
    if certificates is not None:
        watch_certificate(telemetry, certificates)
    store = open_store(runtime.store_url)
    try:
        streams = topology(ack_wait_s=runtime.ack_wait_s, event_bytes=runtime.event_bytes)
        bus = await wait_for_bus(runtime.bus_url, store, telemetry.log, streams=streams, patience_s=runtime.bus_wait_s)
        try:
            policy = RetryPolicy(attempts=runtime.call_attempts)
            credentials = service_credentials(tokens, name)
            clients = Clients(
                runtime.endpoints,
                telemetry,
                bus=bus,
                policy=policy,
                lane=lane,
                credentials=credentials,
                certificates=certificates,
            )
            try:
                quotas = {key: setting.to_quota() for key, setting in runtime.quotas.items()}
                yield Deps(clients, store, bus, telemetry, tokens, certificates, quotas)
            finally:
                await clients.close()
        finally:
            await bus.close()
    finally:
        await store.close()
        telemetry.close()


@asynccontextmanager
async def hosting(service: Service, deps: Deps, runtime: Runtime) -> AsyncIterator[Hosted]:
    """Serve over gRPC at once and over the bus after the warm-up; drain on exit.

    Health is NOT_SERVING until ``warm_up`` returns and again while draining. ``Hosted.warm`` ends with the warm-up's
    error when it fails. Raises ``PortInUse``, and ``ConfigError`` where callers from elsewhere would not be identified.
    """
    if deps.tokens is None:
        require_loopback(service.name, runtime.host, SETTING)
    door = OpenDoor() if deps.tokens is None else TokenDoor(service.name, deps.tokens)
    dispatcher = Dispatcher(service, deps.telemetry, door=door, idempotency_bytes=runtime.idempotency_bytes)
    server = GrpcServer(dispatcher, runtime.host, runtime.port, deps.certificates, runtime.health_port)
    subscriptions: list[Closable] = []

    async def warm_up() -> None:
        await service.warm_up()
        dispatcher.ready = True
        # Only now: a queue group sends a request to any member, so that a service that is still loading would get its
        # share.
        subscriptions.extend(await mount(dispatcher, deps.bus))
        await server.set_serving(True)
        deps.telemetry.log.info("serving", url=url)

    async def follow() -> None:
        # A service that is not warm must not report itself healthy; shielded, since ending this task must not end the
        # warm-up.
        await asyncio.shield(warm)
        async for able in service.changes():
            dispatcher.ready = able
            await server.set_serving(able)
            deps.telemetry.log.info("serving again" if able else "not serving", url=url)

    await server.start()
    url = f"{'grpc' if deps.certificates is None else 'grpcs'}://{format_host(runtime.host)}:{server.port}"
    metrics_port = runtime.metrics_port
    if metrics_port >= 0:
        metrics_port = deps.telemetry.serve_metrics(runtime.host, metrics_port)
    warm = asyncio.create_task(warm_up(), name=f"warm-up {service.name}")
    following = asyncio.create_task(follow(), name=f"health of {service.name}")
    try:
        yield Hosted(service.name, url, dispatcher, warm, metrics_port, following, server.health_port)
    finally:
        for task in (following, warm):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        # The bus first: its callers find another replica at once, gRPC's see NOT_SERVING and drain.
        await server.leave()
        await asyncio.gather(*(subscription.close() for subscription in subscriptions))
        ends = time.monotonic() + runtime.grace_s
        await within(ends, service.drain())
        await asyncio.gather(server.stop(max(0.0, ends - time.monotonic())), within(ends, service.finish()))
        dispatcher.ready = False
        await service.close()
        deps.telemetry.log.info("stopped")


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def require_tls(name: str, runtime: Runtime) -> None:
    """Raise ``ConfigError`` for an address or an endpoint beyond this machine that would be in plain text."""
    if not runtime.tls_dir and not is_loopback(runtime.host):
        raise ConfigError(
            f"{TLS_SETTING}: {name} listens on {runtime.host} and runtime.tls_required is set: set {TLS_SETTING} "
            f"({TLS_VARIABLE}), or listen on 127.0.0.1",
            metadata={"field": TLS_SETTING},
        )
    for service, url in runtime.endpoints.items():
        parts = urlsplit(url)
        hosts = [target.rpartition(":")[0] for target in parts.netloc.split(",") if target]
        if parts.scheme == "grpc" and not all(is_loopback(host) for host in hosts):
            field = f"runtime.endpoints.{service}"
            raise ConfigError(
                f"{field}: {url} is in plain text and runtime.tls_required is set: use grpcs://",
                metadata={"field": field},
            )


def watch_certificate(telemetry: Telemetry, certificates: Certificates) -> None:
    """Export until when the certificate is valid, for an alert before that."""
    telemetry.export_value(
        "fathom_certificate_expiry_timestamp_seconds",
        "End of the certificate's validity.",
        lambda: certificates.current().ends,
    )


def require_loopback(name: str, host: str, setting: str) -> None:
    """Raise ``ConfigError``, which names the missing setting, for an address that others than this machine reach."""
    if not is_loopback(host):
        variable = "FATHOM_" + setting.upper().replace(".", "_")
        raise ConfigError(
            f"{setting}: {name} listens on {host}, beyond this machine, and would not know its callers: set {setting} "
            f"({variable}), or listen on 127.0.0.1",
            metadata={"field": setting},
        )


async def within(ends: float, work: Awaitable[None]) -> None:
    """Await ``work``; cancel it at ``ends`` (monotonic seconds)."""
    try:
        # One moment for all steps of the shutdown together: Kubernetes kills the pod after its grace period, however
        # it was spent.
        async with asyncio.timeout(max(0.0, ends - time.monotonic())):
            await work
    except TimeoutError:
        return


async def wait_for_signal(*duties: asyncio.Task[None]) -> None:
    """Return on SIGINT or SIGTERM; raise when one of the duties fails."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    waiting = asyncio.create_task(stop.wait())
    left = set(duties)
    while not waiting.done():
        # A duty may end well, as the warm-up does; it is then left out, or the loop would spin.
        done, _ = await asyncio.wait({waiting, *left}, return_when=asyncio.FIRST_COMPLETED)
        for duty in done & left:
            duty.result()
        left -= done
    waiting.cancel()


def arguments(name: str, argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m fathom.services.{name}", description=f"Runs the {name} service.")
    parser.add_argument("--config", type=Path, help="YAML file with sections 'runtime' and the service's own")
    return parser.parse_args(argv)


def main(name: str, config: type[Settings], build: Build, argv: list[str] | None = None) -> None:
    """Run one gRPC service until SIGTERM; exit with status 1 and a one-line message on a ``FathomError``."""
    run_or_exit(name, lambda: run(name, config, build, argv, hosting))


def main_http(name: str, config: type[Settings], build: Build, argv: list[str] | None = None) -> None:
    """Run one HTTP service until SIGTERM; exits like ``main``.

    A service is an object with ``name``, ``app``, ``is_open``, ``warm_up`` and ``close``.
    """
    run_or_exit(name, lambda: run(name, config, build, argv, hosting_http))


async def run(name: str, config: type[Settings], build: Build, argv: list[str] | None, host: Host) -> None:
    """Load the settings, open the dependencies and serve; return when the process is asked to stop."""
    options = arguments(name, argv)
    runtime, settings = load(Runtime, "runtime", file=options.config), load(config, name, file=options.config)
    # Before anything is opened: the parent may be gone already.
    if runtime.die_with_parent:
        end_with_parent()
    async with dependencies(name, runtime) as deps:
        with library_logs(deps.telemetry.log, runtime.log_level):
            async with host(build(settings, deps), deps, runtime) as hosted:
                await wait_for_signal(hosted.warm, hosted.following)


@dataclass(frozen=True)
class HostedHttp:
    """A running HTTP service and the tasks that watch it."""

    name: str
    url: str
    warm: asyncio.Task[None]
    following: asyncio.Task[None]


@asynccontextmanager
async def hosting_http(service: Any, deps: Deps, runtime: Runtime) -> AsyncIterator[HostedHttp]:
    """Serve ``service.app`` with uvicorn in this event loop; drain on exit.

    Raises ``PortInUse``.
    """
    import uvicorn

    from fathom.transport.sockets import listen

    if service.is_open:
        require_loopback(service.name, runtime.host, "gateway.api_keys_file")
    listener = listen(service.name, runtime.host, runtime.port)
    settings = uvicorn.Config(
        service.app,
        # Logs are the service's own, as JSON lines; the server must not configure the root logger.
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=int(runtime.grace_s),
    )
    server = uvicorn.Server(settings)
    await service.warm_up()
    # serve() would install its own signal handlers; signals belong to the host.
    serving = asyncio.create_task(server._serve([listener]), name=f"http {service.name}")
    port = listener.getsockname()[1]
    try:
        yield HostedHttp(service.name, f"http://{format_host(runtime.host)}:{port}", serving, serving)
    finally:
        # The service first: it ends its open event streams, which the server would wait for.
        await service.close()
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
        listener.close()


def run_or_exit(name: str, program: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine function on uvloop; a ``FathomError`` becomes one line on stderr and exit status 1."""
    import uvloop

    try:
        uvloop.run(program())
    except FathomError as error:
        print(f"{name}: {error.message} [{error.reason}]", file=sys.stderr)
        raise SystemExit(1) from error
    except KeyboardInterrupt:
        # 128 + SIGINT, as shells expect.
        raise SystemExit(130) from None
