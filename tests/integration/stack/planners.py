"""Planner processes on a queue of their own, and doors that count what they ask of the stack's services."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fathom.clients import Clients, connect
from fathom.hosting.host import Runtime, dependencies, hosting
from fathom.services.local import Endpoints, wait_until_serving
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.rpc.contract import Method, contract
from fathom.transport.rpc.service import Service

ROOT = Path(__file__).resolve().parents[3]
Before = Callable[[str, str], Awaitable[None]]


class Door:
    """A servicer that hands every call on to the stack's own service and writes down its request id."""

    def __init__(self, service: str, clients: Clients, seen: list[tuple[str, str]], before: Before) -> None:
        self._client: Any = getattr(clients, service)
        self._seen, self._before = seen, before
        for method in contract(service).methods.values():
            if not method.client_streaming:
                setattr(self, method.name, self._handler(method))

    def _handler(self, method: Method) -> Any:
        forward = getattr(self._client, re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower())

        async def note(request: Any) -> None:
            request_id = getattr(request, "request_id", "")
            self._seen.append((method.name, request_id))
            await self._before(method.name, request_id)

        async def unary(request: Any, call: Any) -> Any:
            await note(request)
            return await forward(request)

        async def stream(request: Any, call: Any) -> AsyncIterator[Any]:
            await note(request)
            async for response in forward(request):
                yield response

        return stream if method.server_streaming else unary


@dataclass
class Planners:
    """Some planner processes; ``before`` is called with method and request id of each call that they make."""

    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    logs: dict[str, Path] = field(default_factory=dict)
    seen: list[tuple[str, str]] = field(default_factory=list)
    urls: dict[str, str] = field(default_factory=dict)
    bus: str = ""
    """URL of their queue's server."""
    on_call: list[Before] = field(default_factory=list)
    services: dict[str, str] = field(default_factory=dict)
    """URLs of what they call."""

    async def before(self, method: str, request_id: str) -> None:
        for handler in self.on_call:
            await handler(method, request_id)

    def holder(self, run_id: str) -> str:
        """The planner that took the run up last."""
        taken = {
            name: [line for line in log.read_text().splitlines() if "run acquired" in line and run_id in line]
            for name, log in self.logs.items()
        }
        return max((name for name in taken if taken[name]), key=lambda name: json.loads(taken[name][-1])["attempt"])

    def list_calls(self, method: str) -> list[str]:
        """Return request ids of the calls of one method, in order."""
        return [request_id for name, request_id in self.seen if name == method]


@asynccontextmanager
async def planners(endpoints: Endpoints, folder: Path, *names: str) -> AsyncIterator[tuple[Planners, Clients]]:
    """Planners that share one queue, and clients of the first; the stack's own planner has another queue."""
    found = Planners()
    async with AsyncExitStack() as stack:
        nats = await stack.enter_async_context(NatsServer(folder / "nats"))
        found.bus = nats.url
        direct = connect(endpoints.services)
        stack.push_async_callback(direct.close)
        urls = dict(endpoints.services)
        for service in ("policy", "datafetch", "sandbox"):
            runtime = Runtime(log_level="warning")
            deps = await stack.enter_async_context(dependencies(service, runtime))
            door = Service(service, Door(service, direct, found.seen, found.before))
            urls[service] = (await stack.enter_async_context(hosting(door, deps, runtime))).url
        found.services = urls
        for name in names:
            await start(stack, found, name, folder, endpoints.store)
        clients = connect({**urls, "planner": ",".join(found.urls[name] for name in names[:1])})
        stack.push_async_callback(clients.close)
        yield found, clients


async def start(stack: AsyncExitStack, found: Planners, name: str, folder: Path, store: str) -> None:
    """Starts one planner as a process and waits until it serves."""
    from fathom.transport.sockets import reserved_port

    port = stack.enter_context(reserved_port())
    environ = {
        **os.environ,
        "FATHOM_RUNTIME_PORT": str(port),
        "FATHOM_RUNTIME_BUS_URL": found.bus,
        "FATHOM_RUNTIME_STORE_URL": store,
        "FATHOM_RUNTIME_ENDPOINTS": json.dumps(found.services),
        "FATHOM_RUNTIME_DIE_WITH_PARENT": "true",
        "FATHOM_PLANNER_HEARTBEAT_S": "0.5",
        "FATHOM_RUNTIME_ACK_WAIT_S": "3",
    }
    found.logs[name] = folder / f"{name}.log"
    with found.logs[name].open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fathom.services.planner", env=environ, cwd=ROOT, stdout=log, stderr=log,
            stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    found.processes[name] = process
    found.urls[name] = f"grpc://127.0.0.1:{port}"
    stack.push_async_callback(stop, process)
    async with asyncio.timeout(30):
        await wait_until_serving("planner", found.urls[name])


async def stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()
