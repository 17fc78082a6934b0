"""Implementation of ``fathom data stage export`` and ``fathom data mix``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import typer

from fathom.core.errors import InvalidField
from fathom.domain.replacing import write_lines
from fathom.trainers.commands.left_out import say_left_out
from fathom.trainers.commands.stage_files import run_on_stack
from fathom.trainers.data.mixtures.exporting import Built, Kind, build_rows, describe_saving
from fathom.trainers.data.mixtures.lengths import measure
from fathom.trainers.data.stages.reviewing import read_records

if TYPE_CHECKING:
    from fathom.clients import Clients


def export_file(
    source: Path, target: Path, home: Path, kind: str, model: str, limit: int | None, *, framework: bool
) -> None:
    """Write the accepted rows as people have decided on them; print their number, lengths, and what was left out."""
    import asyncio

    if kind not in get_args(Kind):
        raise InvalidField("kind", f"{kind!r} is none of {', '.join(get_args(Kind))}")
    records, wanted = read_records(source), cast(Kind, kind)

    async def build(clients: Clients | None) -> Built:
        from fathom.trainers.data.export.tokens import PolicyRenderer

        renderer = PolicyRenderer(clients, model) if clients is not None else None
        return await build_rows(records, wanted, limit=limit, with_framework=framework, renderer=renderer)

    built = run_on_stack(home, build) if model else asyncio.run(build(None))
    say_left_out(built.left_out)
    if not built.rows:
        typer.echo("there is no accepted row, and nothing was written", err=True)
        raise typer.Exit(1)
    write_rows(built.rows, target)
    typer.echo(f"{target}: {measure(built.rows).describe() if model else f'{len(built.rows):,} rows without ids'}")
    if saving := describe_saving(built.rows):
        typer.echo(saving)


def mix_file(path: Path, target: Path) -> None:
    """Write the mixture; print what each part gives, what it lacks, and its lengths."""
    from fathom.trainers.data.mixtures.mixing import mix, read_mixture

    mixture = read_mixture(path)
    mixed = mix(mixture)
    if not mixed.rows:
        typer.echo("no part has a row that is short enough, and nothing was written", err=True)
        raise typer.Exit(1)
    write_rows(mixed.rows, target)
    for title, lengths in mixed.lengths.items():
        typer.echo(f"{title}: {lengths.rows:,} of {mixed.wanted[title]:,}; {lengths.describe()}")
        if title in mixed.too_long:
            typer.echo(f"{title}: {mixed.too_long[title]:,} left out, above {mixture.max_tokens:,} tokens", err=True)
        if title in mixed.short:
            typer.echo(f"{title}: too few, {mixed.short[title]:,} are lacking", err=True)
    typer.echo(f"{target}: {measure(mixed.rows).describe()}")


def write_rows(rows: Sequence[Mapping[str, Any]], target: Path) -> None:
    """Write rows atomically: a training that starts meanwhile must not read half of a mixture."""
    write_lines(target, (json.dumps(row, ensure_ascii=False) for row in rows))
