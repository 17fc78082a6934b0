"""Local stack on one machine: a real nats-server, and every service on its own port.

By default the services share one process, except policy and the sandbox's supervisor and kernels. With ``processes``
each service is a process, restarted a bounded number of times when it dies. Everything started is stopped in reverse
order, and nothing outlives the stack.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fathom.clients.local import LocalEndpoints
from fathom.core.config import Settings, load
from fathom.core.errors import DependencyFailed
from fathom.hosting.host import Runtime, dependencies, hosting, hosting_http
from fathom.services.home import claim_layout, hold_home
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.sockets import reserved_port
from fathom.transport.store.folder_files import remove_orphans

# Started in this order, stopped in reverse. Those that only others call come first.
ORDER = ("retrieval", "datafetch", "memory", "reward", "sandbox", "policy", "planner", "gateway")
OWN_PROCESS = frozenset({"policy"})
UNARY = frozenset({"retrieval", "datafetch", "memory", "reward"})
# A service that fails at start would otherwise be restarted forever; one crash now and then is absorbed.
RESTARTS, RESTART_WINDOW_S = 5, 60.0

Report = Callable[[str, str], None]


class LocalSettings(Settings):
    """Settings of the local stack; section ``local``, ``FATHOM_LOCAL_*``."""

    home: Path = Path(".fathom")
    """Folder for data, store, streams, models, logs, ``endpoints.json`` and ``metrics_targets.json``."""
    processes: bool = False
    """One process per service."""
    gateway_port: int = 8080
    """Port of the page; 0 takes any free one."""
    config: Path | None = None
    """YAML file with the services' own sections."""
    ready_timeout_s: float = 60.0
    """Longest start of the services in seconds, until all are ready."""
    log_level: str = "info"
    """Level of the services' logs, which go to ``home/logs``."""
    models: Mapping[str, Any] | None = None
    """Policy's models instead of its own default, e.g. ``{"rules": {"engine": "rules"}}``."""
    store: str = ""
    """URL of the object store; empty means the folder ``home/store``."""


