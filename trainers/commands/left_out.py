"""Lines of the commands that say which rows were left out, and why."""

from __future__ import annotations

from collections.abc import Mapping

import typer


def say_left_out(counts: Mapping[str, int], *, err: bool = False) -> None:
    """Print how many rows were left out for which reason; a reason without rows says nothing.

    ``err`` prints to standard error, where standard output is another command's input.
    """
    # By reason and not by number, so that two runs over other files can be compared line by line.
    for reason, count in sorted(counts.items()):
        if count > 0:
            typer.echo(f"left out: {count:,} ({reason})", err=err)
