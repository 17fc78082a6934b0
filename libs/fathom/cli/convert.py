"""``fathom data convert`` and ``fathom data synth``: prompts with verifiable answers for trainers to read."""

from __future__ import annotations

from pathlib import Path

import typer


def convert_set(
    name: str, source: Path, target: Path, *, instruction: str, test_share: float, seed: int, limit: int | None
) -> None:
    """Converts and says what was written and what was left out."""
    from trainers.data.convert import convert

    done = convert(name, source, target, instruction=instruction, test_share=test_share, seed=seed, limit=limit)
    for split, path in done.files.items():
        typer.echo(f"{split}: {done.rows[split]:,} prompts in {path}")
    for reason, count in sorted(done.left_out.items()):
        typer.echo(f"left out: {count:,} ({reason})")


def synthesise(home: Path, target: Path, *, count: int, seed: int, test_share: float) -> None:
    """Makes the three sets of tasks from the bundled data and says what was written."""
    from trainers.synth.bundle import Bundle
    from trainers.synth.files import write_tasks

    bundle = Bundle(home / "data")
    try:
        written = write_tasks(bundle, target, count, seed, test_share)
    finally:
        bundle.close()
    for scenario, rows in written.items():
        typer.echo(f"{scenario}: {rows['train']:,} to train, {rows['test']:,} held out, in {target / scenario}")
