"""The bus of a cluster: NATS request/reply and JetStream."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.js.api import Header
from nats.js.errors import APIError, NoStreamResponseError

from fathom.core.deadline import time_limit
from fathom.core.errors import DeadlineExceeded, NotReady
from fathom.transport.bus.base import Backlog, Closable, Handler, Message, StreamState
from fathom.transport.bus.claim import ClaimCheck
from fathom.transport.bus.delivery import Followed, Leased, seal_message
from fathom.transport.bus.keys import full, written_meanwhile
from fathom.transport.bus.nats.cancellation import restore_cancellation
from fathom.transport.bus.nats.keys import WRONG_LAST_SEQUENCE, NatsKeyValue
from fathom.transport.bus.nats.link import CALL_TIMEOUT_S, Link
from fathom.transport.bus.nats.pull import JetStreamSettlement, replay, work
from fathom.transport.bus.nats.replies import Beats, Replies
from fathom.transport.bus.serving import answer, drain, read_reply
from fathom.transport.bus.streams import Topology, checked_subject, followed_stream
from fathom.transport.store.base import ObjectStore

# Seconds to subscribe at the start of a service. Longer than a call's, since nobody waits for it but the start: on a
# machine with fifteen others at work a flush took more than two seconds, and the service ended.
SERVE_TIMEOUT_S = 30
# What the server says of a stream that takes no more.
FULL = "maximum messages exceeded"


class NatsBus:
    """A ``Bus`` over one NATS connection."""

    def __init__(self, link: Link, store: ObjectStore, streams: Topology) -> None:
        self._link, self._claims, self._streams = link, ClaimCheck(store), streams
        self._replies = Replies(link.client)
        self._servers: set[NatsServing] = set()

    @classmethod
    async def open(cls, url: str, store: ObjectStore, streams: Topology) -> NatsBus:
        """Connect; see ``open_bus`` for the URL and the errors raised."""
        return cls(await Link.open(url), store, streams)

    async def declare(self) -> None:
        await self._link.declare(self._streams)

    async def request(self, subject: str, payload: bytes, *, headers: Mapping[str, str], timeout_s: float) -> Message:
        checked_subject(subject)
        reply: Msg | None = None
        try:
            async with time_limit(timeout_s, message=f"{subject} did not answer within {timeout_s:g} s"):
                sealed, sent = await self._claims.seal(payload, headers)
                await self._link.up()
                with restore_cancellation():
                    reply = await self._replies.request(subject, sealed, sent)
                return await read_reply(self._claims, subject, reply.data, reply.headers or {})
        except NoRespondersError:
            raise NotReady(f"nobody serves {subject}") from None
        except NatsError as error:
            raise NotReady(f"the bus is out of reach ({type(error).__name__})") from error
        except DeadlineExceeded:
            # Without a connection the time went by in waiting for the bus. A reply may carry this error, too.
            if reply is None and not self._link.connected.is_set():
                raise NotReady("the bus is out of reach") from None
            raise

    async def serve(self, subject: str, queue: str, handler: Handler) -> Closable:
        serving = NatsServing(self._link, self._claims, handler, self._servers)
        try:
            async with asyncio.timeout(SERVE_TIMEOUT_S):
                await self._link.up()
                with restore_cancellation():
                    await serving.start(checked_subject(subject), queue)
        except (NatsError, TimeoutError) as error:
            raise NotReady(f"the bus is out of reach ({type(error).__name__})") from error
        self._servers.add(serving)
        return serving

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
        stream = self._streams.stream_of(subject).name
        sent = {**headers, Header.MSG_ID.value: message_id}
        if expected is not None:
            sent[Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value] = str(expected)

        async def call() -> int:
            try:
                return await self._link.store(stream, subject, payload, sent)
            except NoStreamResponseError:
                # The server has lost its storage, or was never told of the stream.
                await self.declare()
                raise
            except APIError as error:
                if FULL in str(error.description):
                    raise full(stream) from error
                if expected is None or error.err_code not in WRONG_LAST_SEQUENCE:
                    raise
                # The confirmation of an earlier attempt may have been lost: then the last message is one's own.
                if (own := await self._link.find_own_message(stream, subject, message_id)) is not None:
                    return own
                raise written_meanwhile(subject, expected) from error

        sequence: int = await self._link.confirm(f"the message to {subject}", call)
        return sequence

    async def consume(self, durable: str) -> AsyncGenerator[Leased, None]:
        stream, wanted = self._streams.durable(durable)
        async with aclosing(work(self._link, self._streams, stream.name, durable)) as messages:
            async for message in messages:
                meta = message.metadata
                delivery = Leased(
                    stream,
                    wanted,
                    Message(message.subject, message.data, own_headers(message)),
                    meta.sequence.stream,
                    meta.num_delivered,
                    JetStreamSettlement(self._link, message),
                    self._store,
                )
                if await delivery.admit(self._claims):
                    yield delivery

    async def follow(self, subject: str, *, after: int = 0) -> AsyncGenerator[Followed, None]:
        stream = followed_stream(self._streams, subject, after)
        async with aclosing(replay(self._link, stream, subject, after)) as messages:
            async for message in messages:
                payload, headers = await self._claims.open(message.data, own_headers(message))
                yield Followed(message.subject, payload, message.metadata.sequence.stream, headers)

    async def last_sequence(self, subject: str) -> int:
        stream = self._streams.stream_of(checked_subject(subject)).name
        found: int = await self._link.confirm(
            f"the last message of {subject}", partial(self._link.find_last, stream, subject)
        )
        return found

    def bucket(self, name: str) -> NatsKeyValue:
        return NatsKeyValue(self._link, self._streams.bucket(name), self.declare)

    async def states(self) -> Mapping[str, StreamState]:
        return {stream.name: await self._link.state(stream.name) for stream in self._streams.streams}

    async def backlog(self, durable: str) -> Backlog:
        stream, wanted = self._streams.durable(durable)
        return await self._link.backlog(stream.name, wanted.name)

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in list(self._servers)))
        await self._link.close()


class NatsServing:
    """One member of a queue group; it leaves ``servers`` when it closes."""

    def __init__(self, link: Link, claims: ClaimCheck, handler: Handler, servers: set[NatsServing]) -> None:
        self._link, self._claims, self._handler, self._servers = link, claims, handler, servers
        self._running: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None

    async def start(self, subject: str, queue: str) -> None:
        """Subscribe; return when the server routes requests here."""
        self._subscription = await self._link.client.subscribe(subject, queue=queue, cb=self._accept)
        await self._link.client.flush(timeout=SERVE_TIMEOUT_S)

    async def _accept(self, message: Msg) -> None:
        task = asyncio.create_task(self._reply(message))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _reply(self, message: Msg) -> None:
        beats = Beats(self._link.client, message)
        try:
            payload, headers = await answer(
                self._handler, self._claims, message.subject, message.data, own_headers(message)
            )
        finally:
            beats.stop()
        # Without a connection the reply is lost; the requester's deadline and retry cover that.
        with contextlib.suppress(NatsError):
            await self._link.client.publish(message.reply, payload, headers=headers)

    async def close(self) -> None:
        # First: a run serves its control requests, and what the handler holds is the whole run.
        self._servers.discard(self)
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            # Drain: the server routes nothing here any more, what has arrived is still answered.
            with contextlib.suppress(NatsError, TimeoutError):
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    with restore_cancellation():
                        await subscription.drain()  # type: ignore[no-untyped-call]
        await drain(self._running)
        if self._link.connected.is_set() and not self._link.is_closed:
            with contextlib.suppress(NatsError, TimeoutError):
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    with restore_cancellation():
                        await self._link.client.flush()


def own_headers(message: Msg) -> dict[str, str]:
    """Return the sender's headers without those of NATS."""
    return {name: value for name, value in (message.headers or {}).items() if not name.lower().startswith("nats-")}
