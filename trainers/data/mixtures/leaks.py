"""Refusal of training rows in which questions of an evaluation stand, whole or nearly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fathom.core.errors import FailedPrecondition, InvalidField
from fathom.domain.text.overlap import Text, find_leaks
from fathom.trainers.data.queries.record import read_queries
from fathom.trainers.data.records import read
from fathom.trainers.data.sets import json_lines

# Enough to see which part is at fault; a whole list would hide what the message says.
SHOWN_LEAKS = 5
# Fields of a row that hold messages: those of RL and preference data, and those of imitation.
PROMPT, MESSAGES = "prompt", "messages"
FIELDS = (MESSAGES, PROMPT, "chosen", "rejected")
PARQUET = ".parquet"
Row = Mapping[str, Any]


def refuse_leaks(rows: Iterable[tuple[str, Row]], held: Sequence[Path]) -> None:
    """Raise ``FailedPrecondition`` naming evaluation questions that stand in rows, given with their names.

    Raises ``NotFound`` and ``InvalidField`` for a file of an evaluation that is missing or wrong.
    """
    texts = [Text(f"{path.name} {query.id}", query.text) for path in held for query in read_queries(path)]
    shown = (Text(name, text) for name, row in rows for text in list_texts(row))
    leaks = find_leaks(shown, texts) if texts else []
    if leaks:
        named = "; ".join(f"{leak.held.name} in {leak.training.name}" for leak in leaks[:SHOWN_LEAKS])
        raise FailedPrecondition(f"{len(leaks)} questions of the evaluation stand in the training rows: {named}")


def refuse_leaking_files(files: Iterable[Path], held: Sequence[Path], prompt_key: str = PROMPT) -> None:
    """Check the files of a training as ``refuse_leaks`` does: parquet of prompts, or JSON Lines of ``fathom export``.

    Raises ``InvalidField`` for a row without messages, in which no question could be found.
    """
    if held:
        refuse_leaks((row for file in files for row in read_training_rows(file, prompt_key)), held)


def read_training_rows(file: Path, prompt_key: str) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a file, each with its place."""
    if file.suffix == PARQUET:
        for record in read(file, prompt_key):
            yield f"{file.name}[{record.index}]", record.row()
        return
    for number, row in enumerate(json_lines(file)):
        place = f"{file.name}[{number}]"
        # Ids alone may hold any question, and a check that sees none would pass.
        if not any(row.get(field) for field in (MESSAGES, PROMPT)):
            raise InvalidField(place, "has no messages that could be compared with data.held_files")
        yield place, row


def list_texts(row: Row) -> list[str]:
    """Return what a row shows and teaches."""
    # A message may have no content, such as one that only calls a tool.
    return [str(message.get("content") or "") for name in FIELDS for message in row.get(name) or ()]
