"""Event stream of a run on the bus: numbered from 1, each event once, across workers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import aclosing, suppress
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.bus.base import Bus
from fathom.bus.streams import events_subject
from fathom.errors import Conflict, NotReady
from fathom.ids import new_id
from services.planner.fence import TakenOver

DELTA_CHARS = 160
ANSWERING = frozenset({"answer_delta", "answer_replaced"})
"""Events deduplicated by the answer text that readers have, rather than by their key."""
LATE_S = 5.0
"""Seconds of delay after which a heartbeat may have come too late."""


class Events:
    """Ordered publisher of one run's events; events published by a previous worker are skipped.

    Events are sent in the background; ``flush`` waits for them. Events that a lost worker had not sent are regenerated
    from the recorded steps by the next one.
    """

    def __init__(self, bus: Bus, run_id: str) -> None:
        self._bus, self.run_id = bus, run_id
        self._sequence = 0
        self._published: Counter[Hashable] = Counter()
        self._waiting: deque[tuple[pb.RunEvent, Awaitable[object] | None]] = deque()
        self._sending: asyncio.Task[None] | None = None
        self.epoch = 0
        """Position of this planner's mark in the stream; see ``fence``."""
        self._last = 0
        self.shown = ""
        """Answer text that readers have once all pending events are sent."""
        self.shown_step = -1

    async def take_up(self, attempt: int) -> None:
        """Write a takeover mark and read the events of previous workers up to it; call before ``publish``.

        Events that a previous worker publishes after the mark are rejected.
        """
        subject, mark = events_subject(self.run_id), self._mark(attempt)
        end = await self._bus.publish(subject, mark, message_id=new_id(self.run_id))
        self.epoch = self._last = end
        async with aclosing(self._bus.follow(subject)) as deliveries:
            async for delivery in deliveries:
                if delivery.sequence >= end:
                    return
                self._seen(pb.RunEvent.FromString(delivery.payload))

    def _mark(self, attempt: int) -> bytes:
        mark = pb.RunEvent(run_id=self.run_id, taken_up=pb.TakenUp(attempt=attempt))
        return mark.SerializeToString()

    async def confirm(self, attempt: int = 0) -> None:
        """Wait until everything is sent and ownership of the run is confirmed; raise ``TakenOver``."""
        await self.flush()
        await self._store(self._mark(attempt), new_id(self.run_id))

    async def _store(self, payload: bytes, message_id: str) -> None:
        """Publish a message; raise ``TakenOver`` when another worker has written since."""
        try:
            stored = await self._bus.publish(
                events_subject(self.run_id), payload, message_id=message_id, expected=self._last
            )
        except Conflict as error:
            raise TakenOver(self.run_id) from error
        self._last = max(self._last, stored)

    def _seen(self, event: pb.RunEvent) -> None:
        if event.sequence <= self._sequence:
            return
        self._sequence = event.sequence
        if event.WhichOneof("event") not in ANSWERING:
            self._published[key(event)] += 1
        self._shows(event)

    def _shows(self, event: pb.RunEvent) -> None:
        """Track the effect of an event on the answer text that readers have."""
        if event.HasField("answer_delta"):
            self.shown += event.answer_delta.text
            self.shown_step = event.answer_delta.step
        elif event.HasField("answer_replaced") or event.HasField("resumed"):
            self.shown = ""

    def answer(self, text: str, step: int, *, draft: bool, why: str = "checked") -> None:
        """Publish the missing part of the answer's text.

        Text that readers have and that differs is withdrawn with ``why``.
        """
        # Readers may have more already: this draft is still catching up with a previous worker's.
        if draft and self.shown.startswith(text):
            return
        if not text.startswith(self.shown):
            self.drop(step, why)
        for piece in deltas(text[len(self.shown) :]):
            self.publish(answer_delta=pb.AnswerDelta(text=piece, step=step, draft=draft))

    def drop(self, step: int, why: str) -> None:
        """Withdraw the answer text that readers have, if any."""
        if self.shown:
            self.publish(answer_replaced=pb.AnswerReplaced(step=step, why=why))

    def publish(self, after: Awaitable[object] | None = None, **event: Any) -> None:
        """Queue one event, timestamped now, to be sent after the earlier ones and when ``after`` is done."""
        message = pb.RunEvent(run_id=self.run_id, **event)
        message.time.GetCurrentTime()
        self._waiting.append((message, after))
        self._shows(message)
        if self._sending is None or (self._sending.done() and not self._sending.cancelled()):
            if self._sending is not None:
                self._sending.result()
            self._sending = asyncio.create_task(self._send(), name=f"events {self.run_id}")

    @property
    def waiting(self) -> int:
        """Return the number of events not sent yet."""
        return len(self._waiting)

    async def flush(self) -> None:
        """Wait until all events are in the stream; raise the error that prevented it."""
        while self._sending is not None and not self._sending.done():
            await asyncio.shield(self._sending)
        if self._sending is not None:
            self._sending.result()

    async def close(self) -> None:
        """Discard unsent events."""
        self._waiting.clear()
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send(self) -> None:
        while self._waiting:
            message, after = self._waiting[0]
            if after is not None:
                await after
            name = key(message)
            if self._published[name] and message.WhichOneof("event") not in ANSWERING:
                self._published[name] -= 1
            else:
                message.sequence = self._sequence + 1
                message_id = f"{self.run_id}:{self.epoch}:{message.sequence}"
                payload = message.SerializeToString()
                await self._store(payload, message_id)
                self._sequence += 1
            self._waiting.popleft()


