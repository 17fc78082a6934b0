"""Test how a replica leaves: it says so in its health, keeps what only it has, ends its calls; callers go elsewhere."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.clients.services import MemoryClient
from fathom.clients.transport import RENEW_S, GrpcTransport
from fathom.core.call import Call
from fathom.core.errors import DeadlineExceeded, DependencyFailed
from fathom.core.retry import RetryPolicy
from fathom.core.telemetry import Telemetry
from fathom.hosting.host import Hosted, Runtime, dependencies, hosting
from fathom.transport.rpc.service import Service
from tests.integration.cluster.network import Names
from tests.support.clock import Clock
from tests.support.waiting import eventually

ASKED = pb.GetWindowRequest(conversation_id="c")


@dataclass
class Replica:
    """Answers with its name, and writes down what happens to it."""

    name: str = "one"
    held: asyncio.Event = field(default_factory=asyncio.Event)
    story: list[str] = field(default_factory=list)
    answered: int = 0

    async def GetWindow(self, request: pb.GetWindowRequest, call: Call) -> pb.GetWindowResponse:
        self.answered += 1
        return pb.GetWindowResponse(turns=[pb.WindowTurn(question=self.name)])

    async def drain(self) -> None:
        self.story.append("drain")
        await self.held.wait()

    async def finish(self) -> None:
        self.story.append("finish")

    async def close(self) -> None:
        self.story.append("close")

    @asynccontextmanager
    async def host(self, grace_s: float) -> AsyncIterator[Hosted]:
        service = Service("memory", self, close=self.close, drain=self.drain, finish=self.finish)
        runtime = Runtime(grace_s=grace_s, log_level="error")
        async with dependencies("memory", runtime) as deps, hosting(service, deps, runtime) as hosted:
            await hosted.warm
            yield hosted


@asynccontextmanager
async def client(*urls: str, policy: RetryPolicy | None = None) -> AsyncIterator[MemoryClient]:
    """A client of one name with these addresses, as a headless service has them."""
    transport = GrpcTransport(f"ipv4:{','.join(url.removeprefix('grpc://') for url in urls)}")
    try:
        yield MemoryClient(transport, Telemetry("test", log_level="error"), policy=policy)
    finally:
        await transport.close()


async def health(url: str) -> int:
    async with grpc.aio.insecure_channel(url.removeprefix("grpc://")) as channel:
        reply = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="ready"))
        return int(reply.status)


async def test_a_replica_answers_while_it_drains_and_its_health_says_not_to_come() -> None:
    replica = Replica()
    async with AsyncExitStack() as stack:
        hosted = await stack.enter_async_context(replica.host(grace_s=20.0))
        memory = await stack.enter_async_context(client(hosted.url))
        await memory.get_window(ASKED)
        leaving = asyncio.create_task(stack.pop_all().aclose())
        await eventually(lambda: replica.story)
        assert await health(hosted.url) == health_pb2.HealthCheckResponse.NOT_SERVING
        async with client(hosted.url) as late:
            await late.get_window(ASKED)
        assert replica.story == ["drain"]
        replica.held.set()
        await leaving
    assert replica.story == ["drain", "finish", "close"]


async def test_grace_bounds_the_draining() -> None:
    replica = Replica()
    async with replica.host(grace_s=0.3):
        pass
    assert not replica.held.is_set(), "its drain never ended by itself"
    assert replica.story == ["drain", "finish", "close"]


async def test_calls_go_round_and_none_is_lost_when_a_replica_leaves() -> None:
    replicas = [Replica(name) for name in ("one", "two")]
    for replica in replicas:
        replica.held.set()
    seen, stop = Counter[str](), asyncio.Event()
    async with AsyncExitStack() as leaving, replicas[1].host(5.0) as staying:
        first = await leaving.enter_async_context(replicas[0].host(5.0))
        async with client(first.url, staying.url) as memory:

            async def user() -> None:
                while not stop.is_set():
                    seen[(await memory.get_window(ASKED)).turns[0].question] += 1

            users = [asyncio.create_task(user()) for _ in range(4)]
            await eventually(lambda: min(seen["one"], seen["two"]) >= 20)
            await leaving.aclose()
            before = seen["two"]
            await eventually(lambda: seen["two"] >= before + 40)
            stop.set()
            await asyncio.gather(*users)
    assert seen["one"] == replicas[0].answered, "whatever it had begun arrived"
    assert seen["two"] == replicas[1].answered


async def test_a_name_that_had_no_address_is_asked_for_again_at_once() -> None:
    """Its only pod is being replaced; gRPC alone asks after pauses of 1, 1.6, 2.6 s and so on, up to two minutes."""
    addresses: list[str] = []
    asked = Counter[str]()

    def look_up(name: str) -> list[str]:
        asked[name] += 1
        return addresses

    loop, clock, replica = asyncio.get_running_loop(), Clock(), Replica()
    replica.held.set()
    names, _ = await loop.create_datagram_endpoint(lambda: Names(look_up), local_addr=("127.0.0.1", 0))
    async with AsyncExitStack() as stack:
        stack.callback(names.close)
        hosted = await stack.enter_async_context(replica.host(5.0))
        host, port = names.get_extra_info("sockname")
        target = f"dns://{host}:{port}/memory.test:{hosted.url.rpartition(':')[2]}"
        transport = GrpcTransport(target, clock=clock)
        stack.push_async_callback(transport.close)
        memory = MemoryClient(transport, Telemetry("test", log_level="error"), policy=RetryPolicy(attempts=1))
        with pytest.raises(DependencyFailed, match="memory"):
            await memory.get_window(ASKED)
        assert asked
        addresses.append("127.0.0.1")
        clock.now += RENEW_S
        # The channel without a connection fails once more, and is not used again; on a slow machine it may have asked.
        with suppress(DependencyFailed):
            await memory.get_window(ASKED)
        assert (await memory.get_window(ASKED)).turns[0].question == "one"


async def test_a_server_that_is_slow_to_greet_is_waited_for() -> None:
    """As on a node where every pod starts at once: a caller that gives up within the second never gets in."""
    # The kernel takes the connection, and nobody says a word on it.
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        async with client(f"{host}:{port}", policy=RetryPolicy(attempts=1)) as memory:
            with pytest.raises(DeadlineExceeded):
                await memory.get_window(ASKED, timeout_s=1.0)
