"""Commands of ``fathom runs``: list, usage, show, stop, resume, replay, consent, branch; see ``records``."""

from __future__ import annotations

from typing import Annotated

import typer

from fathom.cli.options import HOME, Home

app = typer.Typer(help="List, show, stop, resume, replay and branch runs.", no_args_is_help=True)

Planner = Annotated[str, typer.Option(help="URL of a planner, e.g. grpc://host:50051; by default the local stack's.")]
RunId = Annotated[str, typer.Argument(help="Run id.")]


@app.command("list")
def list_runs(
    home: Home = HOME,
    planner: Planner = "",
    limit: Annotated[int, typer.Option(help="Maximum number of runs.", min=1, max=1000)] = 20,
) -> None:
    """List runs, newest first; delegated ones name their parent."""
    from fathom.cli.records import runs as run_records

    run_records.list_runs(home, planner, limit)


@app.command()
def usage(
    home: Home = HOME,
    planner: Planner = "",
    days: Annotated[int, typer.Option(help="Days back, today included (UTC).", min=1, max=3_660)] = 30,
) -> None:
    """Sum tokens and cost of your tenant's runs by day and model."""
    from fathom.cli.records import usage as usage_records

    usage_records.show_usage(home, planner, days)


@app.command()
def show(run_id: RunId, home: Home = HOME, planner: Planner = "") -> None:
    """Show a run: its rounds with their calls, its plan, its sub-runs, its answer so far."""
    from fathom.cli.records import runs as run_records

    run_records.show(run_id, home, planner)


@app.command()
def stop(run_id: RunId, home: Home = HOME, planner: Planner = "") -> None:
    """End a run; what was collected stays."""
    from fathom.cli.records import runs as run_records

    run_records.stop(run_id, home, planner)


@app.command()
def resume(
    run_id: RunId,
    home: Home = HOME,
    planner: Planner = "",
    rounds: Annotated[int, typer.Option(help="Further rounds; 0 means the server's default.", min=0)] = 0,
    seconds: Annotated[float, typer.Option(help="Further seconds; 0 means the server's default.", min=0)] = 0,
) -> None:
    """Resume a run that was stopped, has spent its budget or failed, and print its events."""
    from fathom.cli.records import runs as run_records

    run_records.resume(run_id, home, planner, rounds, seconds)


@app.command()
def replay(run_id: RunId, home: Home = HOME, planner: Planner = "") -> None:
    """Replay a finished run from its record alone; exit with status 1 and print the first difference, if any."""
    from fathom.cli.records import runs as run_records

    run_records.replay(run_id, home, planner)


@app.command()
def consent(
    stated: Annotated[str, typer.Argument(help="given or refused; without it, what holds is shown.")] = "",
    run_id: Annotated[str, typer.Option("--run", help="Run; without it, all runs that say nothing themselves.")] = "",
    home: Home = HOME,
    planner: Planner = "",
) -> None:
    """State whether a run, or all your runs, may become training data."""
    from fathom.cli.records import runs as run_records

    run_records.consent(stated, run_id, home, planner)


@app.command()
def branch(
    run_id: RunId,
    at: Annotated[int, typer.Option("--at", help="Rounds of the run that the new one begins with.", min=0)],
    home: Home = HOME,
    planner: Planner = "",
    model: Annotated[str, typer.Option(help="Model that goes on; by default the same.")] = "",
    rounds: Annotated[int, typer.Option(help="Further rounds; 0 means the server's default.", min=0)] = 0,
) -> None:
    """Begin a new run with the first rounds of one that has ended, and go on from there."""
    from fathom.cli.records import runs as run_records

    run_records.branch(run_id, home, planner, at, model, rounds)
