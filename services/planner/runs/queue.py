"""Durable queue of runs on the bus: submission, and bounded concurrent consumption with graceful draining."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from typing import Any

from fathom.core.call import Call, Lane, bind, calling
from fathom.core.errors import FathomError
from fathom.services.planner.runs.repository import Header, Leg, header_from_json
from fathom.transport.bus.base import Bus, Delivery
from fathom.transport.bus.streams import run_subject

Handle = Callable[[Delivery], Awaitable[None]]
"""Handler of one delivery; it must acknowledge the delivery."""


@dataclass(frozen=True)
class QueuedLeg:
    """A leg as its message names it; ``header`` is that of a run that begins, None for resumptions."""

    run_id: str
    number: int
    header: Header | None = None

    @classmethod
    def parse(cls, payload: bytes) -> QueuedLeg:
        """Return the leg of a message of the queue."""
        # Messages of earlier planners have no second line.
        name, _, header = payload.decode().partition("\n")
        run_id, _, number = name.partition(":")
        return cls(run_id, int(number or 0), header_from_json(json.loads(header)) if header else None)


async def submit_run(bus: Bus, header: Header, lane: Lane, leg: Leg) -> None:
    """Queue a leg of a run, of a user or of another run; idempotent.

    A run that begins is whole in its message: nothing else has to be written for it to be played.
    """
    # The leg is part of the id: a resumption is another message, with the start that its record holds. A run that
    # begins has none: a caller whose record could not be written asks again, and two messages would take the run from
    # each other.
    name = f"{header.run_id}:{leg.number}"
    message_id = f"run:{bind(name)}" + (f":{int(leg.start_time * 1000)}" if leg.number else "")
    # Of the run and not of this caller: whose it is decides where its worker finds it.
    origin = Call.new(tenant=header.tenant, traceparent=header.traceparent).origin()
    payload = name if leg.number else f"{name}\n{json.dumps(asdict(header))}"
    await bus.publish(run_subject(lane, header.depth), payload.encode(), message_id=message_id, headers=origin)


@dataclass
class Consumer:
    """Consumer of deliveries, also of other queues than that of runs."""

    _fetching: set[asyncio.Task[None]] = field(default_factory=set)

    async def consume(self, deliveries: AsyncGenerator[Delivery, None], slots: int, handle: Handle, log: Any) -> None:
        """Pass each delivery to ``handle``, at most ``slots`` at once, within the call that its headers tell.

        Return when the deliveries and all handlers have ended. Cancelling it cancels both.
        """
        async with asyncio.TaskGroup() as handlers:
            fetching = handlers.create_task(dispatch(deliveries, slots, handle, log, handlers))
            self._fetching.add(fetching)
            fetching.add_done_callback(self._fetching.discard)

    def stop_consuming(self) -> None:
        """Take no further delivery; running handlers continue, and ``consume`` returns when they end."""
        for fetching in self._fetching:
            fetching.cancel()


async def dispatch(
    deliveries: AsyncGenerator[Delivery, None], slots: int, handle: Handle, log: Any, handlers: asyncio.TaskGroup
) -> None:
    """Start a handler per delivery; log a failed one, so that it does not end the consumption."""
    free = asyncio.Semaphore(slots)

    async def run_handler(delivery: Delivery) -> None:
        try:
            # Whose work it is comes with the delivery: without its tenant, its records would not be found.
            with calling(Call.from_headers(delivery.headers)):
                await handle(delivery)
        except FathomError as error:
            # The bus delivers it again when its lease has expired.
            log.error("delivery could not be handled", subject=delivery.subject, error=error.message)
        finally:
            free.release()

    # A slot first, then a delivery: one that was fetched without a slot would wait here while its lease runs out.
    await free.acquire()
    async with aclosing(deliveries) as fetched:
        async for delivery in fetched:
            handlers.create_task(run_handler(delivery))
            await free.acquire()
