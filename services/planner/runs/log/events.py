"""Log of a run on the bus: its events, numbered from 1, each once across workers, and the steps behind them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import aclosing, suppress
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.errors import Conflict, NotFound, NotReady
from fathom.core.ids import new_id
from fathom.services.planner.episode.fence import LeaseLost
from fathom.services.planner.runs.log.fold import StepFold
from fathom.services.planner.runs.log.message import read_message, write_message
from fathom.transport.bus.base import Bus
from fathom.transport.bus.streams import events_subject

# A reader's page renders about two lines at a time, and a long answer stays below a hundred events.
DELTA_CHARS = 160
ANSWERING = frozenset({"answer_delta", "answer_replaced"})
"""Events deduplicated by the answer text that readers have, rather than by their key."""
LATE_S = 4.0
"""Seconds of delay after which a heartbeat may have come too late; with the pause before it less than the lease."""


class EventLog:
    """Ordered writer of one run's log; events published by a previous worker are skipped.

    Messages are sent in the background; ``flush`` waits for them. The next worker resumes from what a lost one sent.
    """

    def __init__(self, bus: Bus, run_id: str) -> None:
        self._bus, self.run_id = bus, run_id
        self._sequence = 0
        self._published: Counter[Hashable] = Counter()
        self._waiting: deque[tuple[pb.RunEvent, trajectory.Step | None]] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._appending = asyncio.Lock()
        self.epoch = 0
        """Position of this planner's mark in the stream; see ``fence``."""
        self._last = 0
        self.shown = ""
        """Answer text that readers have once all pending events are sent."""
        self.shown_step = -1

    async def acquire(self, attempt: int) -> StepFold:
        """Write a takeover mark and return what previous workers have logged up to it; call before ``publish``.

        What a previous worker sends after the mark is rejected.
        """
        subject, mark = events_subject(self.run_id), self._make_mark(attempt)
        # Without an expected position: a takeover always succeeds, and from then on the writes of the planner before it
        # fail.
        end = await self._bus.publish(subject, mark, message_id=new_id(self.run_id))
        self.epoch = self._last = end
        fold = StepFold()
        async with aclosing(read_log(self._bus, self.run_id, end)) as messages:
            async for sequence, event, step in messages:
                if sequence < end:
                    fold.add(event, step)
                    self._note_published(event)
        return fold

    def _make_mark(self, attempt: int) -> bytes:
        mark = pb.RunEvent(run_id=self.run_id, taken_up=pb.TakenUp(attempt=attempt))
        return mark.SerializeToString()

    async def confirm(self, attempt: int = 0) -> None:
        """Wait until everything is sent and ownership of the run is confirmed; raise ``LeaseLost``."""
        await self.flush()
        await self._append(self._make_mark(attempt), {}, new_id(self.run_id))

    async def _append(self, payload: bytes, headers: dict[str, str], message_id: str) -> None:
        """Publish a message; raise ``LeaseLost`` when another worker has written since."""
        # One at a time: a stop request confirms the lease while events are sent, and two messages that expect the same
        # last one would refuse each other.
        async with self._appending:
            try:
                stored = await self._bus.publish(
                    events_subject(self.run_id), payload, headers=headers, message_id=message_id, expected=self._last
                )
            except Conflict as error:
                raise LeaseLost(self.run_id) from error
            # A repeated message is stored once and answered with its old position.
            self._last = max(self._last, stored)

    def _note_published(self, event: pb.RunEvent) -> None:
        if event.sequence <= self._sequence:
            return
        self._sequence = event.sequence
        if event.WhichOneof("event") not in ANSWERING:
            self._published[make_event_key(event)] += 1
        self._track_answer(event)

    def _track_answer(self, event: pb.RunEvent) -> None:
        """Track the effect of an event on the answer text that readers have."""
        if event.HasField("answer_delta"):
            self.shown += event.answer_delta.text
            self.shown_step = event.answer_delta.step
        elif event.HasField("answer_replaced") or event.HasField("resumed"):
            self.shown = ""

    def publish_answer(self, text: str, step: int, *, draft: bool, why: str = "checked") -> None:
        """Publish the missing part of the answer's text.

        Text that readers have and that differs is withdrawn with ``why``.
        """
        # Readers may have more already: this draft is still catching up with a previous worker's.
        if draft and self.shown.startswith(text):
            return
        if not text.startswith(self.shown):
            self.withdraw_answer(step, why)
        for piece in split_deltas(text[len(self.shown) :]):
            self.publish(answer_delta=pb.AnswerDelta(text=piece, step=step, draft=draft))

    def withdraw_answer(self, step: int, why: str) -> None:
        """Withdraw the answer text that readers have, if any."""
        if self.shown:
            self.publish(answer_replaced=pb.AnswerReplaced(step=step, why=why))

    def publish(self, step: trajectory.Step | None = None, **event: Any) -> None:
        """Queue one event, timestamped now, to be sent after the earlier ones; without event, a mark with a step.

        ``step`` goes with it, for planners that resume the run; readers of events do not get it.
        """
        message = pb.RunEvent(run_id=self.run_id, **event)
        message.time.GetCurrentTime()
        self._waiting.append((message, step))
        self._track_answer(message)
        if self._sending is None or (self._sending.done() and not self._sending.cancelled()):
            if self._sending is not None:
                self._sending.result()
            self._sending = asyncio.create_task(self._send(), name=f"events {self.run_id}")

    async def flush(self) -> None:
        """Wait until all events are in the stream; raise the error that prevented it."""
        # Events may be added while this waits, which starts a new task. Shielded, since a caller that gives up must not
        # stop the sending.
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
            message, step = self._waiting[0]
            name, kind = make_event_key(message), message.WhichOneof("event")
            if self._published[name] and kind not in ANSWERING:
                self._published[name] -= 1
            elif kind is None:
                # A mark has no number: readers skip it, and count on without a gap.
                place = "" if step is None else step.index
                await self._append(*write_message(message, step), f"{self.run_id}:{self.epoch}:mark-{place}")
            else:
                # Numbered when sent, not when queued: numbers must have no gaps, whatever is skipped before.
                message.sequence = self._sequence + 1
                await self._append(*write_message(message, step), f"{self.run_id}:{self.epoch}:{message.sequence}")
                self._sequence += 1
            self._waiting.popleft()


