"""Rows of questions with their provenance, in JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fathom.core.errors import InvalidField, NotFound
from fathom.core.ids import content_hash
from fathom.domain.replacing import write_lines
from fathom.domain.text.language import language_of

Difficulty = Literal["easy", "medium", "hard"]
# A longer text is a document with a question in it.
MAX_CHARS = 4_000


class Change(BaseModel):
    """One change of a text: what stood at a place before, and what stands there after it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    operator: str = Field(min_length=1)
    at: int = Field(ge=0)
    before: str = ""
    after: str = ""


class Query(BaseModel):
    """A question, where it is from, and what was done to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    text: str = Field(min_length=1, max_length=MAX_CHARS)
    language: Literal["en", "zh"]
    source: str = Field(min_length=1)
    """First place of the question: a file and line, or a run."""
    parent: str = ""
    """Id of the query that it was made from."""
    made_by: str = ""
    """The model that wrote it, with its version; "" for people."""
    intent: str = ""
    difficulty: Difficulty | None = None
    rationale: str = ""
    """Reason for its difficulty."""
    clean: str = ""
    """The text before noise; "" where there is none."""
    noise: tuple[str, ...] = ()
    """Operators that changed the text, in order."""
    changes: tuple[Change, ...] = ()
    """Replacements of the operators, in order: undone from the last to the first, they give the clean text back."""


def make_query(text: str, source: str, **more: str) -> Query:
    """Return a query whose id follows from its text and source, so that a repetition has the same one."""
    language = "zh" if language_of(text) == "zh" else "en"
    name = f"q_{content_hash([text, source, *sorted(more.items())])[:16]}"
    return Query.model_validate({"id": name, "text": text, "language": language, "source": source, **more})


def read_queries(path: Path) -> list[Query]:
    """Read rows of JSON Lines, or the lines of another file as texts.

    A row may have ``text`` or ``question`` alone, or ``question`` with an id and whatever else; empty lines and a text
    file's comments ("#") are passed over. Raises ``NotFound`` for a missing file, and ``InvalidField`` naming file and
    line of a wrong row, for an id twice, and for a file without a query.
    """
    found: dict[str, Query] = {}
    for place, line in read_lines(path):
        query = parse_line(line, place, is_text=path.suffix != ".jsonl")
        if query is None:
            continue
        if query.id in found:
            raise InvalidField("source", f"{place} has the id {query.id} for the second time")
        found[query.id] = query
    if not found:
        raise InvalidField("source", f"{path} has no query")
    return list(found.values())


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of a file that are not empty, each with its place."""
    if not path.is_file():
        raise NotFound("file", str(path))
    # Seeds come out of spreadsheets and editors: a mark at the beginning is no part of the first question.
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if line.strip():
            yield f"{path.name}:{number}", line.strip()


def parse_line(line: str, place: str, *, is_text: bool) -> Query | None:
    """Return the query of a line; None for a comment. Raises ``InvalidField`` naming the line."""
    try:
        if is_text:
            return None if line.startswith("#") else make_query(line, place)
        row = json.loads(line)
        if isinstance(row, dict) and ("id" not in row or "text" not in row):
            query = make_query(str(row.get("text") or row["question"]), place)
            # Sets of questions with answers have ids of their own, by which a report can name them.
            return query.model_copy(update={"id": str(row.get("id") or query.id)})
        return Query.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidField("source", f"{place}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (ValueError, KeyError) as error:
        raise InvalidField("source", f"{place} has no text: {error}") from error


def write_queries(queries: Iterable[Query], target: Path) -> int:
    """Write the rows atomically; return their number."""
    return write_lines(target, (query.model_dump_json(exclude_defaults=True) for query in queries))
