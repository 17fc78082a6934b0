"""The monitor: reads finished runs from the bus in order, and grades each one once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients import Clients
from fathom.core.call import DEFAULT_TENANT, Call, Lane, calling
from fathom.core.errors import Conflict, FathomError, is_retryable
from fathom.core.retry import Retries, RetryPolicy, always
from fathom.operations.monitoring.config import Config
from fathom.operations.monitoring.grades import (
    NO_REFERENCE,
    Draw,
    Row,
    Ungraded,
    check_known,
    grade,
    model_of,
    read_references,
)
from fathom.operations.monitoring.ledger import Claim, Held, Ledger
from fathom.operations.monitoring.metrics import Metrics
from fathom.transport.bus.base import Bus
from fathom.transport.bus.streams import ALL_EVENTS, GRADED, owner_of

# Maximum number of ends read ahead before reading pauses.
WAITING_ENDS = 1_000
# Time without progress after which the monitor counts as hung, in seconds; longer than any single call.
ALIVE_S = 600.0
# Runs of trainings and evaluations are graded where they are made.
USERS = (common.LANE_UNSPECIFIED, common.LANE_INTERACTIVE)


@dataclass(frozen=True)
class End:
    """The end of an attempt of a tenant's run, at a position of the events; ``ended`` in seconds since the epoch."""

    sequence: int
    run_id: str
    leg: int
    ended: float
    tenant: str = DEFAULT_TENANT


@dataclass
class Graded:
    """Result of grading an end; without model it needs no grades. ``refused`` is a retryable error."""

    model: str = ""
    rows: list[Row] = field(default_factory=list)
    ungraded: list[Ungraded] = field(default_factory=list)
    refused: FathomError | None = None


