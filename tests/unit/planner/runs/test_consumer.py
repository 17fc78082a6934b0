"""Consumption of a queue continues whatever becomes of single deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

from fathom.core.errors import NotReady
from fathom.services.planner.runs.queue import Consumer
from fathom.transport.bus.base import Delivery


class FakeLog:
    """Log that keeps its errors."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def error(self, event: str, **more: Any) -> None:
        self.errors.append(f"{event}: {more['error']}")


class FakeDelivery:
    """Delivery with a subject only, of nobody in particular."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.headers: dict[str, str] = {}


async def test_a_delivery_that_cannot_be_returned_does_not_end_the_consumption() -> None:
    """The bus was away for longer than a confirmation waits: nak fails too, and the lease brings the delivery again."""
    handled: list[str] = []

    async def deliveries() -> AsyncGenerator[Delivery, None]:
        for subject in ("first", "second", "third"):
            yield cast(Delivery, FakeDelivery(subject))
            # A turn of the loop, in which the delivery is handled before the next one comes.
            await asyncio.sleep(0)

    async def handle(delivery: Delivery) -> None:
        if delivery.subject == "second":
            raise NotReady("not confirmed within 10 s (no connection)")
        handled.append(delivery.subject)

    log = FakeLog()
    await Consumer().consume(deliveries(), 1, handle, log)
    # The third is handled although the second could neither be handled nor returned.
    assert handled == ["first", "third"]
    assert log.errors == ["delivery could not be handled: not confirmed within 10 s (no connection)"]
