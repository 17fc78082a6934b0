"""A queue is taken from whatever becomes of single deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

from fathom.bus.base import Delivery
from fathom.errors import NotReady
from services.planner.intake import Intake


class Told:
    """A log that remembers."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def error(self, event: str, **more: Any) -> None:
        self.said.append(f"{event}: {more['error']}")


class Given:
    """A delivery by its subject."""

    def __init__(self, subject: str) -> None:
        self.subject = subject


async def test_a_delivery_that_cannot_be_given_back_does_not_end_the_taking() -> None:
    """The bus was away for longer than a confirmation waits: nak fails too, and the lease brings the delivery again."""
    settled: list[str] = []

    async def deliveries() -> AsyncGenerator[Delivery, None]:
        for subject in ("first", "second", "third"):
            yield cast(Delivery, Given(subject))
            await asyncio.sleep(0)

    async def settle(delivery: Delivery) -> None:
        if delivery.subject == "second":
            raise NotReady("not confirmed within 10 s (no connection)")
        settled.append(delivery.subject)

    log = Told()
    await Intake().work(deliveries(), 1, settle, log)
    assert settled == ["first", "third"]
    assert log.said == ["delivery could not be answered for: not confirmed within 10 s (no connection)"]
