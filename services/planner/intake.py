"""Takes deliveries of durable queues, so many at a time, until it is told to take no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fathom.bus.base import Delivery
from fathom.errors import FathomError


@dataclass
class Intake:
    """What is under way outlives the taking: ``work`` returns when both have ended, and cancelling it ends both."""

    _fetching: set[asyncio.Task[None]] = field(default_factory=set)

    async def work(
        self,
        deliveries: AsyncGenerator[Delivery, None],
        slots: int,
        settle: Callable[[Delivery], Awaitable[None]],
        log: Any,
    ) -> None:
        """Gives each delivery to ``settle``, which answers for it, with at most ``slots`` of them under way."""
        async with asyncio.TaskGroup() as group:
            fetching = group.create_task(fetch(deliveries, slots, partial(answered, settle, log), group))
            self._fetching.add(fetching)
            fetching.add_done_callback(self._fetching.discard)

    def take_no_more(self) -> None:
        """Leaves the queues to others; what is under way goes on, and ``work`` returns with its end."""
        for fetching in self._fetching:
            fetching.cancel()


async def answered(settle: Callable[[Delivery], Awaitable[None]], log: Any, delivery: Delivery) -> None:
    """One delivery that cannot even be given back, since the bus is away, must not end the taking of all others."""
    try:
        await settle(delivery)
    except FathomError as error:
        # The bus delivers it again when its lease is over.
        log.error("delivery could not be answered for", subject=delivery.subject, error=error.message)


async def fetch(
    deliveries: AsyncGenerator[Delivery, None],
    slots: int,
    settle: Callable[[Delivery], Awaitable[None]],
    group: asyncio.TaskGroup,
) -> None:
    gate = asyncio.Semaphore(slots)

    async def settled(delivery: Delivery) -> None:
        try:
            await settle(delivery)
        finally:
            gate.release()

    await gate.acquire()
    async with aclosing(deliveries) as found:
        async for delivery in found:
            group.create_task(settled(delivery))
            await gate.acquire()
