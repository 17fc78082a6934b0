"""What a bus does, whichever carries it: request/reply between services, durable streams, values by key."""

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

    Settling twice raises ``Conflict``; settling while the server is out of reach raises ``NotReady``
    after a bounded wait, and the message comes again.
    """

    @property
    def subject(self) -> str: ...

    @property
    def payload(self) -> bytes: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def sequence(self) -> int:
        """Position in the stream, from 1, growing, not without gaps per subject."""
        ...

    @property
    def attempt(self) -> int:
        """1 for the first delivery, n after n - 1 redeliveries; a server that crashes may forget the latest ones."""
        ...

    async def ack(self) -> None:
        """Done: returns when the server has confirmed that the message will not come again."""
        ...

    async def nak(self, delay_s: float = 0) -> None:
        """Not done: the message comes again, to any worker, after ``delay_s`` seconds."""
        ...

    async def in_progress(self) -> None:
        """Still at work: the time until redelivery starts anew. No effect once settled."""
        ...

    async def dead_letter(self, reason: str) -> None:
        """Never to be done: copies the message to DEAD_LETTERS, then ends it here."""
        ...


@dataclass(frozen=True)
class Entry:
    """The value of a key. ``revision`` grows with every change in its bucket; ``value`` is None when deleted."""

    key: str
    value: bytes | None
    revision: int


class KeyValue(Protocol):
    """Values by key with compare-and-set: one truth for many readers.

    Keys are dotted paths of letters, digits and '_=/-' (``InvalidField("key")``); values have at most 64 KiB
    (``PayloadTooLarge``). Raises ``NotReady`` when the server does not confirm after bounded retries.
    """

    async def get(self, key: str) -> Entry | None:
        """The present value; None when there is none, or when it was deleted."""
        ...

    async def put(self, key: str, value: bytes, *, revision: int | None = None) -> int:
        """Sets a value and returns its revision.

        With ``revision``: only while that is the key's present one, 0 for a key without a value; else ``Conflict``.
        """
        ...

    async def delete(self, key: str, *, revision: int | None = None) -> int:
        """Ends a key, likewise; watchers see an entry without a value."""
        ...

    async def keys(self) -> list[str]:
        """Keys that were ever set, sorted; of a deleted one ``get`` gives None."""
        ...

    def watch(self) -> AsyncGenerator[Entry, None]:
        """Every key's present entry, then each change, until closed; outlives restarts of the server.

        Entries of a key come in order. Older ones may precede the present one, and deleted ones are told.
        """
        ...


class Closable(Protocol):
    """Something that was opened."""

    async def close(self) -> None: ...


@dataclass(frozen=True)
class StreamState:
    """What a stream holds now. In a work queue that is what is not done yet; ``oldest_s`` is 0 for an empty one."""

    messages: int
    size_bytes: int
    oldest_s: float


class Bus(Protocol):
    """Request/reply and streams. Payloads over 512 KiB travel through the object store by themselves.

    Subjects come from ``fathom.bus.streams``. Raises ``PayloadTooLarge`` above 32 MiB and
    ``InvalidField`` for a malformed subject or header, before anything is sent.
    """

    async def declare(self) -> None:
        """Creates every stream and durable that ``fathom.bus.streams`` lists, or updates them. Idempotent."""
        ...

    async def request(self, subject: str, payload: bytes, *, headers: Mapping[str, str], timeout_s: float) -> Message:
        """One reply. Raises ``NotReady`` when nobody serves the subject, ``DeadlineExceeded`` after ``timeout_s``,
        ``CorruptData`` when request or reply did not survive, ``Internal`` when the handler raised.
        """
        ...

    async def serve(self, subject: str, queue: str, handler: Handler) -> Closable:
        """Answers requests, sharing them with all that serve under the same ``queue``.

        Handlers run concurrently, one task per request. ``close`` takes no more requests and waits
        for the running ones.
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
        """Stores a message in the stream of its subject and returns its sequence once it is stored.

        The same ``message_id`` within the stream's duplicate window is stored once and gives the
        same sequence. With ``expected``: only while that is the sequence of the subject's last message (0 for none),
        else ``Conflict``. Raises ``NotReady`` when the stream does not confirm after bounded retries, and
        ``Overloaded`` when a work queue holds all that it may.
        """
        ...

    def consume(self, durable: str) -> AsyncGenerator[Delivery, None]:
        """Work from a durable, one message at a time, until closed; outlives restarts of the server.

        Messages that were delivered too often or cannot be read go to DEAD_LETTERS by themselves.
        Raises ``NotFound`` for an undeclared durable.
        """
        ...

    def follow(self, subject: str, *, after: int = 0) -> AsyncGenerator[Delivery, None]:
        """Every stored message of a subject with a sequence above ``after``, in order, then new ones as they come.

        ``subject`` may have wildcards within one stream of limits retention. Needs no ack: ``attempt``
        is 1, ``ack`` and ``in_progress`` do nothing, ``nak`` and ``dead_letter`` raise ``Conflict``.
        """
        ...

    def bucket(self, name: str) -> KeyValue:
        """A declared bucket; raises ``NotFound``."""
        ...

    async def states(self) -> Mapping[str, StreamState]:
        """Every stream by name. Raises ``NotReady`` or ``DependencyFailed`` when the server does not say."""
        ...

    async def close(self) -> None:
        """Ends all consumers and servers of this bus and disconnects."""
        ...
