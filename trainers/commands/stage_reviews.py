"""Implementation of ``fathom data stage review``: a person decides on the rows that wait."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import typer

from fathom.core.errors import InvalidField
from fathom.trainers.data.stages.record import read_rows
from fathom.trainers.data.stages.reviewing import GivenDecision, Review, decide, describe, find_reviews, list_waiting

PROMPT = "a accepts, r rejects, e edits, empty skips, q ends"


def review_file(source: Path, by: str, decisions: Path | None) -> None:
    """Take decisions from a file, or ask for each row that waits; print how many there are now and still wait.

    Rows of the file may say themselves who decided; ``by`` decided on the others.
    """
    given = read_rows(decisions, GivenDecision, "decisions") if decisions is not None else []
    if not by.strip() and (decisions is None or not all(one.by.strip() for one in given)):
        raise InvalidField("by", "is empty: say who decides")
    if decisions is not None:
        count = decide(source, [Review.model_validate(one.model_dump() | {"by": one.by or by}) for one in given])
    else:
        count = ask_for_all(source, by)
    typer.echo(f"{find_reviews(source)}: {count:,} decisions now; {len(list_waiting(source)):,} rows still wait")


def ask_for_all(source: Path, by: str) -> int:
    """Show each row that waits and ask for a decision; each is written at once, so that nothing is lost by a stop."""
    count = 0
    for record in list_waiting(source):
        typer.echo("\n" + "\n".join(describe(record)))
        given = typer.prompt(PROMPT, default="", show_default=False).strip().lower()
        if given == "q":
            break
        output = ""
        if given == "e":
            output = edit_text(record.output)
            # An emptied text decides nothing: whoever wants to reject a row has a key for it.
            given = "a" if output.strip() else ""
        if given not in ("a", "r"):
            continue
        decision: dict[str, str] = {"a": "accept", "r": "reject"}
        review = Review.model_validate(
            {"id": record.id, "decision": decision[given], "by": by, "output": output.strip()}
        )
        try:
            count += decide(source, [review])
        except InvalidField as error:
            typer.echo(f"not taken: {error.message}", err=True)
    return count


def edit_text(text: str) -> str:
    """Return the text as a person leaves it in their editor, ``$VISUAL`` or ``$EDITOR``; "" where none can be run."""
    # Split as a shell does it, since editors are often set with options, as in “code --wait”.
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "output.txt"
        file.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*editor, str(file)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            typer.echo(f"the editor {editor[0]!r} did not end well, nothing is changed: {error}", err=True)
            return ""
        return file.read_text(encoding="utf-8")
