"""``fathom shadow``: plays users' questions with new weights beside those that serve, and says whether to promote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from fathom.cli.options import HOME, Home

app = typer.Typer(help="Compare new weights with those that serve, on users' questions.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Compare new weights with those that serve, on users' questions."""


@app.command()
def compare(
    candidate: Annotated[str, typer.Argument(help="MODEL or MODEL@VERSION that might be promoted.")],
    baseline: Annotated[str, typer.Argument(help="MODEL or MODEL@VERSION that serves.")],
    home: Home = HOME,
    name: Annotated[str, typer.Option(help="Name of the experiment; its results are kept under it.")] = "default",
    share: Annotated[float, typer.Option(help="Share of the runs that is mirrored.", min=0, max=1)] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of that draw.")] = 0,
    limit: Annotated[int, typer.Option(help="At most this many of the newest runs.", min=1, max=10_000)] = 500,
    grader: Annotated[str, typer.Option(help="Grader of the reward service, or judge.")] = "judge",
    margin: Annotated[float, typer.Option(help="Largest difference of grades that counts as even.", min=0)] = 0.0,
    recording: Annotated[str, typer.Option(help="Recorded results to replay strictly, in place of calls.")] = "",
    threshold: Annotated[
        float, typer.Option(help="Win rate above which the whole interval must lie.", min=0, max=1)
    ] = 0.5,
    least: Annotated[int, typer.Option(help="Least number of decided questions.", min=1)] = 30,
    in_flight: Annotated[int, typer.Option(help="Questions that are played at once.", min=1, max=64)] = 2,
    tenant: Annotated[str, typer.Option(help="Whose runs; by default your token's, or the operator's own.")] = "",
    report: Annotated[str, typer.Option(help="File for one line of JSON per question.")] = "",
) -> None:
    """Mirror a share of the runs that have ended to both models, and print win rate, interval and decision.

    Exit status: 0 promote, 1 reject, 3 undecided. Called again it plays only what is new.
    """
    from fathom.cli.records.shadow import Call, run
    from fathom.operations.shadow.gate import Gate
    from fathom.operations.shadow.mirror import Experiment, Side

    experiment = Experiment(
        name, Side.parse(candidate, "candidate"), Side.parse(baseline, "baseline"), grader, margin, recording
    )
    call = Call(home, tenant, in_flight, Path(report) if report else None)
    raise typer.Exit(run(call, experiment, Gate(threshold, least), share, seed, limit))


@app.command()
def watch(
    config: Annotated[Optional[Path], typer.Option(help="YAML file with sections 'runtime' and 'shadow'.")] = None,  # noqa: UP045
    home: Home = HOME,
) -> None:
    """Mirror a share of users' runs as they end, until the gate decides; print each verdict.

    Settings are FATHOM_RUNTIME_* (bus, store, endpoints, port of metrics) and FATHOM_SHADOW_* (sides, share, gate);
    without a bus it watches the local stack. Exit status: 0 promote, 1 reject, 3 undecided.
    """
    from fathom.cli.records.shadow import watch_runs

    raise typer.Exit(watch_runs(config, home))
