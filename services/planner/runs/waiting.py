"""The wait of queued runs: refused when it would be too long, shown to readers while it lasts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, dataclass, field

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.call import Lane
from fathom.core.errors import FathomError, Overloaded
from fathom.services.planner.runs.log.events import follow
from fathom.services.planner.runs.repository import Header, Leg
from fathom.transport.bus.base import Backlog, Bus
from fathom.transport.bus.streams import TICKETS, run_durable

# A reader sees at once that its run is accepted, and where it stands; one that has begun tells its events within this.
SILENT_S = 0.05
# The queue moves by whole runs, which take seconds at least.
UPDATE_S = 2.0
MIN_RETRY_S, MAX_RETRY_S = 1.0, 60.0
# Weight of the latest run in the moving average of durations: about the last ten count.
SMOOTHING = 0.1


@dataclass
class Pace:
    """Average time in seconds that runs of each lane take a worker, as this planner has measured it."""

    _seconds: dict[Lane, float] = field(default_factory=dict)

    def note(self, lane: Lane, seconds: float) -> None:
        """Add a run that has ended."""
        known = self._seconds.get(lane, seconds)
        self._seconds[lane] = known + SMOOTHING * (seconds - known)

    def expect_wait_s(self, lane: Lane, before: int, running: int) -> float:
        """Return how long ``before`` runs take while ``running`` are played at a time; 0 while nothing is known."""
        # While runs wait, all places of all planners are taken: what runs is what they have.
        return self._seconds.get(lane, 0.0) * before / max(1, running)


@dataclass(frozen=True)
class Ticket:
    """Place at which a run began to wait: the runs before it, and the deliveries of the queue until then."""

    lane: str
    before: int
    delivered: int


@dataclass(frozen=True)
class Entrance:
    """Admission of runs to their queue, and what readers of queued runs are shown.

    A lane has at most ``max_runs`` waiting, none for longer than about ``max_wait_s`` seconds.
    """

    bus: Bus
    pace: Pace
    max_runs: int
    max_wait_s: float

    async def admit(self, lane: Lane) -> Backlog:
        """Return the queue of a lane; raise ``Overloaded`` when a new run would wait too long in it."""
        backlog = await self.bus.backlog(run_durable(lane))
        expected = self.pace.expect_wait_s(lane, backlog.waiting, backlog.running)
        if backlog.waiting >= self.max_runs or expected > self.max_wait_s:
            about = f", about {expected:.0f} s" if expected else ""
            # By then the queue is as short as it may be, when all goes as it went.
            delay = min(MAX_RETRY_S, max(MIN_RETRY_S, expected - self.max_wait_s))
            raise Overloaded(f"{backlog.waiting} runs wait{about}: ask again later", round(delay, 3))
        return backlog

    async def note(self, header: Header, leg: Leg, lane: Lane, backlog: Backlog) -> None:
        """Store where a run that was queued stands; ``backlog`` is that before it came."""
        ticket = Ticket(lane.value, backlog.waiting, backlog.delivered)
        try:
            await self.bus.bucket(TICKETS).put(key_of(header, leg), json.dumps(asdict(ticket)).encode())
        except FathomError:
            return  # the run is queued: its readers see that it waits, and not where

    async def describe(self, header: Header, leg: Leg) -> pb.RunWaiting:
        """Return where a queued run stands."""
        waiting = pb.RunWaiting(conversation_id=header.conversation_id)
        try:
            entry = await self.bus.bucket(TICKETS).get(key_of(header, leg))
            if entry is None or entry.value is None:
                return waiting
            ticket = Ticket(**json.loads(entry.value))
            lane = Lane(ticket.lane)
            backlog = await self.bus.backlog(run_durable(lane, header.depth))
        except FathomError:
            return waiting
        # Deliveries may be repetitions: the number is the most that can be before it.
        gone = backlog.delivered - ticket.delivered
        waiting.before = max(0, min(ticket.before - gone, backlog.waiting))
        waiting.expected_ms = int(self.pace.expect_wait_s(lane, waiting.before, backlog.running) * 1000)
        return waiting

    async def follow(self, header: Header, leg: Leg, after: int = 0) -> AsyncGenerator[pb.RunEvent, None]:
        """Yield the events of a run as ``events.follow`` does, with its place in the queue until they come."""
        async with aclosing(follow(self.bus, header.run_id, after, leg.number)) as events:
            first = asyncio.ensure_future(anext(events))
            try:
                shown, pause_s = None, SILENT_S
                while not (await asyncio.wait({first}, timeout=pause_s))[0]:
                    pause_s, waiting = UPDATE_S, await self.describe(header, leg)
                    if waiting != shown:
                        shown = waiting
                        event = pb.RunEvent(run_id=header.run_id, sequence=after, waiting=waiting)
                        event.time.GetCurrentTime()
                        yield event
                try:
                    yield await first
                except StopAsyncIteration:
                    return
            finally:
                first.cancel()
                await asyncio.gather(first, return_exceptions=True)
            async for event in events:
                yield event


def key_of(header: Header, leg: Leg) -> str:
    return f"{header.run_id}.{leg.number}"