class Watch:
    """Grades finished runs in ``run`` until cancelled or told to ``finish``. Metrics go to ``registry``."""

    def __init__(
        self,
        config: Config,
        clients: Clients,
        bus: Bus,
        registry: Any,
        log: Any,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the monitor; raise ``InvalidField`` for references that cannot be read.

        ``clock`` gives seconds since the epoch.
        """
        self._config, self._clients, self._bus, self._log = config, clients, bus, log
        self._references: Mapping[str, Sequence[str]] = read_references(config.references)
        self._clock = clock
        self._pauses = RetryPolicy(attempts=None, first_delay_s=config.first_pause_s, max_delay_s=config.max_pause_s)
        self._draw = Draw(config.share, config.seed)
        self._ledger = Ledger(bus.bucket(GRADED), config.lease_s, clock)
        self._metrics = Metrics.on(registry, self.behind_s)
        self._ends: asyncio.Queue[End] = asyncio.Queue(WAITING_ENDS)
        self._aside: list[tuple[float, End]] = []
        self._open: dict[int, float] = {}
        self._read = 0
        self._stopping = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._beat = time.monotonic()
        self.ready = False

    def alive(self) -> bool:
        """Return False when the monitor has hung."""
        return time.monotonic() - self._beat < ALIVE_S

    def behind_s(self) -> float:
        """Return the age in seconds of the oldest end that was read and is not settled."""
        waiting = list(self._open.values())
        return max(0.0, self._clock() - min(waiting)) if waiting else 0.0

    async def finish(self) -> None:
        """Accept no further end; ``run`` returns when the current one is done."""
        self._stopping.set()

    async def run(self) -> None:
        """Grade ends until cancelled or stopped; raise ``InvalidField`` for an unknown grader."""
        if not await self._begin():
            return
        self.ready = True
        self._log.info("watching", graders=self._config.graders, share=self._config.share, after=self._read)
        self._reading = asyncio.create_task(self._follow(), name="ends of runs")
        try:
            while (end := await self._next()) is not None:
                # As a call of its tenant, who alone can read the run.
                with calling(Call.new(lane=Lane.EVALUATION, tenant=end.tenant)):
                    is_done = await self._done_with(end)
                if is_done:
                    self._open.pop(end.sequence, None)
                    with suppress(FathomError):  # the next end moves it
                        # Up to the oldest end that is not done: a copy that starts anew must not skip it, and finds
                        # later ones settled.
                        await self._ledger.move(min(self._open) - 1 if self._open else self._read)
        finally:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _begin(self) -> bool:
        """Wait until planner and reward answer; return False when stopped.

        Raises ``InvalidField`` for an unknown grader.
        """
        retries = Retries(self._pauses, is_retryable=is_retryable)
        while not self._stopping.is_set():
            try:
                await check_known(self._clients, self._config.graders)
                self._read = await self._ledger.position()
                return True
            except FathomError as error:
                await self._pause(retries, error)
        return False

    async def _follow(self) -> None:
        """Put sampled ends into the queue; resume at the same position when the bus returns."""
        retries = Retries(self._pauses, is_retryable=always)
        while True:
            try:
                async with aclosing(self._bus.follow(ALL_EVENTS, after=self._read)) as deliveries:
                    async for delivery in deliveries:
                        event = pb.RunEvent.FromString(delivery.payload)
                        await self._take_event(delivery.sequence, event, owner_of(delivery.subject))
                        retries.reset()
            except FathomError as error:
                if not is_retryable(error):
                    # An event whose object is gone or corrupt: the next one is behind it.
                    # By one position only: a corrupt event must not stop the reading of all that follow.
                    self._read += 1
                    self._metrics.ungraded.labels("", error.code).inc()
                await self._pause(retries, error)

    async def _take_event(self, sequence: int, event: pb.RunEvent, tenant: str) -> None:
        if event.HasField("finished") and self._draw.takes(event.run_id):
            end = End(sequence, event.run_id, event.finished.leg, event.time.ToMicroseconds() / 1e6, tenant)
            # Noted before it waits for room in the queue, so that it counts as open and the position stays before it.
            self._open[sequence] = end.ended
            await self._ends.put(end)
        self._read = sequence

    async def _next(self) -> End | None:
        """Return the next end to process; None when the monitor is to stop."""
        while not self._stopping.is_set():
            self._beat = time.monotonic()
            if self._reading is not None and self._reading.done():
                # It never ends by itself: its error, if it has one, ends the monitor too.
                self._reading.result()
            due = [item for item in self._aside if item[0] <= self._clock()]
            if due:
                self._aside.remove(due[0])
                return due[0][1]
            with suppress(asyncio.QueueEmpty):
                return self._ends.get_nowait()
            soon = min((until - self._clock() for until, _ in self._aside), default=self._config.look_s)
            taking = asyncio.create_task(self._ends.get())
            stopping = asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait(
                    {taking, stopping}, timeout=min(self._config.look_s, max(0.0, soon)), return_when="FIRST_COMPLETED"
                )
                if taking.done():
                    return taking.result()
            finally:
                taking.cancel()
                stopping.cancel()
                await asyncio.gather(taking, stopping, return_exceptions=True)
        return None

    async def _done_with(self, end: End) -> bool:
        """Grade an end with retries; return False when another copy has it, or the monitor is to stop."""
        retries, refusals = Retries(self._pauses, is_retryable=always), 0
        # Graded, but not known to be settled: what a judge model has read once is not graded a second time.
        graded: Graded | None = None
        while not self._stopping.is_set():
            try:
                claim = await self._ledger.claim(end.run_id, end.leg)
                if isinstance(claim, Held):
                    if claim.is_own and graded is not None:
                        # Only the confirmation was lost, as when the server dies between storing and answering.
                        self._count(graded)
                    if not claim.settled:
                        self._aside.append((min(claim.until, self._clock() + self._config.look_s), end))
                    return claim.settled
                async with self._release_when_cancelled(claim):
                    graded = graded or await self._grade(end, claim)
                    if graded.refused is None or (refusals + 1 >= self._config.attempts and await self._answers()):
                        await self._ledger.settle(claim)
                        self._count(graded)
                        return True
                    refused, graded = graded.refused, None
                    await self._ledger.release(claim)
                # An attempt counts only if planner and reward answer otherwise; while they are down every run would be
                # refused, and none should be given up for that.
                refusals += await self._answers()
            except Conflict:
                continue  # the lease ran out, and another copy took it
            except FathomError as error:
                if not is_retryable(error):
                    raise
                refused = error
            await self._pause(retries, refused)
        return False

    @asynccontextmanager
    async def _release_when_cancelled(self, claim: Claim) -> AsyncIterator[None]:
        """Release the claim when the block is cancelled, so that another copy need not wait for its lease."""
        try:
            yield
        except asyncio.CancelledError:
            # Shielded from the cancellation under way.
            await asyncio.shield(self._ledger.release(claim))
            raise

    async def _grade(self, end: End, claim: Claim) -> Graded:
        """Grade a run by every grader, renewing the claim before each. Raises the ledger's errors."""
        try:
            found = await self._clients.planner.get_run(pb.GetRunRequest(run_id=end.run_id))
        except FathomError as error:
            lacking = [Ungraded(end.run_id, "", error.code)]
            return Graded("none", ungraded=lacking, refused=error if is_retryable(error) else None)
        episode = found.trajectory
        # A run that has been resumed is graded at its last end; a sub-run answers its parent, not a user.
        if found.running or found.leg != end.leg or episode.parent_run_id or episode.lane not in USERS:
            return Graded()
        graded = Graded(model_of(episode))
        references = self._references.get(episode.question.strip(), ())
        for grader in self._config.graders:
            # Each grader may take as long as a judge model needs; the lease covers one of them.
            await self._ledger.renew(claim)
            self._beat = time.monotonic()
            try:
                rows, lacking = await grade(self._clients, episode, grader, references)
            except FathomError as error:
                rows, lacking, graded.refused = [], [Ungraded(end.run_id, grader, error.code)], error
            graded.rows += rows
            graded.ungraded += lacking
        return graded

    def _count(self, graded: Graded) -> None:
        if not graded.model:
            return
        model = self._metrics.model(graded.model)
        self._metrics.runs.labels(model).inc()
        for row in graded.rows:
            self._metrics.values.labels(row.grader, model).observe(row.value)
        for lacking in graded.ungraded:
            self._metrics.ungraded.labels(lacking.grader, lacking.reason).inc()
            if lacking.reason != NO_REFERENCE:
                self._log.warning("not graded", run_id=lacking.run_id, grader=lacking.grader, reason=lacking.reason)

    async def _answers(self) -> bool:
        """Return True if planner and reward answer, so that a failure is about the run."""
        try:
            await self._clients.planner.list_runs(pb.ListRunsRequest(page_size=1))
            await check_known(self._clients, ())
        except FathomError:
            return False
        return True

    async def _pause(self, retries: Retries, error: FathomError) -> None:
        """Wait, longer after each failure, or until the monitor is to stop; raise an error that is not retryable."""
        delay = retries.next_delay_s(error)
        self._log.warning("waits to try again", seconds=round(delay, 3), reason=error.reason, error=error.message)
        self._beat = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._stopping.wait()
        self._beat = time.monotonic()
