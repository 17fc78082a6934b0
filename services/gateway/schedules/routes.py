"""Routes of questions that are asked again, and of what has changed since: /v1/schedules, /v1/runs/{id}/changes."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Path, Query
from pydantic import BaseModel, Field

from fathom.clients.models import require_model
from fathom.core.call import Call, current_call
from fathom.core.errors import InvalidField
from fathom.core.ids import checked_id, content_hash, new_id
from fathom.services.gateway.bodies import Ask, Body, RunId
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.schedules.changes import RunComparer
from fathom.services.gateway.schedules.firing import Scheduler
from fathom.services.gateway.schedules.recurrence import Recurrence
from fathom.services.gateway.schedules.store import Schedule, ScheduleStore

Every = Literal["day", "week", "month"]
ScheduleId = Annotated[str, Path(description="Id of the schedule.")]


class NewSchedule(Body):
    """A question that is to be asked again."""

    ask: Ask = Field(
        description="The question, as for POST /v1/runs, without a request_id. Without a conversation it begins one;"
        " with `parent_turn` each answer is a version of the turn that follows that one."
    )
    every: Every
    at: str = Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$", description="Time of the day as HH:MM.")
    time_zone: str = Field(min_length=1, max_length=64, description="As the IANA database names it: Europe/Berlin.")
    day: int = Field(
        0, ge=0, le=31, description="1 (Monday) to 7 of a week, 1 to 31 of a month (or its last day), 0 for every day."
    )
    run_id: str = Field("", max_length=128, description="Run with whose answer the first one is compared.")
    request_id: str = Field("", description="Idempotency key: the same one again makes no second schedule.")


class ScheduleEdit(Body):
    """Edit of a schedule."""

    paused: bool = Field(description="While it is paused nothing is asked, and nothing counts as missed.")


class AskedOnce(BaseModel):
    """A time at which the question was asked; times are in seconds since 1970."""

    run_id: str
    due: float
    asked: float
    missed: int = Field(description="Later times that had passed as well, while no gateway was there to ask.")


class ScheduleState(BaseModel):
    """A question that is asked again."""

    id: str
    question: str
    conversation_id: str
    every: Every
    at: str
    time_zone: str
    day: int
    paused: bool
    creator: str = Field(description="Who made it; empty where callers are not identified.")
    created: float = Field(description="Seconds since 1970.")
    due: float = Field(description="When it is asked next, in seconds since 1970.")
    problem: str = Field(description="Why the last time was not asked; empty when it was.")
    runs: list[AskedOnce] = Field(description="The last times, oldest first.")


class ScheduleList(BaseModel):
    """The schedules of a tenant."""

    schedules: list[ScheduleState]


class ChangedFigure(BaseModel):
    """A figure that the code printed, by name; null where one of the answers does not have it."""

    name: str
    before: float | None
    after: float | None


class ChangedCell(BaseModel):
    """A cell of a table; rows are named by their first column."""

    row: str
    column: str
    before: Any
    after: Any


class ChangedTable(BaseModel):
    """A table that has changed."""

    title: str
    added: int = Field(description="Rows that are new.")
    removed: int = Field(description="Rows that are gone.")
    changed: int = Field(description="Cells of other rows that differ.")
    cells: list[ChangedCell] = Field(description="The first of them.")
    is_whole: bool = Field(description="False for a table that is too large to be compared cell by cell.")


class RunChanges(BaseModel):
    """Differences of the answer of a run from the one before it; times are in seconds since 1970."""

    before: str = Field(description="Run that is compared; empty where there is none with an answer.")
    schedule_id: str = Field(description="Schedule that asked for the run; empty for none.")
    due: float
    asked: float
    missed: int
    compared: int = Field(description="Figures that the run's code printed.")
    changed: int = Field(description="Figures that differ, among them those that one answer alone has.")
    figures: list[ChangedFigure] = Field(description="The first of them.")
    tables: list[ChangedTable]
    uncompared: int = Field(description="Further tables that differ, and are too many, too large or gone.")


def add_schedules(app: FastAPI, engine: Engine, schedules: ScheduleStore, scheduler: Scheduler) -> None:
    """Add the routes."""
    add_changes(app, RunComparer(engine, scheduler))

    @app.post("/v1/schedules", status_code=201)
    async def create_schedule(body: NewSchedule) -> ScheduleState:
        """Ask a question again every day, week or month; each answer is a turn of the same conversation."""
        if body.ask.request_id:
            raise InvalidField("ask.request_id", "must be empty: each time has an id of its own")
        engine.check_question(body.ask.request())
        if body.ask.model:
            # Here, where the caller learns of it, and not each time that the question is asked again.
            await require_model(engine.clients, body.ask.model, "ask.model")
        request_id = checked_id("request_id", body.request_id) if body.request_id else ""
        recurrence = Recurrence(body.every, body.at, body.time_zone, body.day)
        recurrence.validate()
        if body.run_id:
            await engine.require_run(checked_id("run_id", body.run_id))
        now = scheduler.clock()
        schedule = Schedule(
            id=new_id("schedule"), ask=begin_conversation(body.ask).model_dump(exclude_defaults=True),
            recurrence=recurrence, creator=(current_call() or Call.new()).principal, created=now,
            due=recurrence.next_after(now), follows=body.run_id, request_id=request_id,
            request_hash=content_hash(body.model_dump(exclude={"request_id"})),
        )  # fmt: skip
        return describe_schedule(await schedules.add(schedule))

    @app.get("/v1/schedules")
    async def list_schedules() -> ScheduleList:
        """List the questions of the caller's tenant that are asked again."""
        return ScheduleList(schedules=[describe_schedule(one) for one in await schedules.list_own()])

    @app.patch("/v1/schedules/{schedule_id}")
    async def update_schedule(schedule_id: ScheduleId, edit: ScheduleEdit) -> ScheduleState:
        """Pause a schedule, or let it go on with the next time."""
        now = scheduler.clock()

        def change(schedule: Schedule) -> Schedule:
            if edit.paused or not schedule.is_paused:
                return replace(schedule, is_paused=edit.paused)
            return replace(schedule, is_paused=False, due=schedule.recurrence.next_after(now), claimed_until=0.0)

        return describe_schedule(await schedules.change(schedule_id, change))

    @app.delete("/v1/schedules/{schedule_id}", status_code=204)
    async def delete_schedule(schedule_id: ScheduleId) -> None:
        """Delete a schedule; what it has asked stays."""
        await schedules.change(schedule_id, lambda _: None)


