"""A run's events on the bus: numbered from 1, each once, whichever workers have published them."""

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
"""Events that are sent by what readers have of the answer, not by whether the same was said before."""
LATE_S = 5.0
"""So much later than it is due, a sign of life may have come too late."""


class Events:
    """Publishes the events of one run in order. What an earlier worker has published is not published again.

    Events are sent while the run goes on; ``flush`` waits for them. What a lost worker had not sent yet is told
    again from the recorded steps by the next one.
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
        """What readers have of the answer, once all that waits is sent."""
        self.shown_step = -1

    async def take_up(self, attempt: int) -> None:
        """Reads what is there: a mark tells where the earlier workers' events end. Comes before ``publish``.

        From the mark on nothing that an earlier worker publishes is stored.
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
        """Returns when all is sent and the run is still this worker's; raises ``TakenOver``."""
        await self.flush()
        await self._store(self._mark(attempt), new_id(self.run_id))

    async def _store(self, payload: bytes, message_id: str) -> None:
        """Raises ``TakenOver`` when another worker has written since."""
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
        """What the event makes of the answer that readers have."""
        if event.HasField("answer_delta"):
            self.shown += event.answer_delta.text
            self.shown_step = event.answer_delta.step
        elif event.HasField("answer_replaced") or event.HasField("resumed"):
            self.shown = ""

    def answer(self, text: str, step: int, *, draft: bool, why: str = "checked") -> None:
        """Gives readers what they lack of the answer's text; what they have otherwise is replaced, which says ``why``.

        A text that they have more of already is a draft on its way to where an earlier worker's was.
        """
        if draft and self.shown.startswith(text):
            return
        if not text.startswith(self.shown):
            self.drop(step, why)
        for piece in deltas(text[len(self.shown) :]):
            self.publish(answer_delta=pb.AnswerDelta(text=piece, step=step, draft=draft))

    def drop(self, step: int, why: str) -> None:
        """Takes back what readers have of an answer, if they have any."""
        if self.shown:
            self.publish(answer_replaced=pb.AnswerReplaced(step=step, why=why))

    def publish(self, after: Awaitable[object] | None = None, **event: Any) -> None:
        """Sends one event behind those before it, when ``after`` is done; its time is now."""
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
        """How many events are not sent yet."""
        return len(self._waiting)

    async def flush(self) -> None:
        """Returns when the stream has every event; raises what kept it from that."""
        while self._sending is not None and not self._sending.done():
            await asyncio.shield(self._sending)
        if self._sending is not None:
            self._sending.result()

    async def close(self) -> None:
        """Drops what is not sent."""
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
    """Names what an event tells: equal for the same thing told by another worker."""
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
    """The answer in pieces that end between words."""
    pieces, rest = [], markdown
    while len(rest) > DELTA_CHARS:
        cut = rest.rfind(" ", 1, DELTA_CHARS) + 1 or DELTA_CHARS
        pieces.append(rest[:cut])
        rest = rest[cut:]
    return [*pieces, rest] if rest else pieces


async def follow(bus: Bus, run_id: str, after: int, leg: int = 0) -> AsyncGenerator[pb.RunEvent, None]:
    """Events of a run after a number, in order and once each, until its leg ``leg`` has finished."""
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
    """Keeps a delivery in progress until cancelled; a server out of reach for a while is the bus' business.

    ``late`` is called when a beat was so late that somebody else may have the delivery by now.
    """
    while True:
        before = time.monotonic()
        await asyncio.sleep(every_s)
        with suppress(NotReady):
            await delivery.in_progress()
        if time.monotonic() - before > every_s + LATE_S:
            late()