@dataclass(frozen=True)
class Endpoints:
    """Addresses and process ids of the stack, written to ``endpoints.json``."""

    services: Mapping[str, str]
    gateway: str
    nats: str
    store: str
    pid: int
    pids: Mapping[str, int]
    metrics: Mapping[str, str]
    """URL of ``/metrics`` by service; each service has its own, even in a shared process."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


class Child:
    """A service in its own process, restarted when it dies, at most ``RESTARTS`` times a minute."""

    def __init__(self, name: str, environ: Mapping[str, str], log: Path, config: Path | None = None) -> None:
        self.name, self._environ, self._log = name, dict(environ), log
        self._arguments = () if config is None else ("--config", str(config))
        self._process: asyncio.subprocess.Process | None = None
        self._starts: list[float] = []
        self._watching: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Return the id of the current process; raise ``DependencyFailed`` when it is not running."""
        if self._process is None:
            raise DependencyFailed(self.name, "is not running")
        return self._process.pid

    async def start(self) -> None:
        await self._spawn()
        self._watching = asyncio.create_task(self._watch(), name=f"watch {self.name}")

    async def _spawn(self) -> None:
        self._starts.append(time.monotonic())
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", f"fathom.services.{self.name}", *self._arguments, env=self._environ, stdout=log,
                stderr=log, stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    async def _watch(self) -> None:
        while True:
            assert self._process is not None
            status = await self._process.wait()
            recent = [start for start in self._starts if time.monotonic() - start < RESTART_WINDOW_S]
            if len(recent) > RESTARTS:
                tail = self._log.read_text(errors="replace")[-400:].strip()
                raise DependencyFailed(self.name, f"ended {len(recent)} times within a minute ({status}): {tail}")
            await asyncio.sleep(0.1 * len(recent))
            await self._spawn()

    @property
    def failure(self) -> asyncio.Task[None]:
        """Return a task that ends only with an error, when the service has been restarted too often."""
        assert self._watching is not None
        return self._watching

    async def stop(self, grace_s: float) -> None:
        """Send SIGTERM, then SIGKILL after ``grace_s`` seconds."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


class LocalStack:
    """The stack; use ``async with LocalStack(settings).running() as endpoints``."""

    def __init__(self, settings: LocalSettings, report: Report = lambda name, state: None) -> None:
        self._settings, self._report = settings, report
        self._home = settings.home.resolve()
        self._children: list[Child] = []
        self._warming: dict[str, asyncio.Task[None]] = {}
        self._duties: list[asyncio.Task[None]] = []
        self._nats: NatsServer | None = None
        self._grpc_urls: dict[str, str] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Endpoints]:
        """Start the stack and yield its endpoints once it is ready.

        Raise a typed error that names the service that failed. Raises ``Conflict`` when a stack runs in this home
        already, ``FailedPrecondition`` when a newer Fathom wrote it, and ``PortInUse``, all before anything is started.
        """
        async with AsyncExitStack() as stack:
            stack.enter_context(hold_home(self._home))
            claim_layout(self._home)
            written = self._home / "endpoints.json"
            targets = self._home / "metrics_targets.json"
            for file in (written, targets):
                file.unlink(missing_ok=True)  # that of a stack that was killed
            for folder in ("store", "nats", "logs", "data", "models"):
                (self._home / folder).mkdir(parents=True, exist_ok=True)
            await asyncio.to_thread(remove_orphans, self._home / "store")
            ports = self._reserve(stack)
            nats = self._nats = await stack.enter_async_context(NatsServer(self._home / "nats"))
            keeping = asyncio.create_task(nats.keep_up(), name="watch nats")
            stack.callback(keeping.cancel)
            self._report("nats", nats.url)
            metrics = {name: stack.enter_context(reserved_port()) for name in ORDER if name != "gateway"}
            gateway = f"http://127.0.0.1:{ports['gateway']}"
            grpc_urls = {name: f"grpc://127.0.0.1:{ports[name]}" for name in ORDER if name != "gateway"}
            self._grpc_urls = grpc_urls
            for name in ORDER:
                # The gateway has its metrics on its own port, beside the page.
                environ = self._environ(name, ports[name], metrics.get(name, -1), nats.url, grpc_urls)
                if self._settings.processes or name in OWN_PROCESS:
                    await self._start_child(stack, name, environ)
                else:
                    await self._start_inline(stack, name, environ)
            await self._until_ready(grpc_urls, gateway)
            endpoints = Endpoints(
                grpc_urls,
                gateway,
                nats.url,
                self._store_url,
                os.getpid(),
                self.pids(),
                {
                    **{name: f"http://127.0.0.1:{port}/metrics" for name, port in metrics.items()},
                    "gateway": f"{gateway}/metrics",
                },
            )
            targets.write_text(list_targets(endpoints.metrics))
            written.write_text(endpoints.to_json())
            for file in (written, targets):
                stack.callback(file.unlink, missing_ok=True)
            yield endpoints

    def _reserve(self, stack: AsyncExitStack) -> dict[str, int]:
        """Reserve a port for each service for the life of the stack; the gateway's port can be configured."""
        wished = {"gateway": self._settings.gateway_port}
        return {name: stack.enter_context(reserved_port(port=wished.get(name, 0), service=name)) for name in ORDER}

    @property
    def _store_url(self) -> str:
        return self._settings.store or f"file://{self._home / 'store'}"

    def pids(self) -> dict[str, int]:
        """Return the current process ids by name, of nats-server and of services in their own processes."""
        assert self._nats is not None
        return {"nats": self._nats.pid, **{child.name: child.pid for child in self._children}}

    async def until_serving(self, timeout_s: float) -> None:
        """Wait until every service is ready; raise ``TimeoutError``."""
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(*(wait_until_serving(name, url) for name, url in self._grpc_urls.items()))

    def _environ(
        self, name: str, port: int, metrics_port: int, nats_url: str, grpc_urls: Mapping[str, str]
    ) -> dict[str, str]:
        """Return a service's settings as environment variables, for both ways of running it."""
        # Unary calls between services go over NATS; streams, terminals and the gateway use gRPC.
        endpoints = {peer: "nats://" if peer in UNARY and name != "gateway" else url for peer, url in grpc_urls.items()}
        home = self._home
        models = self._settings.models
        return {
            **os.environ,
            **({} if models is None else {"FATHOM_POLICY_MODELS": json.dumps(dict(models))}),
            "FATHOM_RUNTIME_PORT": str(port),
            "FATHOM_RUNTIME_METRICS_PORT": str(metrics_port),
            "FATHOM_RUNTIME_BUS_URL": nats_url,
            "FATHOM_RUNTIME_STORE_URL": self._store_url,
            "FATHOM_RUNTIME_ENDPOINTS": json.dumps(endpoints),
            "FATHOM_RUNTIME_LOG_LEVEL": self._settings.log_level,
            "FATHOM_RUNTIME_DIE_WITH_PARENT": "true",
            "FATHOM_DATAFETCH_DATA_DIR": str(home / "data" / "tables"),
            "FATHOM_DATAFETCH_MODELS_DIR": str(home / "models"),
            "FATHOM_RETRIEVAL_CORPUS_DIR": str(home / "data" / "corpus"),
            "FATHOM_RETRIEVAL_INDEX_DIR": str(home / "index"),
            "FATHOM_RETRIEVAL_MODEL_DIR": str(home / "models"),
            "FATHOM_MEMORY_PATH": str(home / "memory.sqlite3"),
            "FATHOM_POLICY_CACHE_DIR": str(home / "models"),
        }

    async def _start_child(self, stack: AsyncExitStack, name: str, environ: Mapping[str, str]) -> None:
        child = Child(name, environ, self._home / "logs" / f"{name}.log", self._settings.config)
        await child.start()
        self._children.append(child)
        stack.push_async_callback(self._stop_child, child)

    async def _stop_child(self, child: Child) -> None:
        await child.stop(grace_s=10.0)
        self._report(child.name, "stopped")

    async def _start_inline(self, stack: AsyncExitStack, name: str, environ: Mapping[str, str]) -> None:
        config = importlib.import_module(f"fathom.services.{name}.config").Config
        build = importlib.import_module(f"fathom.services.{name}.server").build
        file = self._settings.config
        runtime = load(Runtime, "runtime", file=file, environ=environ)
        settings: Any = load(config, name, file=file, environ=environ)
        log = stack.enter_context((self._home / "logs" / f"{name}.log").open("a", buffering=1))
        deps = await stack.enter_async_context(dependencies(name, runtime, log))
        host = hosting_http if name == "gateway" else hosting
        hosted: Any = await stack.enter_async_context(host(build(settings, deps), deps, runtime))
        if name != "gateway":
            self._warming[name] = hosted.warm
            self._duties.append(hosted.following)
        stack.callback(self._report, name, "stopping")

    async def _until_ready(self, grpc_urls: Mapping[str, str], gateway: str) -> None:
        """Wait for the health of all services concurrently; raise an error that names the late or failed one."""
        waits = {name: asyncio.create_task(wait_until_serving(name, url)) for name, url in grpc_urls.items()}
        failures = {**self._warming, **{child.name: child.failure for child in self._children}}
        deadline = time.monotonic() + self._settings.ready_timeout_s
        try:
            while pending := {name for name, task in waits.items() if not task.done()}:
                watched = {waits[name] for name in pending} | {task for task in failures.values() if not task.done()}
                left = deadline - time.monotonic()
                if left <= 0:
                    raise DependencyFailed(", ".join(sorted(pending)), f"not ready; see {self._home / 'logs'}")
                await asyncio.wait(watched, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                for task in failures.values():
                    if task.done():
                        task.result()
                for name in sorted(pending):
                    if waits[name].done():
                        waits[name].result()  # a service that answers wrongly is not one that is ready
                        self._report(name, grpc_urls[name])
            self._report("gateway", gateway)
        finally:
            for task in waits.values():
                task.cancel()

    async def until_broken(self) -> None:
        """Wait forever; raise when a service or its process fails permanently."""
        await asyncio.gather(*(child.failure for child in self._children), *map(asyncio.shield, self._duties))
        await asyncio.Event().wait()


def list_targets(metrics: Mapping[str, str]) -> str:
    """Return the addresses of metrics as Prometheus reads them from a file (file_sd_configs)."""
    return json.dumps(
        [
            {
                "targets": [urlsplit(url).netloc],
                "labels": {"service": name, "__metrics_path__": urlsplit(url).path},
            }
            for name, url in metrics.items()
        ],
        indent=2,
    )


@asynccontextmanager
async def start_stack(home: Path) -> AsyncIterator[LocalEndpoints]:
    """Start a stack in this folder, on free ports, for as long as the context lasts."""
    async with LocalStack(LocalSettings(home=home, gateway_port=0)).running() as started:
        yield LocalEndpoints(started.services, started.gateway, started.nats, started.store, started.metrics)


async def wait_until_serving(name: str, url: str) -> None:
    """Wait until the service reports SERVING."""
    # Polled, because a child process may not even listen yet.
    async with grpc.aio.insecure_channel(url.removeprefix("grpc://")) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        while True:
            try:
                reply = await stub.Check(health_pb2.HealthCheckRequest(service="ready"), timeout=1.0)
                if reply.status == health_pb2.HealthCheckResponse.SERVING:
                    return
            except grpc.aio.AioRpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    raise DependencyFailed(name, error.details() or error.code().name) from error
            await asyncio.sleep(0.05)
