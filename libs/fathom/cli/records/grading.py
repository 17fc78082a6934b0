"""Implementation of ``fathom eval grade``: a person grades pairs of answers without knowing whose they are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import typer

from fathom.domain.journal import Journal
from fathom.operations.ranking.agreement import read_grade
from fathom.operations.ranking.answers import read_contestants
from fathom.operations.ranking.matches import EVEN, GRADES, Pairing, pair_all

PROMPT = "A is " + ", ".join(f"{number} {word}" for word, number in GRADES.items()) + "; empty skips, q ends"


def run(sources: Sequence[str], target: Path, limit: int, seed: int) -> int:
    """Ask for a grade of each drawn pair and append it to ``target`` at once; return how many were graded.

    Pairs that are in the file are not shown again. Raises ``InvalidField`` for the files.
    """
    journal = Journal(target)
    known = {(row.get("question"), frozenset((row.get("left"), row.get("right")))) for row in journal.read()}
    draws, graded = random.Random(seed), 0  # noqa: S311 - draws that can be repeated
    pairings = [one for one in pair_all(read_contestants(sources)) if one.left_answer and one.right_answer]
    draws.shuffle(pairings)
    for pairing in pairings[:limit]:
        # Drawn for each pair, also one that is not shown, so that a second call shows the same sides.
        is_turned = draws.random() < 0.5
        if (pairing.question, frozenset((pairing.left, pairing.right))) in known:
            continue
        grade = ask_grade(pairing, is_turned=is_turned)
        if grade < 0:
            break
        # At once, so that somebody who stops after ten pairs has graded ten.
        if grade:
            left_grade = 2 * EVEN - grade if is_turned else grade
            names = {"question": pairing.question, "left": pairing.left, "right": pairing.right}
            journal.append([{**names, "grade": left_grade}])
            graded += 1
    typer.echo(f"{target}: {graded} pairs graded now")
    return graded


def ask_grade(pairing: Pairing, *, is_turned: bool) -> int:
    """Show a pair as A and B and return the grade of A; 0 to skip it, -1 to end."""
    first, second = pairing.left_answer, pairing.right_answer
    if is_turned:
        first, second = second, first
    for title, text in (("Question", pairing.question), ("A", first), ("B", second)):
        typer.echo(f"\n--- {title}\n{text}")
    while True:
        given = typer.prompt(f"\n{PROMPT}", default="", show_default=False).strip().lower()
        if given in ("", "q"):
            return -1 if given else 0
        if (grade := read_grade(given)) is not None:
            return grade
