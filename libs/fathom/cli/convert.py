"""``fathom data convert``: a question set to the prompt files that trainers read."""

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
