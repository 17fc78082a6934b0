"""Bounded concurrent consumption of durable queues, with graceful draining."""

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
    """Consumer of deliveries. ``work`` returns when consumption and all tasks have ended; cancelling it ends both."""

    _fetching: set[asyncio.Task[None]] = field(default_factory=set)

    async def work(
        self,
        deliveries: AsyncGenerator[Delivery, None],
        slots: int,
        settle: Callable[[Delivery], Awaitable[None]],
        log: Any,
    ) -> None:
        """Pass each delivery to ``settle``, which must acknowledge it, with at most ``slots`` concurrent calls."""
        async with asyncio.TaskGroup() as group:
            fetching = group.create_task(fetch(deliveries, slots, partial(answered, settle, log), group))
            self._fetching.add(fetching)
            fetching.add_done_callback(self._fetching.discard)

    def take_no_more(self) -> None:
        """Stop consuming; running tasks continue, and ``work`` returns when they end."""
        for fetching in self._fetching:
            fetching.cancel()


async def answered(settle: Callable[[Delivery], Awaitable[None]], log: Any, delivery: Delivery) -> None:
    """Settle a delivery and log a failure, so that one failed acknowledgement does not end the consumption."""
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
