"""Asks questions when they are due: each due time once, by whichever gateway comes first."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from pydantic import ValidationError

from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.core.call import Call, calling
from fathom.core.deadline import time_limit
from fathom.core.errors import Conflict, CorruptData, DeadlineExceeded, FathomError, NotFound
from fathom.core.telemetry import Telemetry
from fathom.services.gateway.bodies import Ask
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.schedules.store import MAX_FIRINGS, Firing, Place, Schedule, ScheduleStore
from fathom.transport.store import ObjectStore

PERIOD_S = 20.0
# Longer than a question takes to be accepted (``start_timeout_s``). Where the gateway that claimed a time is lost,
# another one asks after it, under the same id: a run that had begun is joined.
CLAIM_S = 120.0
# Within the claim: who still asks after it would ask beside another gateway.
ASK_S = 60.0
# Many are due at the same full hour. Each costs the planner a place in its queue; one that hangs holds one of these.
ASKED_AT_ONCE = 8
# What is away, or full, is asked again after this time.
RETRY_S = 60.0
FIRINGS = "schedules/"


@dataclass(frozen=True)
class Origin:
    """Origin of a run that a schedule has asked for, as it is kept beside the run."""

    schedule_id: str
    before: str
    """Run of the time before, "" for none."""
    due: float
    asked: float
    missed: int


class Scheduler:
    """Looks every ``PERIOD_S`` seconds for what is due; ``clock`` returns seconds since 1970.

    Questions are asked side by side, each for at most ``ask_s`` seconds: one that hangs delays no other.
    """

    def __init__(
        self,
        engine: Engine,
        schedules: ScheduleStore,
        objects: ObjectStore,
        telemetry: Telemetry,
        clock: Callable[[], float] = time.time,
        ask_s: float = ASK_S,
    ) -> None:
        self._engine, self._schedules, self.objects = engine, schedules, objects
        self._log, self.clock, self._ask_s = telemetry.log, clock, ask_s
        self._free = asyncio.Semaphore(ASKED_AT_ONCE)
        self._asking: set[asyncio.Task[list[str]]] = set()
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look for what is due."""
        self._looking = asyncio.create_task(self._look(), name="schedules")

    async def close(self) -> None:
        """Stop looking. A time that is claimed is asked by another gateway, or by the next one here."""
        open_tasks = [*([] if self._looking is None else [self._looking]), *self._asking]
        for task in open_tasks:
            task.cancel()
        await asyncio.gather(*open_tasks, return_exceptions=True)

    async def _look(self) -> None:
        while True:
            try:
                # What was begun goes on behind: the next look finds it claimed.
                await self._begin_due()
            except FathomError as error:
                # The bus is away: what is due is asked when it is back.
                self._log.warning("schedules cannot be read", reason=error.reason, message=error.message)
            await asyncio.sleep(PERIOD_S)

    async def ask_due(self) -> list[str]:
        """Ask all questions that are due and that nobody else asks; return the runs."""
        runs = await asyncio.gather(*await self._begin_due())
        return [run_id for found in runs for run_id in found]

    async def _begin_due(self) -> list[asyncio.Task[list[str]]]:
        """Begin to ask what is due and what nobody else asks; return the tasks, each with its run, if it got one."""
        begun = []
        async for place in self._schedules.scan():
            if not is_due(place.schedule, self.clock()):
                continue
            # A slot first: a claim that waits for one would end before its question is asked.
            await self._free.acquire()
            task = asyncio.create_task(self._claim_and_ask(place), name=f"ask {place.schedule.id}")
            task.add_done_callback(lambda _: self._free.release())
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
            begun.append(task)
        return begun

    async def _claim_and_ask(self, place: Place) -> list[str]:
        """Ask a question, unless another gateway does; return its run, if it was accepted."""
        now, schedule = self.clock(), place.schedule
        try:
            # Of several gateways that see the same time, one gets its claim written; the others find it taken.
            # The claim ends by itself, so that a gateway which is lost holds up nobody for long.
            claimed = await self._schedules.replace(place, replace(schedule, claimed_until=now + CLAIM_S))
            return [] if claimed is None else await self._ask(claimed, now)
        except Exception as error:  # what cannot be asked is for the log, and takes nothing from the others
            self._log.exception("schedule could not be asked", schedule=schedule.id, error=str(error))
            return []

    async def _ask(self, place: Place, now: float) -> list[str]:
        """Ask a question whose time is claimed, and say when it is due next; return its run, if it was accepted."""
        schedule = place.schedule
        call = replace(Call.new(tenant=place.tenant), principal=schedule.creator)
        firing = Firing(
            # Of schedule and due time alone: whoever asks for it again joins the run.
            f"{schedule.id}_{int(schedule.due)}", schedule.due, now,
            schedule.recurrence.count_between(schedule.due, now),
        )  # fmt: skip
        with calling(call):
            try:
                request = read_request(schedule)
                request.request_id = firing.run_id
                async with time_limit(self._ask_s, "planner", f"was not accepted within {self._ask_s:g} s"):
                    await self._engine.start_run(request)
                    await self._note(schedule, firing)
            except FathomError as error:
                is_passing = error.transient or isinstance(error, DeadlineExceeded)
                edited = postpone(schedule, error.message, now) if is_passing else give_up(schedule, error.message, now)
                await self._finish(place, edited)
                self._audit(call, schedule, error.code)
                return []
            await self._finish(place, advance(schedule, firing, now))
            self._audit(call, schedule, "OK")
        return [firing.run_id]

    async def _note(self, schedule: Schedule, firing: Firing) -> None:
        """Keep beside the run where it comes from, for as long as the run itself: a schedule may be deleted."""
        before = schedule.firings[-1].run_id if schedule.firings else schedule.follows
        origin = Origin(schedule.id, before, firing.due, firing.asked, firing.missed)
        # Another gateway, which was lost afterwards, may have asked already: what it said stays.
        with suppress(Conflict):
            await self.objects.create(FIRINGS + firing.run_id, json.dumps(asdict(origin)).encode(), "application/json")

    async def _finish(self, place: Place, done: Schedule) -> None:
        """Write what has become of a claim, and leave what its user has changed meanwhile."""

        def edit(current: Schedule) -> Schedule:
            if current.due != place.schedule.due:
                return current
            return replace(done, is_paused=current.is_paused)

        if await self._schedules.replace(place, done) is None:
            # Deleted meanwhile: nothing is due any more.
            with suppress(NotFound):
                await self._schedules.change(place.schedule.id, edit)

    def _audit(self, call: Call, schedule: Schedule, outcome: str) -> None:
        self._log.info(
            "audit",
            tenant=call.tenant,
            principal=call.principal,
            rpc="ask by schedule",
            resource=schedule.id,
            outcome=outcome,
        )

    async def read_origin(self, run_id: str) -> Origin | None:
        """Return where a run of the caller's tenant comes from; None for one that no schedule has asked for."""
        try:
            return Origin(**json.loads(await self.objects.get(FIRINGS + run_id)))
        except NotFound:
            return None


