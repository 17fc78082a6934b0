"""``fathom review``: items for people, their decisions, and files of them. Commands import their work when they run."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Optional

import typer

from fathom.cli.options import HOME, Home

reviews = typer.Typer(
    help="Put answers before people, decide on them, and export what was decided.", no_args_is_help=True
)

KINDS_HELP = "comparison, rewriting, hallucination, candidate or recheck."
Tenant = Annotated[str, typer.Option(help="Tenant; by default the token's.")]


@reviews.command()
def add(
    files: Annotated[
        list[str],
        typer.Argument(
            help="comparison: FILE or NAME=FILE per contestant, as for `fathom eval rank`; rewriting and "
            "hallucination: rows of a stage; candidate: rows of `fathom feedback export`."
        ),
    ],
    kind: Annotated[str, typer.Option(help="Queue: comparison, rewriting, hallucination or candidate.")],
    matches: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="comparison: the judge's grades, as `fathom eval rank` keeps them; may be added later."),
    ] = None,
    limit: Annotated[int, typer.Option(help="comparison: at most this many pairs, drawn from all.", min=1)] = 30,
    seed: Annotated[int, typer.Option(help="comparison: seed of the draw.")] = 0,
    tenant: Tenant = "",
    home: Home = HOME,
) -> None:
    """Put what waits for a person into a queue; what is there already is not added again."""
    from fathom.trainers.commands.reviews.files import Draw, add_files

    add_files(files, kind, Draw(matches, limit, seed), tenant, home)


@reviews.command()
def collect(
    since: Annotated[
        Optional[datetime],  # noqa: UP045
        typer.Option(help="Only judgements from this day on.", formats=["%Y-%m-%d"]),
    ] = None,
    limit: Annotated[int, typer.Option(help="Newest runs whose checks are read.", min=0, max=10_000)] = 200,
    regenerate: Annotated[
        bool, typer.Option("--regenerate", help="Ask again where nobody has proposed a better answer.")
    ] = False,
    tenant: Tenant = "",
    home: Home = HOME,
) -> None:
    """Put answers that users disliked or edited, or checks found fault with, into the queue of candidates.

    Only of runs whose users have consented to training.
    """
    from fathom.trainers.commands.reviews.files import collect_candidates

    collect_candidates(since, limit, tenant, home, is_played_again=regenerate)


@reviews.command()
def queue(tenant: Tenant = "", home: Home = HOME) -> None:
    """Show how many items of each queue wait, and how many are decided."""
    from fathom.trainers.commands.reviews.files import show_queues

    show_queues(tenant, home)


@reviews.command()
def decide(
    kind: Annotated[str, typer.Argument(help=KINDS_HELP)],
    tenant: Tenant = "",
    home: Home = HOME,
) -> None:
    """Decide on the items of a queue in the terminal, blind where two answers are compared."""
    from fathom.trainers.commands.reviews.files import decide_in_terminal

    decide_in_terminal(kind, tenant, home)


@reviews.command()
def export(
    kind: Annotated[str, typer.Argument(help=KINDS_HELP)],
    output: Annotated[Path, typer.Option(help="JSON Lines to write.")],
    source: Annotated[str, typer.Option(help="rewriting, hallucination: only of rows of this file, by its name.")] = "",
    tenant: Tenant = "",
    home: Home = HOME,
) -> None:
    """Write what people decided as the other commands read it.

    Comparisons for --human of `fathom eval rank`, stage rows for --decisions of `fathom data stage review`, and pairs
    of accepted candidates.
    """
    from fathom.trainers.commands.reviews.files import export_decisions

    export_decisions(kind, output, source, tenant, home)
