"""Answers of the contestants, read from JSON Lines or CSV, however they were made."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.core.errors import InvalidField

REFERENCE = "reference"
# Answers of one file are held in memory; a report has some thousand characters.
MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class Contestant:
    """Answers by question, all under one name."""

    name: str
    answers: Mapping[str, str]


def read_contestants(sources: Sequence[str]) -> list[Contestant]:
    """Read ``FILE`` or ``NAME=FILE`` each; a file's own name is the contestant's where none is given.

    Raises ``InvalidField`` for a file that cannot be read, a row without question and answer, a question twice, or two
    contestants of one name.
    """
    found: dict[str, Contestant] = {}
    for source in sources:
        # The last one, since a name is short and a path may have any sign but is given without a name then.
        name, _, given = source.rpartition("=")
        path = Path(given)
        name = name or path.stem
        if name in found:
            raise InvalidField("files", f"two contestants are called {name}: write NAME={path}")
        found[name] = Contestant(name, read_answers(path))
    return list(found.values())


def read_answers(path: Path) -> dict[str, str]:
    """Return answers by question; a reference may stand as ``references``, a list of which the first counts."""
    answers: dict[str, str] = {}
    for place, row in read_rows(path, "files"):
        question, answer = row.get("question"), row.get("answer")
        if answer is None and isinstance(row.get("references"), list) and row["references"]:
            answer = row["references"][0]  # type: ignore[index]
        if not isinstance(question, str) or not question.strip() or not isinstance(answer, str):
            raise InvalidField("files", f"{place} has no question with an answer")
        if question.strip() in answers:
            raise InvalidField("files", f"{place} answers a question for the second time")
        answers[question.strip()] = answer.strip()
    if not answers:
        raise InvalidField("files", f"{path} has no answer")
    return answers


def read_rows(path: Path, field: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the rows of a CSV file with a head, or the objects of JSON Lines, each with its file and line.

    Raises ``InvalidField`` of ``field``.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidField(field, f"{path} has more than {MAX_BYTES >> 20} MiB")
        # Spreadsheets write a mark before the first name of a column, which would be a part of the name.
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InvalidField(field, f"{path} cannot be read: {error}") from error
    if path.suffix.lower() == ".csv":
        rows = csv.DictReader(io.StringIO(text, newline=""))
        for row in rows:
            yield f"{path.name}:{rows.line_num}", {str(key).strip(): value for key, value in row.items()}
        return
    # Not splitlines(), which also cuts at separators that stand unescaped within texts.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError as error:
            raise InvalidField(field, f"{path.name}:{number} is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise InvalidField(field, f"{path.name}:{number} is no object")
        yield f"{path.name}:{number}", found
