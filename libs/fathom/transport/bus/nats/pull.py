"""Pulling from JetStream: durables for work, ephemeral consumers for replay."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError

from fathom.core.errors import FathomError, NotReady
from fathom.core.retry import Retries
from fathom.transport.bus.nats.cancellation import restore_cancellation
from fathom.transport.bus.nats.link import RETRY, Link
from fathom.transport.bus.streams import Stream, Topology

# How long one pull request waits on the server; a request that a restart has lost costs at most this.
PULL_WAIT_S = 2.0
# A reader that is slower than this loses its consumer, not its place: it gets a new one.
INACTIVE_S = 60.0


class Gone(NotReady):
    """The consumer no longer exists; it can be declared again."""


@asynccontextmanager
async def pulling(link: Link, stream: str, consumer: str) -> AsyncIterator[JetStreamContext.PullSubscription]:
    """Open an inbox for one consumer's messages; unsubscribe at the end."""
    subscription = await link.jetstream.pull_subscribe_bind(consumer=consumer, stream=stream)
    try:
        yield subscription
    finally:
        with contextlib.suppress(NatsError):
            await subscription.unsubscribe()


async def pull(link: Link, subscription: JetStreamContext.PullSubscription) -> Msg | None:
    """Return the next message, or None after ``PULL_WAIT_S``; raise ``Gone`` or ``NotReady`` (closed)."""
    await link.up()
    try:
        with restore_cancellation():
            return (await subscription.fetch(1, timeout=PULL_WAIT_S))[0]
    except ConnectionClosedError as error:
        raise NotReady("the bus is closed") from error
    except TimeoutError:
        return None
    except APIError as error:
        raise Gone(f"the consumer is gone: {error.description}") from error


async def work(link: Link, streams: Topology, stream: str, durable: str) -> AsyncGenerator[Msg, None]:
    """Yield the messages of a durable, one pull per message, until the link closes.

    A durable that was lost with its server's storage is declared again.
    """
    retries = Retries(RETRY)
    async with pulling(link, stream, durable) as subscription:
        while not link.is_closed:
            try:
                message = await pull(link, subscription)
            except Gone as error:
                # Also what a server says that is still starting; then this fails and is tried again.
                await asyncio.sleep(retries.next_delay_s(error))
                with contextlib.suppress(FathomError):
                    await link.declare(streams)
                continue
            except NotReady:
                return
            retries.reset()
            if message is not None:
                yield message


async def replay(link: Link, stream: Stream, subject: str, after: int) -> AsyncGenerator[Msg, None]:
    """Yield the messages of a subject above ``after`` in order without gaps, then new ones, until the link closes."""
    while not link.is_closed:
        try:
            async with aclosing(replay_once(link, stream, subject, after)) as messages:
                async for message in messages:
                    after = message.metadata.sequence.stream
                    yield message
        except NotReady:
            if not link.is_closed:
                raise
            return


async def replay_once(link: Link, stream: Stream, subject: str, after: int) -> AsyncGenerator[Msg, None]:
    """Yield messages from one ephemeral consumer; end when it is gone or may have lost a message."""
    name = f"follow-{secrets.token_hex(8)}"
    config = ConsumerConfig(
        name=name,
        filter_subject=subject,
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=after + 1,
        ack_policy=AckPolicy.NONE,
        inactive_threshold=INACTIVE_S,
        mem_storage=True,
        num_replicas=1,
    )
    await link.confirm(f"following {subject}", lambda: link.jetstream.add_consumer(stream.name, config))
    epoch, expected = link.epoch, 1
    try:
        async with pulling(link, stream.name, name) as subscription:
            while link.epoch == epoch:
                message = await pull(link, subscription)
                if message is None:
                    continue
                # A gap: the server sent a message that did not arrive here, e.g. while the connection changed; it is
                # read again.
                if message.metadata.sequence.consumer != expected:
                    return
                expected += 1
                yield message
    except Gone:
        return
    finally:
        if link.connected.is_set() and not link.is_closed:
            with contextlib.suppress(NatsError, TimeoutError), restore_cancellation():
                await link.jetstream.delete_consumer(stream.name, name)


@dataclass(frozen=True)
class JetStreamSettlement:
    """Settles one delivery on the server."""

    link: Link
    message: Msg

    async def ack(self) -> None:
        await self.link.settle(self.message, Msg.Ack.Ack)

    async def term(self) -> None:
        await self.link.settle(self.message, Msg.Ack.Term)

    async def nak(self, delay_s: float) -> None:
        delay = b" " + json.dumps({"delay": int(delay_s * 1e9)}).encode() if delay_s else b""
        await self.link.settle(self.message, Msg.Ack.Nak + delay)

    async def in_progress(self) -> None:
        await self.link.settle(self.message, Msg.Ack.Progress)
