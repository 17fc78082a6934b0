"""``fathom data convert``, ``synth`` and ``compress``: creates training data from existing data."""

from __future__ import annotations

import asyncio
from pathlib import Path

import typer

from fathom.clients.local import read_endpoints
from fathom.trainers.commands.left_out import say_left_out


def convert_set(
    name: str, source: Path, target: Path, *, instruction: str, test_share: float, seed: int, limit: int | None
) -> None:
    """Convert a question set; print the rows written and left out."""
    from fathom.trainers.data.convert import convert

    done = convert(name, source, target, instruction=instruction, test_share=test_share, seed=seed, limit=limit)
    for split, path in done.files.items():
        typer.echo(f"{split}: {done.rows[split]:,} prompts in {path}")
    say_left_out(done.left_out)


def synthesise(home: Path, target: Path, *, count: int, seed: int, test_share: float) -> None:
    """Create the three sets of tasks from the bundled data; print the rows written."""
    from fathom.trainers.data.synth.bundle import Bundle
    from fathom.trainers.data.synth.files import write_tasks

    bundle = Bundle(home / "data")
    try:
        written = write_tasks(bundle, target, count, seed, test_share)
    finally:
        bundle.close()
    for scenario, rows in written.items():
        typer.echo(f"{scenario}: {rows['train']:,} to train, {rows['test']:,} held out, in {target / scenario}")


def compress_thinking(home: Path, source: Path, target: Path, *, budget: int, model: str) -> None:
    """Shorten the thoughts in a file of conversations; print their lengths before and after."""

    async def work() -> None:
        from fathom.clients import connect
        from fathom.trainers.data.compress_file import compress_file

        clients = connect(read_endpoints(home).services)
        try:
            lengths = await compress_file(source, target, budget, clients, model)
        finally:
            await clients.close()
        for side, numbers in lengths.table().items():
            shown = "  ".join(f"{name} {value:,.2f}".removesuffix(".00") for name, value in numbers.items())
            typer.echo(f"{side}: {shown}")

    asyncio.run(work())