def is_due(schedule: Schedule, now: float) -> bool:
    """Return whether a question is to be asked now, and nobody has claimed to do so."""
    return not schedule.is_paused and schedule.due <= now and schedule.claimed_until <= now


def read_request(schedule: Schedule) -> planner.RunRequest:
    """Return the question of a schedule; raise ``CorruptData`` for one that is no body of this version."""
    try:
        return Ask(**schedule.ask).request()
    # Stored by another version, which knew other fields: asked again, it would be refused again.
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, one["loc"])) for one in error.errors())
        raise CorruptData("schedule", f"its question is none of this version ({fields}): make it anew") from error


def advance(schedule: Schedule, firing: Firing, now: float) -> Schedule:
    """Return a schedule after it was asked: due at the next time, whatever was missed."""
    # Counted from now and not from the time that was due: what an outage has passed over is not asked one by one.
    firings = (*schedule.firings, firing)[-MAX_FIRINGS:]
    due = schedule.recurrence.next_after(now)
    return replace(schedule, due=due, claimed_until=0.0, problem="", firings=firings)


def give_up(schedule: Schedule, problem: str, now: float) -> Schedule:
    """Return a schedule whose question was refused, which it would be again: it is asked at the next time."""
    return replace(schedule, due=schedule.recurrence.next_after(now), claimed_until=0.0, problem=problem)


def postpone(schedule: Schedule, problem: str, now: float) -> Schedule:
    """Return a schedule whose question could not be asked just now: it is still due."""
    return replace(schedule, claimed_until=now + RETRY_S, problem=problem)
