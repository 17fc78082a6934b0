"""A bus to experiment with, in memory and on a real nats-server: what holds on one holds on the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fathom.core.call import Lane
from fathom.transport.bus import Bus, Delivery, open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.bus.streams import run_durable, run_subject, topology
from fathom.transport.store import StoredObject
from fathom.transport.store.memory import MemoryStore

LIMIT_S = 15.0


class SpoilableStore(MemoryStore):
    """A store whose objects can go bad; ``spoiling`` lets each one do so right after it was put.

    While ``is_slow`` its own connection times out.
    """

    spoiling = False
    is_slow = False

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> StoredObject:
        if self.is_slow:
            raise TimeoutError("of the store's connection")
        stored = await super().put(key, data, content_type)
        if self.spoiling:
            await self.spoil()
        return stored

    async def spoil(self) -> None:
        for stored in await self.list("claims/"):
            await super().put(stored.key, b"spoilt")


@dataclass
class Lab:
    """A bus with its store and, for NATS, its server; ``open_another`` is a second connection."""

    bus: Bus
    store: SpoilableStore
    server: NatsServer | None
    open_another: Callable[[], Awaitable[Bus]]

    async def put(self, *payloads: bytes) -> None:
        """Publishes work for the interactive lane, each payload its own message id."""
        for payload in payloads:
            await self.bus.publish(run_subject(Lane.INTERACTIVE), payload, message_id=payload.decode())

    async def take(self, count: int, durable: str = run_durable(Lane.INTERACTIVE)) -> list[Delivery]:
        """The next deliveries, unsettled."""
        taken: list[Delivery] = []
        async with asyncio.timeout(LIMIT_S), aclosing(self.bus.consume(durable)) as deliveries:
            async for delivery in deliveries:
                taken.append(delivery)
                if len(taken) == count:
                    break
        return taken

    async def read(self, subject: str, count: int, after: int = 0) -> list[Delivery]:
        """The first followed messages above ``after``."""
        found: list[Delivery] = []
        async with asyncio.timeout(LIMIT_S), aclosing(self.bus.follow(subject, after=after)) as deliveries:
            async for delivery in deliveries:
                found.append(delivery)
                if len(found) == count:
                    break
        return found


Make = Callable[..., Awaitable[Lab]]


async def build(
    stack: AsyncExitStack, folder: Path | None, ack_wait_s: float, max_deliver: int, **settings: float
) -> Lab:
    """A lab on a server of its own with its data in ``folder``, or in memory."""
    store, streams = SpoilableStore(), topology(ack_wait_s=ack_wait_s, max_deliver=max_deliver, **settings)  # type: ignore[arg-type]
    server = await stack.enter_async_context(NatsServer(folder)) if folder else None

    async def open_one() -> Bus:
        bus = await open_bus(server.url if server else "memory://", store, streams)
        stack.push_async_callback(bus.close)
        return bus

    async def the_same() -> Bus:
        return lab.bus

    lab = Lab(await open_one(), store, server, open_one if server else the_same)
    await lab.bus.declare()
    return lab


@pytest.fixture(params=["memory", "nats"])
async def make(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Make]:
    """Builds labs on both kinds of bus; ``ack_wait_s`` is long unless the test is about it."""
    folder = tmp_path / "jetstream" if request.param == "nats" else None
    async with AsyncExitStack() as stack:

        async def one(ack_wait_s: float = 30.0, max_deliver: int = 3, **settings: float) -> Lab:
            return await build(stack, folder, ack_wait_s, max_deliver, **settings)

        yield one


@pytest.fixture
async def make_nats(tmp_path: Path) -> AsyncIterator[Make]:
    """Builds labs on a real server only: for what memory cannot do, such as crash."""
    async with AsyncExitStack() as stack:

        async def one(ack_wait_s: float = 30.0, max_deliver: int = 3) -> Lab:
            return await build(stack, tmp_path / "jetstream", ack_wait_s, max_deliver)

        yield one
