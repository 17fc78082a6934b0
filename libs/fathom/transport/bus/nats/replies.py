"""Requests whose server shows that it is at work, so that the caller of a killed one does not wait out its deadline.

A server that needs longer than ``BEAT_S`` says every ``BEAT_S`` seconds that it is at work, to callers that ask for it
by a header. Silence for ``SILENT_BEATS`` of them means that the server, or its reply, is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from nats.aio.client import NO_RESPONDERS_STATUS, Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.js.api import Header

from fathom.core.errors import NotReady
from fathom.transport.bus.nats.cancellation import restore_cancellation

BEATS_HEADER, BEAT_HEADER = "fathom-beats", "fathom-beat"
# Five beats: a server whose event loop stands still for some seconds, or that is stopped for four, is not gone. What is
# repeated then reaches a server that knows its request_id, or another one.
BEAT_S, SILENT_BEATS = 1.0, 5


@dataclass
class Awaited:
    """A request whose reply is awaited."""

    reply: asyncio.Future[Msg]
    was_heard: bool = True


class Replies:
    """The replies to all requests of a connection, by one subscription."""

    def __init__(self, client: Client) -> None:
        self._client, self._inbox = client, ""
        self._listening: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._open: dict[str, Awaited] = {}

    async def request(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> Msg:
        """Send a request and return its reply.

        Raises ``NoRespondersError`` when nobody serves the subject, and ``NotReady`` when its server falls silent.
        """
        if self._listening is None or (self._listening.done() and self._listening.exception() is not None):
            self._listening = asyncio.create_task(self._listen(), name="replies")
        # Shared by the first requests: one that is cancelled must not take the subscription from the others.
        await asyncio.shield(self._listening)
        token = str(next(self._numbers))
        awaited = self._open[token] = Awaited(asyncio.get_running_loop().create_future())
        try:
            sent = {**headers, BEATS_HEADER: "1"}
            # Of its own: what publishing swallows must end the caller before it waits for a reply.
            with restore_cancellation():
                await self._client.publish(subject, payload, reply=f"{self._inbox}.{token}", headers=sent)
            return await self._wait(subject, awaited)
        finally:
            del self._open[token]

    async def _listen(self) -> None:
        self._inbox = self._client.new_inbox()
        await self._client.subscribe(f"{self._inbox}.*", cb=self._take)

    async def _take(self, message: Msg) -> None:
        awaited = self._open.get(message.subject.rpartition(".")[2])
        if awaited is None:  # its caller has gone
            return
        awaited.was_heard = True
        if BEAT_HEADER not in (message.headers or {}) and not awaited.reply.done():
            awaited.reply.set_result(message)

    async def _wait(self, subject: str, awaited: Awaited) -> Msg:
        silent = 0
        while silent < SILENT_BEATS:
            # By beats and not by a clock: a caller that stood still itself hears what has come meanwhile first.
            awaited.was_heard = False
            done, _ = await asyncio.wait([awaited.reply], timeout=BEAT_S)
            if done:
                message = awaited.reply.result()
                if (message.headers or {}).get(Header.STATUS) == NO_RESPONDERS_STATUS:
                    raise NoRespondersError
                return message
            silent = 0 if awaited.was_heard else silent + 1
        raise NotReady(f"the server of {subject} fell silent")


class Beats:
    """The beats of one request that is being worked on, until ``stop``."""

    def __init__(self, client: Client, message: Msg) -> None:
        self._client, self._message = client, message
        self._beating: asyncio.Task[None] | None = None
        wants = BEATS_HEADER in (message.headers or {})
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._start) if wants else None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._beating is not None:
            self._beating.cancel()

    def _start(self) -> None:
        # A task only for requests that take long: most are answered before the first beat.
        self._beating = asyncio.create_task(self._beat(), name="beats of a request")

    async def _beat(self) -> None:
        while True:
            # Without a connection its caller hears nothing, and asks again.
            with contextlib.suppress(NatsError):
                await self._client.publish(self._message.reply, headers={BEAT_HEADER: "1"})
            await asyncio.sleep(BEAT_S)
