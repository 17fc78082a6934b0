"""One connection to a NATS server that reconnects indefinitely and sends nothing while disconnected.

nats-py buffers what is published while it reconnects. Buffered pull requests would all be answered at once afterwards,
with no reader left, so everything here waits for the connection instead, each call within its own deadline.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, DiscardPolicy, Header, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, BadRequestError, NotFoundError

from fathom.core.config import ConfigError
from fathom.core.deadline import time_limit
from fathom.core.errors import DeadlineExceeded, DependencyFailed, FathomError, NotReady
from fathom.core.retry import RetryPolicy, retry
from fathom.transport.bus.base import Backlog, StreamState
from fathom.transport.bus.claim import MAX_HEADER_BYTES, THRESHOLD
from fathom.transport.bus.nats.cancellation import restore_cancellation
from fathom.transport.bus.serving import LOGGER
from fathom.transport.bus.streams import Bucket, Durable, Retention, Stream, Topology
from fathom.transport.tls import Certificates, load_into

# Seconds for the first connection, of all servers of the URL together; each try of one ends after CONNECT_TIMEOUT_S.
OPEN_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 2
RECONNECT_WAIT_S = 0.2
# nats-py gives a connection up after two pings without an answer: a server that vanished is noticed within half a
# minute.
PING_INTERVAL_S = 10
# Seconds of one attempt; a server answers in milliseconds, and within CONFIRM_TIMEOUT_S there is room for several.
CALL_TIMEOUT_S = 2.0
# All attempts of one stored message, one settlement or one declaration together.
CONFIRM_TIMEOUT_S = 10.0
RETRY = RetryPolicy(attempts=None, first_delay_s=0.1, max_delay_s=1.0)
# Answers of a server that has not finished starting: JetStream unavailable, stream or consumer offline.
UNAVAILABLE = 503
STREAM_EXISTS_WITH_OTHER_SETTINGS = 10058


class Unconfirmed(NotReady):
    """The server did not confirm an attempt; the next one may be confirmed."""


class Link:
    """A connected client with JetStream; ``connected`` is set while a server is reachable."""

    def __init__(self, replicas: int, trust: Trust | None = None) -> None:
        self.client = Client()
        self._trust = trust
        self.connected = asyncio.Event()
        # Counts the connections; a reader that sees it change has perhaps missed messages and begins anew.
        self.epoch = 0
        self.replicas = replicas
        self._log = logging.getLogger(LOGGER)

    @classmethod
    async def open(cls, url: str) -> Link:
        """Connect to ``nats://host:port[,host:port]?replicas=1&ca=FILE&tls=FOLDER``; raises as ``open_bus`` does.

        ``ca`` is trusted in addition to the system's authorities; ``tls`` has the certificate to show.

        Without a login in the URL, ``NATS_USER`` and ``NATS_PASSWORD`` are used, which may hold any character.
        """
        servers, replicas, ca, folder = read_url(url)
        trust = Trust(ca, Certificates.open(folder)) if ca or folder else None
        link = cls(replicas, trust)
        try:
            await link._connect(servers, trust.context if trust is not None else None)
        except (TimeoutError, NatsError, OSError) as error:
            with suppress(AssertionError):  # nats-py's, for a client that never had a connection
                await link.client.close()
            raise NotReady(f"no NATS server answers at {', '.join(map(without_secret, servers))}") from error
        # Told at the start: otherwise the first large message would fail, at some time, for no visible reason.
        if link.client.max_payload < THRESHOLD + 2 * MAX_HEADER_BYTES:
            await link.close()
            raise ConfigError(
                f"bus_url: the server's max_payload of {link.client.max_payload:,} bytes is too small",
                metadata={"field": "bus_url"},
            )
        link.connected.set()
        return link

    async def _connect(self, servers: list[str], trust: ssl.SSLContext | None) -> None:
        """Connect within ``OPEN_TIMEOUT_S``; raise ``TimeoutError`` after that time, or nats-py's own errors."""
        connecting = asyncio.create_task(
            self.client.connect(
                servers,
                tls=trust,
                user=os.environ.get("NATS_USER"),
                password=os.environ.get("NATS_PASSWORD"),
                connect_timeout=CONNECT_TIMEOUT_S,
                reconnect_time_wait=RECONNECT_WAIT_S,  # type: ignore[arg-type]  # seconds, fractions work
                max_reconnect_attempts=-1,
                ping_interval=PING_INTERVAL_S,
                error_cb=self._on_error,
                disconnected_cb=self._on_disconnect,
                reconnected_cb=self._on_reconnect,
            )
        )
        try:
            await asyncio.wait({connecting}, timeout=OPEN_TIMEOUT_S)
        finally:
            # A lone cancellation may be lost, see ``restore_cancellation``: nats-py meets the server's refusal instead
            # and tries the next server, for ever. Hence again until the task has ended.
            while not connecting.done():
                connecting.cancel()
                await asyncio.wait({connecting}, timeout=RECONNECT_WAIT_S)
        if connecting.cancelled():
            raise TimeoutError
        connecting.result()

    @property
    def jetstream(self) -> JetStreamContext:
        """JetStream context whose calls each end after ``CALL_TIMEOUT_S``."""
        return self.client.jetstream(timeout=CALL_TIMEOUT_S)

    @property
    def is_closed(self) -> bool:
        return self.client.is_closed

    async def close(self) -> None:
        await self.client.close()
        # Whoever waits for the connection has to see that it will not come back.
        self.connected.set()

    async def up(self) -> None:
        """Wait until connected; raise ``NotReady`` when closed. The caller sets the deadline."""
        await self.connected.wait()
        if self.is_closed:
            raise NotReady("the bus is closed")

    async def confirm(self, what: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Repeat an idempotent ``call`` until the server confirms it, for at most ``CONFIRM_TIMEOUT_S`` seconds.

        Raises ``NotReady`` after that time, and ``DependencyFailed("bus")`` at once for an error that a retry cannot
        fix.
        """
        cause = "no connection"

        async def attempt() -> Any:
            nonlocal cause
            await self.up()
            with restore_cancellation():
                try:
                    return await call()
                except APIError as error:
                    if error.code != UNAVAILABLE:
                        raise DependencyFailed("bus", f"{what}: {error.description}") from error
                    cause = str(error.description)
                    raise Unconfirmed(cause) from error
                except (NatsError, TimeoutError) as error:
                    cause = type(error).__name__
                    raise Unconfirmed(cause) from error

        try:
            async with time_limit(CONFIRM_TIMEOUT_S, "bus"):
                return await retry(attempt, RETRY, None, lambda error: isinstance(error, Unconfirmed))
        except (DeadlineExceeded, Unconfirmed):
            raise NotReady(f"{what} was not confirmed within {CONFIRM_TIMEOUT_S:g} s ({cause})") from None

    async def declare(self, streams: Topology) -> None:
        """Create or update streams, durables and buckets."""
        for stream in streams.streams:
            await self.confirm(f"stream {stream.name}", partial(self._declare, stream_config(stream, self.replicas)))
            for durable in stream.durables:
                add = partial(self.jetstream.add_consumer, stream.name, consumer_config(durable))
                await self.confirm(f"durable {durable.name}", add)
        for bucket in streams.buckets:
            await self.confirm(f"bucket {bucket.name}", partial(self._declare, bucket_config(bucket, self.replicas)))

    async def _declare(self, config: StreamConfig) -> None:
        try:
            await self.jetstream.add_stream(config)
        except BadRequestError as error:
            if error.err_code != STREAM_EXISTS_WITH_OTHER_SETTINGS:
                raise
            await self.jetstream.update_stream(config)

    async def store(self, stream: str, subject: str, payload: bytes, headers: Mapping[str, str]) -> int:
        """Publish once to a stream and return the sequence; raises nats-py's own errors."""
        ack = await self.jetstream.publish(subject, payload, timeout=CALL_TIMEOUT_S, stream=stream, headers={**headers})
        return ack.seq

    async def find_own_message(self, stream: str, subject: str, message_id: str) -> int | None:
        """Return the sequence of the subject's last message if it has this id, otherwise None."""
        try:
            found = await self.jetstream.get_last_msg(stream, subject)
        except NotFoundError:
            return None
        return found.seq if (found.headers or {}).get(Header.MSG_ID.value) == message_id else None

    async def find_last(self, stream: str, subject: str) -> int:
        """Return the sequence of the subject's last message, 0 for none."""
        try:
            return (await self.jetstream.get_last_msg(stream, subject)).seq or 0
        except NotFoundError:
            return 0

    async def state(self, name: str) -> StreamState:
        """Return the message count, size and age of a stream."""

        async def call() -> StreamState:
            # nats-py drops the times; the server's own clock says both.
            reply = await self.client.request(f"$JS.API.STREAM.INFO.{name}", b"", timeout=CALL_TIMEOUT_S)
            said = json.loads(reply.data)
            if "error" in said:
                raise DependencyFailed("bus", f"stream {name}: {said['error'].get('description')}")
            held = said["state"]
            age = datetime.fromisoformat(said["ts"]) - datetime.fromisoformat(held["first_ts"])
            return StreamState(held["messages"], held["bytes"], age.total_seconds() if held["messages"] else 0.0)

        found: StreamState = await self.confirm(f"the state of {name}", call)
        return found

    async def backlog(self, stream: str, durable: str) -> Backlog:
        """Return the work of a durable."""

        async def call() -> Backlog:
            info = await self.jetstream.consumer_info(stream, durable, timeout=CALL_TIMEOUT_S)
            delivered = info.delivered.consumer_seq if info.delivered else 0
            return Backlog(info.num_pending or 0, info.num_ack_pending or 0, delivered)

        found: Backlog = await self.confirm(f"the backlog of {durable}", call)
        return found

    async def settle(self, message: Msg, body: bytes) -> None:
        """Send an acknowledgement of any kind and wait until the server has accepted it."""

        async def call() -> None:
            try:
                await self.client.request(message.reply, body, timeout=CALL_TIMEOUT_S)
            except NoRespondersError as error:
                # The durable is gone with its server's storage: so is the lease.
                raise NotReady("the delivery is no longer known to the server") from error

        await self.confirm("the acknowledgement", call)

    async def _on_error(self, error: Exception) -> None:
        self._log.warning("bus: %s", error or type(error).__name__)
        # A handshake that failed: the certificates may have been renewed after the connection was lost.
        if isinstance(error, ssl.SSLError):
            self._renew_trust()

    async def _on_disconnect(self) -> None:
        self.connected.clear()
        if not self.is_closed:
            self._log.warning("bus: disconnected")
            self._renew_trust()

    def _renew_trust(self) -> None:
        """Take over renewed certificates for the next handshake, where they are whole."""
        if self._trust is not None:
            try:
                self._trust.renew()
            except FathomError as error:
                # The handshake says so again, each time that it is tried, until the files are right.
                self._log.warning("bus: certificates were not taken over: %s", error.message)

    async def _on_reconnect(self) -> None:
        self.epoch += 1
        self.connected.set()
        self._log.warning("bus: reconnected")


class Trust:
    """TLS of one connection: whom it trusts, and what it shows, renewed before each reconnection."""

    def __init__(self, ca: str, certificates: Certificates | None) -> None:
        """Create with a CA file and certificates, of which one may be missing; raise ``ConfigError``."""
        self._certificates = certificates
        self.context = trusting(ca) if ca else ssl.create_default_context()
        self.renew()

    def renew(self) -> None:
        """Take over a rotated certificate; raise ``NotReady`` for an expired one, and ``ConfigError``."""
        if self._certificates is not None:
            load_into(self.context, self._certificates)


def read_url(url: str) -> tuple[list[str], int, str, str]:
    """Parse a bus URL into server URLs, number of stream replicas, CA file and folder of certificates.

    Raises ``ConfigError`` if malformed.
    """
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    replicas, ca, folder = (
        query.pop(name, [usual])[-1] for name, usual in (("replicas", "1"), ("ca", ""), ("tls", ""))
    )
    if not parts.netloc or query or replicas not in ("1", "3", "5"):
        raise ConfigError(
            "bus_url: expected nats://host:port[,host:port]?replicas=1|3|5&ca=FILE&tls=FOLDER",
            metadata={"field": "bus_url"},
        )
    return [urlunsplit((parts.scheme, host, "", "", "")) for host in parts.netloc.split(",")], int(replicas), ca, folder


def trusting(ca: str) -> ssl.SSLContext:
    """Return a TLS context that trusts the CAs in a file in addition to the system's, for this connection alone.

    Raises ``ConfigError`` when the file cannot be loaded.
    """
    # Not SSL_CERT_FILE: that would replace the system's CAs for every connection of the process, the object store's
    # included.
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(ca)
    except OSError as error:  # ssl.SSLError is one, too
        raise ConfigError(f"bus_url: ca={ca}: {error}", metadata={"field": "bus_url"}) from error
    return context


def without_secret(url: str) -> str:
    return url.rpartition("@")[2]


def stream_config(stream: Stream, replicas: int) -> StreamConfig:
    """Convert a stream to its JetStream configuration."""
    kinds = {Retention.LIMITS: RetentionPolicy.LIMITS, Retention.WORK_QUEUE: RetentionPolicy.WORK_QUEUE}
    return StreamConfig(
        name=stream.name,
        subjects=list(stream.subjects),
        retention=kinds[stream.retention],
        storage=StorageType.FILE,
        max_age=stream.max_age_s,
        max_msgs_per_subject=stream.max_per_subject or -1,
        max_msgs=stream.max_messages or -1,
        max_bytes=stream.max_bytes or -1,
        discard=DiscardPolicy.NEW if stream.retention is Retention.WORK_QUEUE else DiscardPolicy.OLD,
        duplicate_window=stream.duplicate_window_s,
        num_replicas=replicas,
    )


def bucket_config(bucket: Bucket, replicas: int) -> StreamConfig:
    """Convert a bucket to its JetStream configuration, compatible with the nats CLI's key-value buckets."""
    return replace(
        stream_config(bucket.stream, replicas),
        discard=DiscardPolicy.OLD if bucket.max_values else DiscardPolicy.NEW,
        allow_rollup_hdrs=True,
        allow_direct=False,  # a direct get may be answered by a replica that lags; this is the one truth
        deny_delete=True,
    )


def consumer_config(durable: Durable) -> ConsumerConfig:
    """Convert a durable to its JetStream configuration."""
    return ConsumerConfig(
        durable_name=durable.name,
        filter_subject=durable.filter_subject,
        ack_wait=durable.ack_wait_s,
        # Off: at its limit the server would leave the message in the stream undelivered for ever. Instead,
        # Leased.admit moves the delivery beyond our limit to DEAD_LETTERS, however many workers died before.
        max_deliver=-1,
        max_ack_pending=durable.max_ack_pending,
    )
