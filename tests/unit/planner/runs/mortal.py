"""A store and a bus as a process sees them that is killed after its n-th write: from then on nothing it does arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from typing import Any

from fathom.transport.bus.base import Delivery
from fathom.transport.bus.memory import MemoryBus
from fathom.transport.store.memory import MemoryStore


class Gone(Exception):
    """End what is left of the process."""


class Life:
    """Counts writes; after ``writes`` of them every operation waits, until ``buried`` ends it."""

    def __init__(self, writes: int) -> None:
        self.left = writes
        self.over, self.buried = asyncio.Event(), asyncio.Event()

    async def write(self, work: Awaitable[Any]) -> Any:
        done = await self.read(work)
        self.left -= 1
        if self.left <= 0:
            self.over.set()
            await self._hang()
        return done

    async def read(self, work: Awaitable[Any]) -> Any:
        if self.over.is_set():
            if asyncio.iscoroutine(work):
                work.close()
            await self._hang()
        return await work

    async def _hang(self) -> None:
        await self.buried.wait()
        raise Gone


class MortalStore:
    """An ``ObjectStore``."""

    def __init__(self, store: MemoryStore, life: Life) -> None:
        self._store, self._life = store, life

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> Any:
        return await self._life.write(self._store.put(key, data, content_type))

    async def get(self, key: str, sha256: str | None = None) -> Any:
        return await self._life.read(self._store.get(key, sha256))

    async def head(self, key: str) -> Any:
        return await self._life.read(self._store.head(key))

    async def list(self, prefix: str) -> Any:
        return await self._life.read(self._store.list(prefix))

    async def keys(self, prefix: str, **limits: Any) -> Any:
        return await self._life.read(self._store.keys(prefix, **limits))

    async def delete(self, key: str) -> None:
        await self._life.write(self._store.delete(key))

    async def close(self) -> None: ...


class MortalBus:
    """The parts of a ``Bus`` that a worker uses."""

    def __init__(self, bus: MemoryBus, life: Life) -> None:
        self._bus, self._life = bus, life
        self.serve, self.follow, self.request = bus.serve, bus.follow, bus.request
        self.last_sequence = bus.last_sequence

    async def publish(self, *arguments: Any, **fields: Any) -> Any:
        return await self._life.write(self._bus.publish(*arguments, **fields))

    async def consume(self, durable: str) -> AsyncGenerator[Any, None]:
        async for delivery in self._bus.consume(durable):
            yield MortalDelivery(delivery, self._life)


class MortalDelivery:
    """A ``Delivery``."""

    def __init__(self, delivery: Delivery, life: Life) -> None:
        self._delivery, self._life = delivery, life
        self.payload, self.headers, self.attempt = delivery.payload, delivery.headers, delivery.attempt

    async def ack(self) -> None:
        await self._life.write(self._delivery.ack())

    async def nak(self, delay_s: float = 0) -> None:
        await self._life.read(self._delivery.nak(delay_s))

    async def in_progress(self) -> None:
        await self._life.read(self._delivery.in_progress())
