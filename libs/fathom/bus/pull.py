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

from fathom.bus.link import BACKOFF_S, MAX_BACKOFF_S, Link
from fathom.bus.streams import Stream, Topology
from fathom.errors import FathomError, NotReady

# How long one pull request waits on the server; a request that a restart has lost costs at most this.
PULL_WAIT_S = 2.0
# A reader that is slower than this loses its consumer, not its place: it gets a new one.
INACTIVE_S = 60.0


class Gone(Exception):
    """The consumer no longer exists."""


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
        return (await subscription.fetch(1, timeout=PULL_WAIT_S))[0]
    except ConnectionClosedError as error:
        raise NotReady("the bus is closed") from error
    except TimeoutError:
        return None
    except APIError as error:
        raise Gone from error


async def work(link: Link, streams: Topology, stream: str, durable: str) -> AsyncGenerator[Msg, None]:
    """Yield the messages of a durable, one pull per message, until the link closes.

    A durable that was lost with its server's storage is declared again.
    """
    delay_s = BACKOFF_S
    async with pulling(link, stream, durable) as subscription:
        while not link.closed:
            try:
                message = await pull(link, subscription)
            except Gone:
                # Also what a server says that is still starting; then this fails and is tried again.
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, MAX_BACKOFF_S)
                with contextlib.suppress(FathomError):
                    await link.declare(streams)
                continue
            except NotReady:
                return
            delay_s = BACKOFF_S
            if message is not None:
                yield message


async def replay(link: Link, stream: Stream, subject: str, after: int) -> AsyncGenerator[Msg, None]:
    """Yield the messages of a subject above ``after`` in order without gaps, then new ones, until the link closes."""
    while not link.closed:
        try:
            async with aclosing(replay_once(link, stream, subject, after)) as messages:
                async for message in messages:
                    after = message.metadata.sequence.stream
                    yield message
        except NotReady:
            if not link.closed:
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
    await link.confirmed(f"following {subject}", lambda: link.jetstream.add_consumer(stream.name, config))
    epoch, expected = link.epoch, 1
    try:
        async with pulling(link, stream.name, name) as subscription:
            while link.epoch == epoch:
                message = await pull(link, subscription)
                if message is None:
                    continue
                if message.metadata.sequence.consumer != expected:
                    return
                expected += 1
                yield message
    except Gone:
        return
    finally:
        if link.connected.is_set() and not link.closed:
            with contextlib.suppress(NatsError, TimeoutError):
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
