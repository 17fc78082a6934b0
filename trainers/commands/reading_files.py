"""Implementation of ``fathom data stage reading``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from fathom.core.errors import InvalidField
from fathom.domain.replacing import write_lines
from fathom.trainers.commands.left_out import say_left_out
from fathom.trainers.data.queries.record import read_queries
from fathom.trainers.data.stages.reading import make_readings, read_examples

LANGUAGES = ("en", "zh")


def write_readings(source: Sequence[Path], target: Path, language: str, held: Sequence[Path], share: float) -> None:
    """Write the rows; print how many there are and what was left out, and exit with 1 where nothing is left."""
    if language not in LANGUAGES:
        raise InvalidField("language", f"{language!r} is none of {', '.join(LANGUAGES)}")
    queries = [
        query.model_copy(update={"id": f"{path.name} {query.id}"}) for path in held for query in read_queries(path)
    ]
    found = make_readings(read_examples(source), language, queries, share)
    say_left_out(found.left_out)
    if not found.records:
        typer.echo("no example is left, and nothing was written", err=True)
        raise typer.Exit(1)
    write_lines(target, (record.model_dump_json(exclude_defaults=True) for record in found.records))
    typer.echo(f"{target}: {len(found.records):,} rows")
