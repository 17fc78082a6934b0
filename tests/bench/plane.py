"""Measure what the governed plane costs a call: bare gRPC beside ours, and a planner's tool calls with and without it.

A service that answers 2 KB at once runs in a process of its own, bare and with all interceptors (identity, access,
deadline, idempotency, metrics, trace), and this process calls it ``IN_FLIGHT`` at a time. Three callers: a bare stub; the
planner's tool ``search`` in its registry over such a stub, without the plane; and the same tool over our client and
through the gates. Rounds are short and interleaved, and ratios are taken between rounds that stand beside each other:
medians of calls per second, and of processor time of caller and server, which a busy machine disturbs less.
"""

from __future__ import annotations

import asyncio
import io
import json
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
from prometheus_client import CollectorRegistry, Gauge, Histogram

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.api.retrieval.v1 import retrieval_pb2_grpc as stubs
from fathom.clients import Clients
from fathom.core.call import AUTHORIZATION_HEADER
from fathom.core.identity import Tokens, make_keys, service_credentials
from fathom.core.telemetry import Telemetry
from fathom.domain.chat.messages import ToolCall
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.services.planner.model.episode import ToolStatus
from fathom.services.planner.tools.documents import Search, ShownDocuments
from fathom.services.planner.tools.gates import Gates
from fathom.services.planner.tools.registry import CallLimits, Registry
from fathom.transport.bus import open_bus
from fathom.transport.rpc.service import Service
from fathom.transport.store import open_store
from tests.bench.transports import IN_FLIGHT, REPLY, REQUEST, Servicer

CALLS, ROUNDS, RUNS = 320, 42, 8
# The first ones warm up.
UNCOUNTED = 2
ARGUMENTS = json.dumps({"intent": "find", "query": "maximum drawdown"})
Call = Callable[[], Awaitable[object]]


class BareServicer(stubs.RetrievalServiceServicer):
    """The same answer behind nothing but gRPC."""

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        return REPLY


