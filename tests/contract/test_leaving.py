"""How a replica leaves: it tells its health, holds on to what only it has, ends its calls; callers go on elsewhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.clients.services import MemoryClient
from fathom.clients.transport import GrpcTransport
from fathom.core.call import Call
from fathom.core.telemetry import Telemetry
from fathom.hosting.host import Hosted, Runtime, dependencies, hosting
from fathom.transport.rpc.service import Service
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
async def client(*urls: str) -> AsyncIterator[MemoryClient]:
    """A client of one name with these addresses, as a headless service has them."""
    transport = GrpcTransport(f"ipv4:{','.join(url.removeprefix('grpc://') for url in urls)}")
    try:
        yield MemoryClient(transport, Telemetry("test", log_level="error"))
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
