"""Commands of ``fathom feedback``: read what users said of answers, and export it for training."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Optional

import typer

from fathom.cli.options import HOME, Home

app = typer.Typer(help="Read what users said of answers, and export it as training pairs.", no_args_is_help=True)

Helpful = Annotated[
    Optional[bool],  # noqa: UP045
    typer.Option("--helpful/--unhelpful", help="Only thumbs up, or down."),
]
Tag = Annotated[str, typer.Option(help="Only with this tag.")]
Edited = Annotated[bool, typer.Option("--edited", help="Only answers that were edited.")]
Since = Annotated[Optional[datetime], typer.Option(help="Only from this day on.", formats=["%Y-%m-%d"])]  # noqa: UP045
Tenant = Annotated[str, typer.Option(help="Tenant; by default the token's.")]


@app.command("list")
def list_all(
    helpful: Helpful = None,
    tag: Tag = "",
    run: Annotated[str, typer.Option(help="Only of this run.")] = "",
    edited: Edited = False,
    since: Since = None,
    limit: Annotated[int, typer.Option(help="Most judgements.", min=1, max=1000)] = 50,
    gateway: Annotated[str, typer.Option(help="URL of the gateway, for links to the runs.")] = "",
    tenant: Tenant = "",
    home: Home = HOME,
) -> None:
    """List judgements, oldest first, each with its question and its run."""
    from fathom.cli.records import feedback as feedback_records

    chosen = feedback_records.make_request(helpful, tag, run, since, edited=edited)
    feedback_records.list_judgements(chosen, limit, gateway, tenant, home)


@app.command()
def export(
    target: Annotated[Path, typer.Argument(help="File for the pairs, one JSON object a line.")],
    helpful: Helpful = None,
    tag: Tag = "",
    edited: Edited = False,
    since: Since = None,
    tenant: Tenant = "",
    home: Home = HOME,
) -> None:
    """Write pairs of what users preferred: an edited answer over the original one, else the answer with its thumb.

    Only of runs whose users have consented to training, and of each run the last judgement. Without any there is no
    file, and the status is 1.
    """
    from fathom.cli.records import feedback as feedback_records

    feedback_records.export(target, feedback_records.make_request(helpful, tag, "", since, edited=edited), tenant, home)
