"""Implementation of ``fathom runs``: list, show, stop, resume, replay and branch runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.cli.ask import MARKS, describe_stage, print_trace, show_reading
from fathom.cli.console import make_table, open_console
from fathom.clients import Clients, connect
from fathom.clients.local import read_endpoints
from fathom.clients.runs import resume as resumed
from fathom.clients.runs import watch
from fathom.core.errors import InvalidField
from fathom.core.ids import new_id

CONSENTS = {"given": trajectory.CONSENT_GIVEN, "refused": trajectory.CONSENT_REFUSED}


def with_planner(home: Path, planner: str, work: Callable[[Clients], Awaitable[int]]) -> None:
    """Run ``work`` with clients and exit with its status when that is not 0."""

    async def run_with_clients() -> int:
        clients = connect({"planner": planner} if planner else dict(read_endpoints(home).services))
        try:
            return await work(clients)
        finally:
            await clients.close()

    status = asyncio.run(run_with_clients())
    if status:
        raise typer.Exit(status)


def list_runs(home: Path, planner: str, limit: int) -> None:
    """List runs, newest first; delegated ones name their parent."""

    async def work(clients: Clients) -> int:
        response = await clients.planner.list_runs(pb.ListRunsRequest(page_size=limit))
        open_console().print(tabulate_runs(response.runs))
        return 0

    with_planner(home, planner, work)


def tabulate_runs(runs: Sequence[pb.RunSummary]) -> Table:
    """Return a table of runs; a terminal of 80 columns has their ids on one line."""
    # Two ids do not stand beside each other there: the parents' column is left out where there are none.
    parents = ["parent"] if any(run.parent_run_id for run in runs) else []
    table = make_table("run", "began", "state", "question", *parents, whole="run")
    for run in runs:
        began = run.start_time.ToDatetime(UTC).strftime("%Y-%m-%d %H:%M:%S")
        cells = [run.run_id, began, state_of(run.stop_reason), escape(run.question[:80])]
        table.add_row(*cells, *([run.parent_run_id] if parents else []))
    return table


def show(run_id: str, home: Path, planner: str) -> None:
    """Show a run: its rounds with their calls, its plan, its sub-runs, its answer so far."""

    async def work(clients: Clients) -> int:
        show_run(await clients.planner.get_run(pb.GetRunRequest(run_id=run_id)), Console())
        return 0

    with_planner(home, planner, work)


def stop(run_id: str, home: Path, planner: str) -> None:
    """End a run; what was collected stays."""

    async def work(clients: Clients) -> int:
        response = await clients.planner.stop_run(pb.StopRunRequest(run_id=run_id))
        typer.echo("stopping" if response.was_running else "not running: if it waits in the queue, it ends when taken")
        return 0

    with_planner(home, planner, work)


def resume(run_id: str, home: Path, planner: str, rounds: int, seconds: float) -> None:
    """Resume a run that was stopped, has spent its budget or failed, and print its events."""

    async def work(clients: Clients) -> int:
        budget = pb.Budget(max_rounds=rounds, max_ms=int(seconds * 1000))
        events = resumed(clients, pb.ResumeRunRequest(run_id=run_id, budget=budget))
        finished = await print_trace(events, Console(), "")
        return 0 if finished.HasField("answer") else 1

    with_planner(home, planner, work)


def replay(run_id: str, home: Path, planner: str) -> None:
    """Replay a finished run from its record alone; exit with status 1 and print the first difference, if any."""

    async def work(clients: Clients) -> int:
        found = await clients.planner.replay_run(pb.ReplayRunRequest(run_id=run_id))
        if found.same:
            typer.echo(f"the same: {found.steps} rounds, hash {found.replayed_hash}")
            return 0
        typer.echo(f"differs at {found.difference}\n- recorded: {found.recorded}\n+ replayed: {found.replayed}")
        return 1

    with_planner(home, planner, work)


def consent(stated: str, run_id: str, home: Path, planner: str) -> None:
    """State whether runs may become training data, or show what holds."""
    if stated and stated not in CONSENTS:
        raise InvalidField("stated", f"{stated!r} must be one of {', '.join(CONSENTS)}")

    async def work(clients: Clients) -> int:
        if stated:
            request = pb.SetConsentRequest(request_id=new_id("consent"), run_id=run_id, consent=CONSENTS[stated])
            await clients.planner.set_consent(request)
        found = await clients.planner.get_consent(pb.GetConsentRequest(run_id=run_id))
        words = {value: name for name, value in CONSENTS.items()}
        of = "this run" if found.of_run else "all runs of who asks"
        typer.echo(f"{words[found.consent]}: stated of {of}" if found.consent else "nothing stated, which is a refusal")
        return 0

    with_planner(home, planner, work)


def branch(run_id: str, home: Path, planner: str, steps: int, model: str, rounds: int) -> None:
    """Begin a new run with the first rounds of one that has ended, and print its further events."""

    async def work(clients: Clients) -> int:
        request = pb.BranchRunRequest(
            request_id=new_id("run"), run_id=run_id, steps=steps, model=model, budget=pb.Budget(max_rounds=rounds)
        )
        made = await clients.planner.branch_run(request)
        typer.echo(f"run {made.run_id}")
        finished = await print_trace(watch(clients, made.run_id), Console(), "")
        return 0 if finished.HasField("answer") else 1

    with_planner(home, planner, work)


def state_of(reason: trajectory.StopReason) -> str:
    """Return the word for a stop reason."""
    name = trajectory.StopReason.Name(reason).removeprefix("STOP_REASON_").lower()
    return "running" if name == "unspecified" else name


def show_run(found: pb.GetRunResponse, console: Console) -> None:
    """Print a run with one line per call, under its round."""
    run = found.trajectory
    state = "running" if found.running else state_of(run.stop_reason)
    parent = f", delegated by {found.parent_run_id}" if found.parent_run_id else ""
    console.print(f"[bold]{run.run_id}[/] {state}, resumed {found.leg} times{parent}\n{escape(run.question)}")
    for step in run.steps:
        if step.HasField("stage"):
            console.print(f"  {step.index + 1:>3} [magenta]▸ {step.stage.name}[/] {escape(describe_stage(step.stage))}")
        for result in step.tool_results:
            mark = MARKS.get(result.status, "·")
            console.print(f"  {step.index + 1:>3} {mark} [bold]{result.tool}[/] {escape(result.intent)}")
    for item in found.todo:
        console.print(f"  plan: {item.state:<8} {escape(item.text)}")
    for child in found.children:
        console.print(f"  sub-run {child.run_id} {state_of(child.stop_reason)}: {escape(child.question)}")
    if run.error:
        console.print(f"[red]{escape(run.error)}[/]")
    if run.HasField("answer"):
        console.rule("answer")
        show_reading(run.answer, console)
        console.print(escape(run.answer.markdown))
