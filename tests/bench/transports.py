"""Tool-call overhead and calls per second of one servicer over gRPC unary, NATS and one gRPC stream.

All interceptors are on. Rounds are interleaved, so that a noisy neighbour hits every contender; medians are printed.
"""

from __future__ import annotations

import asyncio
import io
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from functools import partial
from pathlib import Path

import grpc

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.clients import Clients
from fathom.core.call import Call
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.transport.bus import open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.rpc.service import Service
from fathom.transport.store import open_store

IN_FLIGHT, CALLS, ROUNDS = 32, 1500, 5
REPLY = pb.SearchResponse(
    results=[pb.SearchResult(hits=[pb.SearchHit(id=str(i), title="title", summary="x" * 180) for i in range(10)])]
)
REQUEST = pb.SearchRequest(queries=["maximum drawdown"])


class Servicer:
    """Answers with 2 KB at once."""

    async def Search(self, request: pb.SearchRequest, call: Call) -> pb.SearchResponse:
        return REPLY


async def run() -> None:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        nats = await stack.enter_async_context(NatsServer(folder / "nats"))
        bus = await open_bus(nats.url, open_store("memory://"))
        stack.push_async_callback(bus.close)
        # A line per call on the terminal would be measured with the calls.
        telemetry = Telemetry("bench", log_level="error", stream=io.StringIO())
        servicer = Servicer()
        deps = Deps(Clients({}, telemetry), open_store("memory://"), bus, telemetry)
        hosted = await stack.enter_async_context(hosting(Service("retrieval", servicer), deps, Runtime()))
        await hosted.warm
        clients = {
            name: Clients({"retrieval": url}, telemetry, bus=bus, dispatchers={"retrieval": hosted.dispatcher})
            for name, url in (("grpc", hosted.url), ("nats", "nats://"), ("inproc", "inproc://retrieval"))
        }
        call = Call.new()
        one: dict[str, Callable[[], Awaitable[object]]] = {"function call": lambda: servicer.Search(REQUEST, call)}
        one |= {name: partial(each.retrieval.search, REQUEST) for name, each in clients.items()}
        await overhead(one)
        stream_url = await echo_stream(stack)
        await throughput({name: flood(one[name]) for name in ("grpc", "nats")} | {"stream": pump(stream_url)})


async def overhead(contenders: dict[str, Callable[[], Awaitable[object]]]) -> None:
    """Median microseconds of one call at a time."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, contender in contenders.items():
            for _ in range(100):
                started = time.perf_counter()
                await contender()
                times[name].append((time.perf_counter() - started) * 1e6)
    inproc = statistics.median(times["inproc"])
    print(f"{'one call at a time':<20}{'p50 µs':>10}{'/ inproc':>10}")
    for name, taken in times.items():
        median = statistics.median(taken)
        print(f"{name:<20}{median:>10.0f}{median / inproc:>10.1f}")


def flood(contender: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[float]]:
    """Calls per second with ``IN_FLIGHT`` unary calls in flight."""

    async def measure() -> float:
        # One iterator for all workers: whoever is free takes the next, until none is left.
        left = iter(range(CALLS))

        async def worker() -> None:
            for _ in left:
                await contender()

        started = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
        return CALLS / (time.perf_counter() - started)

    return measure


async def echo_stream(stack: AsyncExitStack) -> str:
    """A bare bidirectional stream with the same payloads: what a hot loop could use."""

    async def echo(requests: AsyncIterator[pb.SearchRequest], context: object) -> AsyncIterator[pb.SearchResponse]:
        # No interceptor and no dispatch: the floor, not a contender.
        async for _ in requests:
            yield REPLY

    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(
        echo, pb.SearchRequest.FromString, pb.SearchResponse.SerializeToString
    )
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("bench.Stream", {"Echo": handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    stack.push_async_callback(server.stop, 0)
    return f"127.0.0.1:{port}"


def pump(target: str) -> Callable[[], Awaitable[float]]:
    """Exchanges per second over one stream with ``IN_FLIGHT`` requests ahead of their replies."""

    async def measure() -> float:
        gate = asyncio.Semaphore(IN_FLIGHT)

        async def requests() -> AsyncGenerator[pb.SearchRequest, None]:
            for _ in range(CALLS):
                await gate.acquire()
                yield REQUEST

        async with grpc.aio.insecure_channel(target) as channel:
            stub = channel.stream_stream(
                "/bench.Stream/Echo", pb.SearchRequest.SerializeToString, pb.SearchResponse.FromString
            )
            started = time.perf_counter()
            source = requests()
            async with aclosing(source):
                async for _ in stub(source):
                    gate.release()
            return CALLS / (time.perf_counter() - started)

    return measure


async def throughput(contenders: dict[str, Callable[[], Awaitable[float]]]) -> None:
    """Median calls per second over interleaved rounds."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, measure in contenders.items():
            rates[name].append(await measure())
    unary = statistics.median(rates["grpc"])
    print(f"\n{f'{IN_FLIGHT} in flight, 2 KB':<20}{'calls/s':>10}{'/ grpc':>10}")
    for name, measured in rates.items():
        rate = statistics.median(measured)
        print(f"{name:<20}{rate:>10.0f}{rate / unary:>10.1f}")
