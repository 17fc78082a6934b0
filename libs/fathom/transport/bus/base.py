"""Interface of every bus: request/reply between services, durable streams, key-value buckets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol


@dataclass(frozen=True)
class Message:
    """One message. Header names and values are printable text without line breaks."""

    subject: str
    payload: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


Handler = Callable[[Message], Awaitable[Message]]


class Delivery(Protocol):
    """A message from a stream, delivered at least once. Settle it once: ``ack``, ``nak`` or ``dead_letter``.

    Settling twice raises ``Conflict``; settling while the server is unreachable raises ``NotReady`` after a bounded
    wait, and the message is redelivered.
    """

    @property
    def subject(self) -> str: ...

    @property
    def payload(self) -> bytes: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def sequence(self) -> int:
        """Position in the stream, from 1; it increases, with gaps per subject."""
        ...

    @property
    def attempt(self) -> int:
        """Delivery attempt, 1 for the first; a server that crashes may forget the latest redeliveries."""
        ...

    async def ack(self) -> None:
        """Mark the message as done; return when the server has confirmed that it will not be redelivered."""
        ...

    async def nak(self, delay_s: float = 0) -> None:
        """Return the message undone: it is redelivered, to any worker, after ``delay_s`` seconds."""
        ...

    async def in_progress(self) -> None:
        """Restart the redelivery timer of a message that is still being processed. No effect once settled."""
        ...

    async def dead_letter(self, reason: str) -> None:
        """Give the message up: copy it to DEAD_LETTERS, then remove it here."""
        ...


@dataclass(frozen=True)
class Entry:
    """The value of a key. ``revision`` grows with every change in its bucket; ``value`` is None when deleted."""

    key: str
    value: bytes | None
    revision: int


class KeyValue(Protocol):
    """Key-value store with compare-and-set, shared by many readers.

    Keys are dotted paths of letters, digits and '_=/-' (``InvalidField("key")``); values have at most 64 KiB
    (``PayloadTooLarge``). Raises ``NotReady`` when the server does not confirm after bounded retries.
    """

    async def get(self, key: str) -> Entry | None:
        """Return the current value; None when there is none, or when it was deleted."""
        ...

    async def put(self, key: str, value: bytes, *, revision: int | None = None) -> int:
        """Set a value and return its revision.

        With ``revision``, set it only while that is the key's current one (0 for a key without a value); otherwise
        raise ``Conflict``.
        """
        ...

    async def delete(self, key: str, *, revision: int | None = None) -> int:
        """Delete a key and return the revision; watchers see an entry without a value.

        ``revision`` works as in ``put``.
        """
        ...

    async def keys(self) -> list[str]:
        """Return all keys ever set, sorted; for a deleted one ``get`` returns None."""
        ...

    def watch(self) -> AsyncGenerator[Entry, None]:
        """Yield every key's current entry, then each change, until closed; survives restarts of the server.

        Entries of a key come in order. Older entries may precede the current one, and deletions are included.
        """
        ...


class Closable(Protocol):
    """Anything that must be closed after use."""

    async def close(self) -> None: ...


@dataclass(frozen=True)
class StreamState:
    """Current contents of a stream; for a work queue, the work not done yet. ``oldest_s`` is 0 for an empty stream."""

    messages: int
    size_bytes: int
    oldest_s: float


@dataclass(frozen=True)
class Backlog:
    """Work of a durable: messages never delivered, those delivered and not settled, and deliveries made so far."""

    waiting: int
    running: int
    delivered: int


class Bus(Protocol):
    """Request/reply and streams. Payloads over 512 KiB are passed through the object store automatically.

    Subjects come from ``fathom.transport.bus.streams``. Raises ``PayloadTooLarge`` above 32 MiB and ``InvalidField``
    for a malformed subject or header, before anything is sent.
    """

    async def declare(self) -> None:
        """Create or update every stream and durable that ``fathom.transport.bus.streams`` lists. Idempotent."""
        ...

    async def request(self, subject: str, payload: bytes, *, headers: Mapping[str, str], timeout_s: float) -> Message:
        """Send a request and return its reply.

        Raises ``NotReady`` when no server handles the subject, ``DeadlineExceeded`` after ``timeout_s``,
        ``CorruptData`` when the payload of request or reply cannot be restored, ``Internal`` when the handler raised.
        """
        ...

    async def serve(self, subject: str, queue: str, handler: Handler) -> Closable:
        """Answer requests, sharing them with all servers of the same ``queue``.

        Handlers run concurrently, one task per request. ``close`` accepts no more requests and waits for the running
        ones.
        """
        ...

    async def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        message_id: str,
        headers: Mapping[str, str] | None = None,
        expected: int | None = None,
    ) -> int:
        """Store a message in the stream of its subject and return its sequence once it is stored.

        The same ``message_id`` within the stream's duplicate window is stored once and returns the same sequence. With
        ``expected``, store only while that is the sequence of the subject's last message (0 for none); otherwise raise
        ``Conflict``. Raises ``NotReady`` when the stream does not confirm after bounded retries, and ``Overloaded``
        when a work queue is full.
        """
        ...

    def consume(self, durable: str) -> AsyncGenerator[Delivery, None]:
        """Yield work from a durable, one message at a time, until closed; survives restarts of the server.

        Messages that were delivered too often or cannot be read are moved to DEAD_LETTERS automatically. Raises
        ``NotFound`` for an undeclared durable.
        """
        ...

    def follow(self, subject: str, *, after: int = 0) -> AsyncGenerator[Delivery, None]:
        """Yield every stored message of a subject with a sequence above ``after``, in order, then new ones.

        ``subject`` may have wildcards within one stream of limits retention. Needs no ack: ``attempt`` is 1, ``ack``
        and ``in_progress`` do nothing, ``nak`` and ``dead_letter`` raise ``Conflict``.
        """
        ...

    async def last_sequence(self, subject: str) -> int:
        """Return the sequence of the last message of a concrete subject, 0 for none.

        Raises ``NotReady`` when the server does not answer after bounded retries.
        """
        ...

    def bucket(self, name: str) -> KeyValue:
        """Return a declared bucket; raise ``NotFound`` for any other name."""
        ...

    async def states(self) -> Mapping[str, StreamState]:
        """Return the state of every stream by name.

        Raises ``NotReady`` or ``DependencyFailed`` when the server does not report it.
        """
        ...

    async def backlog(self, durable: str) -> Backlog:
        """Return the work of a durable; raise ``NotFound`` for an undeclared one, and ``NotReady``."""
        ...

    async def close(self) -> None:
        """End all consumers and servers of this bus and disconnect."""
        ...
