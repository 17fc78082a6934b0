"""Export and restore of whole NATS streams as server snapshots: messages, sequences, durables, positions.

Uses the server's requests ``STREAM.SNAPSHOT`` and ``STREAM.RESTORE``. The data is the server's own compressed archive,
which every server of its version or a newer one reads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from fathom.core.errors import Conflict, DependencyFailed, NotFound, NotReady
from fathom.core.retry import RetryPolicy, retry
from fathom.transport.bus.nats.cancellation import restore_cancellation
from fathom.transport.bus.nats.link import Link
from fathom.transport.bus.streams import Topology, topology

API = "$JS.API"
# Timeout of one request and of the next chunk; long because a server first writes a large stream to its disk.
CALL_S = 30.0
# Well below the server's limit of a message.
PIECE_BYTES = 256 * 1024
# The server's code for a stream that does not exist.
NO_STREAM = 10059
# A server of the cluster is away, or has only just joined: nothing was made, so that it may be asked again.
NO_PLACE = 10005


@dataclass(frozen=True)
class Snapshot:
    """One stream: configuration and state in the server's format, and its data in chunks that can be read once."""

    config: Mapping[str, Any]
    state: Mapping[str, Any]
    pieces: AsyncGenerator[bytes, None]


class Snapshots:
    """The streams and buckets of one bus. Every method raises ``DependencyFailed("bus")`` when the server refuses."""

    def __init__(self, link: Link, replicas: int, streams: Topology) -> None:
        self._link, self._replicas = link, replicas
        self._known = [stream.name for stream in streams.streams] + [b.stream.name for b in streams.buckets]

    async def names(self) -> list[str]:
        """Return the names of Fathom's streams that this server has; other streams are ignored."""
        return [name for name in self._known if await self.messages(name) is not None]

    async def messages(self, name: str) -> int | None:
        """Return the number of messages in a stream, None when it does not exist."""
        try:
            return int((await self._call(f"STREAM.INFO.{name}", {}))["state"]["messages"])
        except NotFound:
            return None

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[Snapshot]:
        """Open a snapshot of a stream's current contents; raise ``NotFound`` when it does not exist."""
        inbox = self._link.client.new_inbox()
        subscription = await self._link.client.subscribe(inbox)
        try:
            order = {"deliver_subject": inbox, "no_consumers": False, "chunk_size": PIECE_BYTES}
            reply = await self._call(f"STREAM.SNAPSHOT.{name}", order)
            yield Snapshot(reply["config"], reply["state"], pieces(name, subscription))
        finally:
            await subscription.unsubscribe()

    async def restore(
        self, config: Mapping[str, Any], state: Mapping[str, Any], parts: AsyncIterable[bytes], *, replace: bool = False
    ) -> int:
        """Recreate the stream from its snapshot and return the number of its messages.

        An empty stream of that name is replaced; one with messages raises ``Conflict`` unless ``replace``. The number
        of replicas is this bus's, whatever the snapshot says.
        """
        name = str(config["name"])
        held = await self.messages(name)
        if held and not replace:
            raise Conflict(f"stream {name} holds {held} messages already; a restore would throw them away")
        if held is not None:
            await self._call(f"STREAM.DELETE.{name}", {})
        order = {"config": {**config, "num_replicas": self._replicas}, "state": state}
        begun = await retry_unready(lambda: self._call(f"STREAM.RESTORE.{name}", order))
        target = begun["deliver_subject"]
        async for part in parts:
            for start in range(0, len(part), PIECE_BYTES):
                await self._send(name, target, part[start : start + PIECE_BYTES])
        made = await self._send(name, target, b"")
        return int(made["state"]["messages"])

    async def _send(self, name: str, target: str, piece: bytes) -> Mapping[str, Any]:
        # In a cluster another server may receive the pieces, and ours learns that only after its reply. Nobody has got
        # a piece without responders, so that it may be sent again; after a timeout somebody may have.
        return await retry_unready(lambda: self._send_once(name, target, piece))

    async def _send_once(self, name: str, target: str, piece: bytes) -> Mapping[str, Any]:
        try:
            with restore_cancellation():
                reply = await self._link.client.request(target, piece, timeout=CALL_S)
        except NoRespondersError as error:
            raise NotReady(f"restoring {name}: no server of the cluster takes the pieces") from error
        except (NatsError, TimeoutError) as error:
            raise DependencyFailed("bus", f"restoring {name}: {type(error).__name__}") from error
        return read_answer(name, reply.data)

    async def _call(self, subject: str, order: Mapping[str, Any]) -> Mapping[str, Any]:
        name = subject.rpartition(".")[2]
        try:
            with restore_cancellation():
                reply = await self._link.client.request(f"{API}.{subject}", json.dumps(order).encode(), timeout=CALL_S)
        except (NatsError, TimeoutError) as error:
            raise DependencyFailed("bus", f"{subject}: {type(error).__name__}") from error
        return read_answer(name, reply.data)


async def retry_unready(attempt: Callable[[], Awaitable[Mapping[str, Any]]]) -> Mapping[str, Any]:
    """Return the reply of the attempt, made again while the cluster is not ready; other errors are raised at once."""
    return await retry(attempt, RetryPolicy(), is_retryable=lambda error: isinstance(error, NotReady))


def read_answer(name: str, data: bytes) -> Mapping[str, Any]:
    """Parse the server's reply; raise its errors as typed ones."""
    said: Mapping[str, Any] = json.loads(data) if data else {}
    error = said.get("error")
    if error and error.get("err_code") == NO_STREAM:
        raise NotFound("stream", name)
    if error and error.get("err_code") == NO_PLACE:
        raise NotReady(f"{name}: {error.get('description', error)}")
    if error:
        raise DependencyFailed("bus", f"{name}: {error.get('description', error)}")
    return said


async def pieces(name: str, subscription: Subscription) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of a snapshot in order; confirming them lets the server send more."""
    while True:
        try:
            with restore_cancellation():
                message = await subscription.next_msg(timeout=CALL_S)
        except (NatsError, TimeoutError) as error:
            raise DependencyFailed("bus", f"the snapshot of {name} stopped: {type(error).__name__}") from error
        if not message.data:
            status = (message.headers or {}).get("Status", "204")
            if status not in ("200", "204"):
                raise DependencyFailed("bus", f"the snapshot of {name} broke off: status {status}")
            return
        yield message.data
        if message.reply:  # the server asks now and then, not for every piece
            await message.respond(b"")


@asynccontextmanager
async def open_snapshots(url: str, streams: Topology | None = None) -> AsyncIterator[Snapshots]:
    """Connect as ``open_bus`` does, but declare nothing, so that a server to be restored stays empty."""
    link = await Link.open(url)
    try:
        async with asyncio.timeout(CALL_S):
            await link.up()
        yield Snapshots(link, link.replicas, streams or topology())
    finally:
        await link.close()