def make_event_key(event: pb.RunEvent) -> Hashable:
    """Return a key that is equal for the same event published by another worker."""
    kind = event.WhichOneof("event")
    if kind == "thought":
        # Thoughts that are no calls, the model's own and the restated question, differ by their kind.
        return kind, event.thought.step, event.thought.tool_call_id, event.thought.kind
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
    if kind == "waiting":
        return kind, event.waiting.count
    if kind == "resumed":
        return kind, event.resumed.leg
    if kind == "finished":
        return kind, event.finished.leg
    return (kind,)


def split_deltas(markdown: str) -> list[str]:
    """Split the answer into pieces that end between words."""
    pieces, rest = [], markdown
    while len(rest) > DELTA_CHARS:
        cut = rest.rfind(" ", 1, DELTA_CHARS) + 1 or DELTA_CHARS
        pieces.append(rest[:cut])
        rest = rest[cut:]
    return [*pieces, rest] if rest else pieces


async def follow(
    bus: Bus, run_id: str, after: int, leg: int = 0, *, may_skip: bool = False
) -> AsyncGenerator[pb.RunEvent, None]:
    """Yield the events of a run after a sequence number, in order and once each, until its leg ``leg`` has finished.

    Raises ``NotFound`` at events that the stream has dropped; with ``may_skip`` the ones behind them follow.
    """
    last = after
    async with aclosing(bus.follow(events_subject(run_id))) as deliveries:
        async for delivery in deliveries:
            event, _ = read_message(delivery.payload, delivery.headers)
            if event.sequence > last:
                if event.sequence > last + 1 and not may_skip:
                    raise make_events_gone(run_id, event.sequence)
                last = event.sequence
                yield event
            if event.HasField("finished") and event.finished.leg >= leg:
                return


def make_events_gone(run_id: str, first: int = 0) -> NotFound:
    """Return the error for a reader of dropped events; ``first`` is the sequence number of the oldest one left."""
    rest = [f"those from {first} on"] if first else []
    return NotFound("events of run", run_id, [*rest, "GetRun gives its trajectory"])


async def read_log(
    bus: Bus, run_id: str, end: int
) -> AsyncGenerator[tuple[int, pb.RunEvent, trajectory.Step | None], None]:
    """Yield the messages of a run's log up to position ``end``, which must be one of them."""
    async with aclosing(bus.follow(events_subject(run_id))) as deliveries:
        async for delivery in deliveries:
            yield delivery.sequence, *read_message(delivery.payload, delivery.headers)
            if delivery.sequence >= end:
                return


async def fold_log(bus: Bus, run_id: str) -> StepFold:
    """Return what the log of a run tells so far, for a reader that does not own the run."""
    fold, end = StepFold(), await bus.last_sequence(events_subject(run_id))
    if end:
        async with aclosing(read_log(bus, run_id, end)) as messages:
            async for _, event, step in messages:
                fold.add(event, step)
    return fold


async def send_heartbeats(delivery: Any, every_s: float, late: Callable[[], None]) -> None:
    """Keep a delivery in progress until cancelled; an unreachable server is tolerated.

    ``late`` is called when a beat was so late that another worker may have the delivery by now.
    """
    while True:
        before = time.monotonic()
        await asyncio.sleep(every_s)
        # The next beat may get through; when it comes too late, the lease is verified.
        with suppress(NotReady):
            await delivery.in_progress()
        if time.monotonic() - before > every_s + LATE_S:
            late()
