"""In-process bus with the semantics of JetStream, without a server."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from fathom.core.deadline import time_limit
from fathom.core.errors import NotReady
from fathom.transport.bus.base import Backlog, Closable, Handler, Message, StreamState
from fathom.transport.bus.claim import ClaimCheck
from fathom.transport.bus.delivery import Followed, Leased, seal_message
from fathom.transport.bus.keys import MemoryKeyValue
from fathom.transport.bus.log import Log
from fathom.transport.bus.serving import answer, drain, read_reply
from fathom.transport.bus.streams import Durable, Topology, checked_subject, followed_stream
from fathom.transport.store.base import ObjectStore

Reply = tuple[bytes, dict[str, str]]


class MemoryBus:
    """A ``Bus`` that ends with its process."""

    def __init__(self, store: ObjectStore, streams: Topology, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the time of leases and ages from ``clock``, in seconds, which must pace as the event loop does."""
        self._claims, self._streams, self._clock = ClaimCheck(store), streams, clock
        self._logs = {stream.name: Log(stream) for stream in streams.streams}
        self._buckets = {bucket.name: MemoryKeyValue(bucket, clock) for bucket in streams.buckets}
        # One condition for all streams: whoever waits looks again at its own; this bus serves tests and single
        # processes.
        self._changed = asyncio.Condition()
        self._servers: list[Server] = []
        self._turn = itertools.count()
        self._closed = False

    async def declare(self) -> None:
        """Do nothing: the streams exist from the start."""

    async def request(self, subject: str, payload: bytes, *, headers: Mapping[str, str], timeout_s: float) -> Message:
        self._check_open()
        checked_subject(subject)
        async with time_limit(timeout_s, message=f"{subject} did not answer within {timeout_s:g} s"):
            sealed, sent = await self._claims.seal(payload, headers)
            reply, replied = await self._first_reply(subject, sealed, sent)
            return await read_reply(self._claims, subject, reply, replied)

    async def _first_reply(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> Reply:
        groups: dict[str, list[Server]] = {}
        for server in self._servers:
            if server.subject == subject:
                groups.setdefault(server.queue, []).append(server)
        if not groups:
            raise NotReady(f"nobody serves {subject}")
        turn = next(self._turn)
        # As on a server, every group gets the request, one member of it each, and the first reply counts.
        running = [members[turn % len(members)].start(self._claims, payload, headers) for members in groups.values()]
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        task = next(iter(done))
        if task.cancelled():
            raise NotReady(f"the server of {subject} closed")
        return task.result()

    async def serve(self, subject: str, queue: str, handler: Handler) -> Closable:
        self._check_open()
        server = Server(checked_subject(subject), queue, handler, self._servers)
        self._servers.append(server)
        return server

    async def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        message_id: str,
        headers: Mapping[str, str] | None = None,
        expected: int | None = None,
    ) -> int:
        sealed, sent = await seal_message(self._claims, self._streams, subject, payload, message_id, headers or {})
        return await self._store(subject, sealed, sent, message_id, expected)

    async def _store(
        self,
        subject: str,
        payload: bytes,
        headers: Mapping[str, str],
        message_id: str,
        expected: int | None = None,
    ) -> int:
        self._check_open()
        log = self._logs[self._streams.stream_of(subject).name]
        sequence = log.append(Message(subject, payload, dict(headers)), message_id, self._clock(), expected)
        await self._wake()
        return sequence

    async def consume(self, durable: str) -> AsyncGenerator[Leased, None]:
        stream, wanted = self._streams.durable(durable)
        log = self._logs[stream.name]
        while not self._closed:
            leased = log.lease(wanted, self._clock())
            if leased is None:
                await self._wait(log.next_due_s(wanted))
                continue
            entry, attempt = leased
            settlement = MemorySettlement(log, wanted, entry.sequence, self._wake, self._clock)
            delivery = Leased(stream, wanted, entry.message, entry.sequence, attempt, settlement, self._store)
            if await delivery.admit(self._claims):
                yield delivery

    async def follow(self, subject: str, *, after: int = 0) -> AsyncGenerator[Followed, None]:
        log = self._logs[followed_stream(self._streams, subject, after).name]
        while not self._closed:
            entry = log.after(subject, after, self._clock())
            if entry is None:
                await self._wait(None)
                continue
            after = entry.sequence
            payload, headers = await self._claims.open(entry.message.payload, entry.message.headers)
            yield Followed(entry.message.subject, payload, entry.sequence, headers)

    async def last_sequence(self, subject: str) -> int:
        self._check_open()
        return self._logs[self._streams.stream_of(checked_subject(subject)).name].last(subject, self._clock())

    def bucket(self, name: str) -> MemoryKeyValue:
        return self._buckets[self._streams.bucket(name).name]

    async def states(self) -> Mapping[str, StreamState]:
        self._check_open()
        return {name: log.state(self._clock()) for name, log in self._logs.items()}

    async def backlog(self, durable: str) -> Backlog:
        self._check_open()
        stream, wanted = self._streams.durable(durable)
        return self._logs[stream.name].backlog(wanted, self._clock())

    async def close(self) -> None:
        self._closed = True
        for bucket in self._buckets.values():
            await bucket.close()
        await asyncio.gather(*(server.close() for server in list(self._servers)))
        await self._wake()

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _wait(self, until_s: float | None) -> None:
        """Wait for any change, at most until ``until_s``."""
        try:
            async with asyncio.timeout(None if until_s is None else until_s - self._clock()), self._changed:
                if not self._closed:
                    await self._changed.wait()
        except TimeoutError:
            return

    def _check_open(self) -> None:
        if self._closed:
            raise NotReady("the bus is closed")


@dataclass(frozen=True)
class MemorySettlement:
    """Settles one delivery in its log."""

    log: Log
    durable: Durable
    sequence: int
    wake: Callable[[], Awaitable[None]]
    clock: Callable[[], float]

    async def ack(self) -> None:
        self.log.settle(self.durable, self.sequence)
        await self.wake()

    async def term(self) -> None:
        await self.ack()

    async def nak(self, delay_s: float) -> None:
        self.log.due_at(self.durable, self.sequence, self.clock() + delay_s)
        await self.wake()

    async def in_progress(self) -> None:
        self.log.due_at(self.durable, self.sequence, self.clock() + self.durable.ack_wait_s)


@dataclass(eq=False)
class Server:
    """One member of a queue group."""

    subject: str
    queue: str
    handler: Handler
    members: list[Server]
    running: set[asyncio.Task[Reply]] = field(default_factory=set)
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def start(self, claims: ClaimCheck, payload: bytes, headers: Mapping[str, str]) -> asyncio.Task[Reply]:
        """Run the handler in the context of ``serve``, so that only the message reaches it from the caller."""
        work = answer(self.handler, claims, self.subject, payload, headers)
        task = asyncio.get_running_loop().create_task(work, context=self.context.copy())
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return task

    async def close(self) -> None:
        if self in self.members:
            self.members.remove(self)
        await drain(self.running)
