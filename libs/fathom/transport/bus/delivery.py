"""Deliveries and their settlement, the same for every bus: settled once, never lost, given up into DEAD_LETTERS."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from fathom.core.errors import Conflict, CorruptData, FathomError, InvalidField, PayloadTooLarge
from fathom.transport.bus.base import Message
from fathom.transport.bus.claim import CLAIM_HEADER, ClaimCheck
from fathom.transport.bus.streams import (
    Durable,
    Stream,
    Topology,
    checked_message_id,
    checked_subject,
    dead_subject,
)

DEAD_REASON = "fathom-dead-reason"
DEAD_STREAM = "fathom-dead-stream"
DEAD_SUBJECT = "fathom-dead-subject"
DEAD_SEQUENCE = "fathom-dead-sequence"
DEAD_ATTEMPTS = "fathom-dead-attempts"
# A dead letter keeps its claim unopened: reading dead letters must not fail on the one that died of it.
DEAD_CLAIM = "fathom-dead-claim"
# NATS headers are lines of text and share the message's size with it.
MAX_REASON = 1000
STORE_RETRY_S = 1.0

# Stores a message as it travels: subject, payload, headers, message id.
Bury = Callable[[str, bytes, Mapping[str, str], str], Awaitable[int]]


async def seal_message(
    claims: ClaimCheck, streams: Topology, subject: str, payload: bytes, message_id: str, headers: Mapping[str, str]
) -> tuple[bytes, dict[str, str]]:
    """Return payload and headers of a message to a stream as they are sent; see ``Bus.publish`` for the errors."""
    # Checked before a large payload is stored, which nothing would refer to.
    checked_subject(subject)
    checked_message_id(message_id)
    streams.stream_of(subject)
    return await claims.seal(payload, headers)


class Settlement(Protocol):
    """Transport-specific settlement of one delivery."""

    async def ack(self) -> None: ...

    async def nak(self, delay_s: float) -> None: ...

    async def in_progress(self) -> None: ...

    async def term(self) -> None: ...


class Leased:
    """A ``Delivery`` of a durable. ``raw`` is the message as sent, with its claim unopened."""

    def __init__(
        self, stream: Stream, durable: Durable, raw: Message, sequence: int, attempt: int,
        settlement: Settlement, bury: Bury,
    ) -> None:  # fmt: skip
        self.subject, self.payload, self.headers = raw.subject, raw.payload, raw.headers
        self.sequence, self.attempt = sequence, attempt
        self._stream, self._durable, self._raw = stream, durable, raw
        self._settlement, self._bury = settlement, bury
        self._settled = False

    async def ack(self) -> None:
        await self._settle(self._settlement.ack)

    async def nak(self, delay_s: float = 0) -> None:
        if not 0 <= delay_s < math.inf:
            raise InvalidField("delay_s", "must be a number of seconds, 0 or more")
        await self._settle(lambda: self._settlement.nak(delay_s))

    async def in_progress(self) -> None:
        # A heartbeat may come a moment after the end; it must not fail the work that is done.
        if not self._settled:
            await self._settlement.in_progress()

    async def dead_letter(self, reason: str) -> None:
        await self._settle(lambda: self._die(reason))

    async def admit(self, claims: ClaimCheck) -> bool:
        """Return True if the message can be given to a worker.

        Otherwise dead-letter it, or return it to the queue while the store is unreachable. Where that fails too, the
        message stays unsettled and the server delivers it again.
        """
        try:
            if self.attempt > self._durable.max_deliver:
                await self.dead_letter(f"not settled after {self._durable.max_deliver} deliveries")
                return False
            try:
                self.payload, self.headers = await claims.open(self._raw.payload, self._raw.headers)
            except (CorruptData, PayloadTooLarge) as error:
                await self.dead_letter(f"{error.reason}: {error.message}")
                return False
        except FathomError:
            await self._give_back()
            return False
        return True

    async def _give_back(self) -> None:
        try:
            await self.nak(STORE_RETRY_S)
        except FathomError:
            return

    async def _die(self, reason: str) -> None:
        headers = {name: value for name, value in self._raw.headers.items() if name != CLAIM_HEADER}
        if CLAIM_HEADER in self._raw.headers:
            headers[DEAD_CLAIM] = self._raw.headers[CLAIM_HEADER]
        one_line = " ".join(reason.split())[:MAX_REASON].encode("ascii", "backslashreplace").decode()
        headers |= {
            DEAD_REASON: one_line,
            DEAD_STREAM: self._stream.name,
            DEAD_SUBJECT: self.subject,
            DEAD_SEQUENCE: str(self.sequence),
            DEAD_ATTEMPTS: str(self.attempt),
        }
        # Copied and confirmed first: ending it before would lose it in a crash between the two.
        await self._bury(
            dead_subject(self._stream.name, self._durable.name),
            self._raw.payload,
            headers,
            f"{self._stream.name}:{self._durable.name}:{self.sequence}",
        )
        await self._settlement.term()

    async def _settle(self, end: Callable[[], Awaitable[None]]) -> None:
        if self._settled:
            raise Conflict(f"message {self.sequence} of {self._stream.name} is already settled")
        # Set before the attempt, so that a second settlement meanwhile is refused.
        self._settled = True
        try:
            await end()
        # A cancellation counts too: nothing says that the server was told, so that the attempt may be repeated.
        except BaseException:
            self._settled = False
            raise


@dataclass(frozen=True)
class Followed:
    """A ``Delivery`` of a replay, which does not change the stream."""

    subject: str
    payload: bytes
    sequence: int
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    attempt: int = 1

    async def ack(self) -> None:
        """Do nothing: a replayed message needs no confirmation."""

    async def in_progress(self) -> None:
        """Do nothing: a replayed message has no redelivery timer."""

    async def nak(self, delay_s: float = 0) -> None:
        raise Conflict("a followed message is not delivered again: follow anew from its sequence")

    async def dead_letter(self, reason: str) -> None:
        raise Conflict("a followed message stays in its stream")