def key(event: pb.RunEvent) -> Hashable:
    """Return a key that is equal for the same event published by another worker."""
    kind = event.WhichOneof("event")
    if kind == "thought":
        return kind, event.thought.step, event.thought.tool_call_id
    if kind == "tool_started":
        return kind, event.tool_started.step, event.tool_started.call.id
    if kind == "tool_finished":
        return kind, event.tool_finished.step, event.tool_finished.result.tool_call_id
    if kind == "todo_changed":
        return kind, event.todo_changed.change_id
    if kind == "sampled":
        return kind, event.sampled.step
    if kind == "compacted":
        return kind, event.compacted.step
    if kind == "staged":
        return kind, event.staged.step
    if kind == "resumed":
        return kind, event.resumed.leg
    if kind == "finished":
        return kind, event.finished.leg
    return (kind,)


def deltas(markdown: str) -> list[str]:
    """Split the answer into pieces that end between words."""
    pieces, rest = [], markdown
    while len(rest) > DELTA_CHARS:
        cut = rest.rfind(" ", 1, DELTA_CHARS) + 1 or DELTA_CHARS
        pieces.append(rest[:cut])
        rest = rest[cut:]
    return [*pieces, rest] if rest else pieces


async def follow(bus: Bus, run_id: str, after: int, leg: int = 0) -> AsyncGenerator[pb.RunEvent, None]:
    """Yield the events of a run after a sequence number, in order and once each, until its leg ``leg`` has finished."""
    last = after
    async with aclosing(bus.follow(events_subject(run_id))) as deliveries:
        async for delivery in deliveries:
            event = pb.RunEvent.FromString(delivery.payload)
            if event.sequence > last:
                last = event.sequence
                yield event
            if event.HasField("finished") and event.finished.leg >= leg:
                return


async def heartbeat(delivery: Any, every_s: float, late: Callable[[], None]) -> None:
    """Keep a delivery in progress until cancelled; an unreachable server is tolerated.

    ``late`` is called when a beat was so late that another worker may have the delivery by now.
    """
    while True:
        before = time.monotonic()
        await asyncio.sleep(every_s)
        with suppress(NotReady):
            await delivery.in_progress()
        if time.monotonic() - before > every_s + LATE_S:
            late()