async def serve(kind: str, keys: str) -> None:
    """Serve until SIGTERM, after the port was printed; ``kind`` is bare or ours."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with AsyncExitStack() as stack:
        if kind == "bare":
            server = grpc.aio.server()
            cast(Any, stubs).add_RetrievalServiceServicer_to_server(BareServicer(), server)
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            stack.push_async_callback(server.stop, 0)
        else:
            telemetry = Telemetry("bench", log_level="error", stream=io.StringIO())
            store, tokens = open_store("memory://"), Tokens.open(keys)
            deps = Deps(Clients({}, telemetry), store, await open_bus("memory://", store), telemetry, tokens)
            hosted = await stack.enter_async_context(hosting(Service("retrieval", Servicer()), deps, Runtime()))
            await hosted.warm
            port = int(hosted.url.rpartition(":")[2])
        print(port, flush=True)
        await stop.wait()


@asynccontextmanager
async def running(kind: str, keys: str) -> AsyncIterator[tuple[str, int]]:
    """Run a server in a process of its own; provide its address and process id."""
    command = [sys.executable, "-m", "tests.bench.plane", kind, keys]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield f"127.0.0.1:{int(await process.stdout.readline())}", process.pid
    finally:
        process.terminate()
        await process.wait()


def read_cpu_s(pid: int) -> float:
    """Return the processor time that a process has used, in the nanoseconds that /proc does not have."""
    # The id of a process's own clock on Linux, as clock_getcpuclockid(3) makes it.
    return time.clock_gettime((~pid << 3) | 2)


@dataclass
class Contender:
    """A way to make one call, with what its rounds gave: calls per second, and microseconds of both processes."""

    call: Call
    server: int
    rates: list[float] = field(default_factory=list)
    own_us: list[float] = field(default_factory=list)
    server_us: list[float] = field(default_factory=list)

    @property
    def rounds(self) -> list[tuple[float, float]]:
        """Return the time of a call, and the processor time, by round."""
        return [
            (1 / rate, own + server) for rate, own, server in zip(self.rates, self.own_us, self.server_us, strict=True)
        ]

    async def measure(self) -> None:
        """Make ``CALLS`` calls, ``IN_FLIGHT`` at a time."""
        left = iter(range(CALLS))

        async def work() -> None:
            for _ in left:
                await self.call()

        started, own, server = time.perf_counter(), time.process_time(), read_cpu_s(self.server)
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        self.rates.append(CALLS / (time.perf_counter() - started))
        self.own_us.append((time.process_time() - own) / CALLS * 1e6)
        self.server_us.append((read_cpu_s(self.server) - server) / CALLS * 1e6)


def call_bare(stub: Any, metadata: tuple[tuple[str, str], ...] = ()) -> Call:
    async def call() -> None:
        await stub.Search(REQUEST, metadata=metadata, timeout=30)

    return call


def call_tool(clients: Any, gates: Gates | None) -> Call:
    """Return calls of the tool by ``RUNS`` episodes in turn."""
    runs = [
        Registry(
            [Search(clients, ("corpus",), None, 30.0, ShownDocuments(f"run_{number}"))],
            bounds=CallLimits(60.0, gates=gates, patience_s=300.0 if gates else 0.0, run=f"run_{number}"),
        )
        for number in range(RUNS)
    ]
    count = iter(range(sys.maxsize))

    async def call() -> None:
        number = next(count)
        result = await runs[number % RUNS].call(f"call_{number}", ToolCall(f"call_{number}", "search", ARGUMENTS))
        assert result.status is ToolStatus.OK, result.content

    return call


def open_gates() -> Gates:
    registry = CollectorRegistry()
    waiting = Gauge("waiting", "Queued calls", ("tool",), registry=registry)
    waits = Histogram("waits", "Waits", ("tool",), registry=registry)
    return Gates(2 * IN_FLIGHT, {}, waiting, waits)


async def run() -> None:
    async with AsyncExitStack() as stack:
        keys = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "keys.pem"
        keys.write_text("".join(make_keys()))
        tokens = Tokens.open(str(keys))
        credentials = service_credentials(tokens, "planner")
        assert credentials is not None
        servers = {kind: await stack.enter_async_context(running(kind, str(keys))) for kind in ("bare", "ours")}
        channels = {
            kind: await stack.enter_async_context(grpc.aio.insecure_channel(address))
            for kind, (address, _) in servers.items()
        }
        bare, ours = [cast(Any, stubs.RetrievalServiceStub)(channels[kind]) for kind in ("bare", "ours")]
        token = ((AUTHORIZATION_HEADER, f"Bearer {credentials.token('retrieval')}"),)

        async def search(request: pb.SearchRequest, timeout_s: float) -> pb.SearchResponse:
            return cast(pb.SearchResponse, await bare.Search(request, timeout=timeout_s))

        telemetry = Telemetry("bench", log_level="error", stream=io.StringIO())
        clients = Clients({"retrieval": f"grpc://{servers['ours'][0]}"}, telemetry, credentials=credentials)
        stack.push_async_callback(clients.close)
        calls = {
            "bare stub, bare server": call_bare(bare),
            "bare stub, our server": call_bare(ours, token),
            "tool without the plane": call_tool(SimpleNamespace(retrieval=SimpleNamespace(search=search)), None),
            "tool through the plane": call_tool(clients, open_gates()),
        }
        kinds = ("bare", "ours", "bare", "ours")
        contenders = {
            name: Contender(call, servers[kind][1]) for (name, call), kind in zip(calls.items(), kinds, strict=True)
        }
        for _ in range(ROUNDS):
            for contender in contenders.values():
                await contender.measure()
    print_table(contenders)


def print_table(contenders: dict[str, Contender]) -> None:
    print(f"{f'{IN_FLIGHT} in flight, 2 KB':<26}{'calls/s':>9}{'CPU µs: caller':>16}{'server':>8}")
    for name, one in contenders.items():
        rate, own, server = (statistics.median(values[UNCOUNTED:]) for values in (one.rates, one.own_us, one.server_us))
        print(f"{name:<26}{rate:>9.0f}{own:>16.0f}{server:>8.0f}")
    names = list(contenders)
    for what, base, full in (("interceptors' cost", *names[:2]), ("the plane's cost", *names[2:])):
        # By rounds that stood beside each other: what else the machine does hits both.
        pairs = list(zip(contenders[base].rounds, contenders[full].rounds, strict=True))[UNCOUNTED:]
        wall, spent = (statistics.median(after[i] / before[i] for before, after in pairs) for i in (0, 1))
        print(f"{what}: {wall:.2f} times the time, {spent:.2f} times the processor time")


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:3]))
