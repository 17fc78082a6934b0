"""Commands of ``fathom schedule``: questions that are asked again, over a gateway's API."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import typer

app = typer.Typer(help="Ask questions again every day, week or month.", no_args_is_help=True)

Gateway = Annotated[str, typer.Option(help="URL of the gateway.", envvar="FATHOM_URL")]
Token = Annotated[str, typer.Option(help="Token or API key, where it asks for one.", envvar="FATHOM_TOKEN")]
ScheduleId = Annotated[str, typer.Argument(help="Id of the schedule, as `fathom schedule list` says it.")]
GATEWAY = "http://127.0.0.1:8080"


@app.command("add")
def add_schedule(
    question: Annotated[str, typer.Argument(help="The question.")],
    every: Annotated[str, typer.Option(help="day, week or month.")] = "day",
    at: Annotated[str, typer.Option(help="Time of the day as HH:MM.")] = "08:00",
    time_zone: Annotated[str, typer.Option(help="As the IANA database names it, e.g. Europe/Berlin.")] = "UTC",
    day: Annotated[int, typer.Option(help="1 (Monday) to 7 of a week, 1 to 31 of a month.", min=0, max=31)] = 0,
    conversation: Annotated[str, typer.Option(help="Conversation to which the answers go; by default a new one.")] = "",
    model: Annotated[str, typer.Option(help="Model; by default the gateway's.")] = "",
    gateway: Gateway = GATEWAY,
    token: Token = "",
) -> None:
    """Ask a question again every day, week or month, and print the schedule."""
    ask = {"question": question, "conversation_id": conversation, "model": model}
    # The first day of a week or a month, unless another one is named.
    day = day or int(every != "day")
    body = {"ask": ask, "every": every, "at": at, "time_zone": time_zone, "day": day}
    show_schedule(call(gateway, token, "POST", "v1/schedules", body))


@app.command("list")
def list_schedules(gateway: Gateway = GATEWAY, token: Token = "") -> None:
    """List your tenant's schedules, each with its last runs."""
    for schedule in call(gateway, token, "GET", "v1/schedules")["schedules"]:
        show_schedule(schedule)


@app.command("pause")
def pause_schedule(schedule_id: ScheduleId, gateway: Gateway = GATEWAY, token: Token = "") -> None:
    """Ask nothing until the schedule goes on."""
    show_schedule(call(gateway, token, "PATCH", path_of(schedule_id), {"paused": True}))


@app.command("resume")
def resume_schedule(schedule_id: ScheduleId, gateway: Gateway = GATEWAY, token: Token = "") -> None:
    """Let a schedule that is paused go on with its next time."""
    show_schedule(call(gateway, token, "PATCH", path_of(schedule_id), {"paused": False}))


@app.command("delete")
def delete_schedule(schedule_id: ScheduleId, gateway: Gateway = GATEWAY, token: Token = "") -> None:
    """Delete a schedule; what it has asked stays."""
    call(gateway, token, "DELETE", path_of(schedule_id))


@app.command("changes")
def show_changes(
    run_id: Annotated[str, typer.Argument(help="Run id.")],
    before: Annotated[str, typer.Option(help="Run to compare with; by default the schedule's time before.")] = "",
    gateway: Gateway = GATEWAY,
    token: Token = "",
) -> None:
    """Show what differs in a run's figures and tables from the answer before it."""
    query = f"?before={quote(before, safe='')}" if before else ""
    found = call(gateway, token, "GET", f"v1/runs/{quote(run_id, safe='')}/changes{query}")
    if not found["before"]:
        typer.echo("there are no two answers to compare")
        return
    typer.echo(f"{found['changed']} of {found['compared']} figures differ from {found['before']}")
    for figure in found["figures"]:
        typer.echo(f"  {figure['name']}: {figure['before']} -> {figure['after']}")
    for table in found["tables"]:
        counts = f"{table['added']} rows more, {table['removed']} fewer, {table['changed']} cells changed"
        typer.echo(f"  {table['title']}: {counts}")
    if found["uncompared"]:
        typer.echo(f"  {found['uncompared']} further tables differ: too many, too large or gone")


def call(gateway: str, token: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the JSON of a gateway's answer, {} for an empty one; raise ``InvalidField`` and ``DependencyFailed``."""
    from fathom.services.gateway.reports.fetching import call_gateway

    answer = call_gateway(gateway, token, method, path, body=body)
    found: dict[str, Any] = json.loads(answer) if answer else {}
    return found


def path_of(schedule_id: str) -> str:
    """Return the path of a schedule."""
    return f"v1/schedules/{quote(schedule_id, safe='')}"


def show_schedule(schedule: dict[str, Any]) -> None:
    """Print a schedule: when it asks what, what is next, and its last runs."""
    zone = ZoneInfo(schedule["time_zone"])
    day = f" {schedule['day']}" if schedule["day"] else ""
    when = f"every {schedule['every']}{day} at {schedule['at']}"
    due = datetime.fromtimestamp(schedule["due"], UTC).astimezone(zone)
    state = "paused" if schedule["paused"] else f"next {due:%Y-%m-%d %H:%M}"
    typer.echo(f"{schedule['id']}  {when} {schedule['time_zone']}, {state}: {schedule['question']}")
    if schedule["problem"]:
        typer.echo(f"  not asked the last time: {schedule['problem']}")
    for run in schedule["runs"]:
        asked = datetime.fromtimestamp(run["asked"], UTC).astimezone(zone)
        missed = f", {run['missed']} later times were missed" if run["missed"] else ""
        typer.echo(f"  {asked:%Y-%m-%d %H:%M}  {run['run_id']}{missed}")