def add_changes(app: FastAPI, comparer: RunComparer) -> None:
    """Add the route of what has changed between two answers."""

    @app.get("/v1/runs/{run_id}/changes")
    async def get_changes(
        run_id: RunId,
        before: Annotated[
            str, Query(max_length=128, description="Run to compare with; empty is the time before of its schedule.")
        ] = "",
    ) -> RunChanges:
        """Return what differs in a run's figures and tables from the answer before it, read from the records."""
        found = await comparer.compare(run_id, before)
        origin = found.origin
        return RunChanges(
            before=found.before, schedule_id=origin.schedule_id if origin else "", due=origin.due if origin else 0.0,
            asked=origin.asked if origin else 0.0, missed=origin.missed if origin else 0,
            compared=found.compared, changed=found.changed,
            figures=[ChangedFigure(**asdict(one)) for one in found.figures],
            tables=[ChangedTable(**asdict(one)) for one in found.tables], uncompared=found.uncompared,
        )  # fmt: skip


def begin_conversation(ask: Ask) -> Ask:
    """Return a question that has a conversation; one that it begins, and whose turns do not follow each other."""
    if ask.conversation_id:
        return ask
    return ask.model_copy(update={"conversation_id": new_id("conv"), "parent_turn": 0})


def describe_schedule(schedule: Schedule) -> ScheduleState:
    """Return what a schedule's tenant is told of it."""
    return ScheduleState(
        id=schedule.id, question=str(schedule.ask["question"]), conversation_id=str(schedule.ask["conversation_id"]),
        paused=schedule.is_paused, creator=schedule.creator, created=schedule.created, due=schedule.due,
        problem=schedule.problem, runs=[AskedOnce(**asdict(one)) for one in schedule.firings],
        **asdict(schedule.recurrence),
    )  # fmt: skip
