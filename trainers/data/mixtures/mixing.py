"""Mixture of training files in shares, under a limit of tokens, without texts of an evaluation."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fathom.core.errors import InvalidField
from fathom.trainers.data.mixtures.contradictions import refuse_contradictions
from fathom.trainers.data.mixtures.leaks import refuse_leaks
from fathom.trainers.data.mixtures.lengths import Lengths, count_tokens, measure
from fathom.trainers.data.queries.record import read_lines
from fathom.trainers.data.queries.sampling import divide
from fathom.trainers.data.stages.record import describe_failure


class Part(BaseModel):
    """A file of the mixture and its share, in whatever unit the shares have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Path
    share: int = Field(gt=0)
    name: str = ""

    @property
    def title(self) -> str:
        """Return the name, or that of the file."""
        return self.name or self.file.stem


class Mixture(BaseModel):
    """Content of a mixture file; paths are relative to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    total: int = Field(gt=0)
    # A row of a single token has nothing to predict.
    max_tokens: int = Field(gt=1)
    too_long: Literal["error", "drop"] = "error"
    """Refuse a longer row, or leave it out; rows are never cut, because the end is what they teach."""
    seed: int = 7
    held: tuple[Path, ...] = ()
    """Files of evaluations, none of whose questions may stand in a row."""
    parts: tuple[Part, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def has_distinct_names(self) -> Mixture:
        """Refuse two parts of one name, whose counts could not be told apart."""
        titles = [part.title for part in self.parts]
        if len(set(titles)) < len(titles):
            raise ValueError(f"two parts have one name: {', '.join(titles)}")
        return self


@dataclass(frozen=True)
class Mixed:
    """The rows in their order; what was wanted of each part, what it lacks and what was too long; their lengths."""

    rows: list[dict[str, Any]]
    wanted: Mapping[str, int]
    short: Mapping[str, int]
    too_long: Mapping[str, int]
    lengths: Mapping[str, Lengths]


def read_mixture(path: Path) -> Mixture:
    """Read a mixture file; raise ``InvalidField`` naming the field that is wrong."""
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
        found = Mixture.model_validate(value)
    except ValidationError as error:
        raise InvalidField("mixture", f"{path}: {describe_failure(error)}") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InvalidField("mixture", f"{path} cannot be read: {error}") from error
    parts = tuple(part.model_copy(update={"file": path.parent / part.file}) for part in found.parts)
    return found.model_copy(update={"parts": parts, "held": tuple(path.parent / file for file in found.held)})


def mix(mixture: Mixture) -> Mixed:
    """Draw the rows of each part by its share; the same files and seed give the same rows in the same order.

    A part with too few rows gives all, and the others keep their number. Raises ``InvalidField`` for a row that is too
    long or has no token ids, and for two that contradict each other or teach the same; ``FailedPrecondition`` for a row
    with a question of an evaluation.
    """
    wanted = divide(mixture.total, {part.title: part.share for part in mixture.parts})
    draws = random.Random(mixture.seed)
    chosen: dict[str, list[dict[str, Any]]] = {}
    short, dropped = dict[str, int](), dict[str, int]()
    for part in mixture.parts:
        rows, dropped[part.title] = read_part(part, mixture)
        chosen[part.title] = draws.sample(rows, min(len(rows), wanted[part.title]))
        if len(rows) < wanted[part.title]:
            short[part.title] = wanted[part.title] - len(rows)
    # After the draw, because only rows that are chosen teach anything.
    refuse_leaks(((f"{title} {row['id']}", row) for title, part in chosen.items() for row in part), mixture.held)
    refuse_repeats(chosen)
    refuse_contradictions(chosen)
    lengths = {title: measure(rows, title) for title, rows in chosen.items()}
    mixed = [row for rows in chosen.values() for row in rows]
    # Shuffled over all parts: a training that reads in order would otherwise see one kind of row after the other.
    draws.shuffle(mixed)
    return Mixed(mixed, wanted, short, {name: count for name, count in dropped.items() if count}, lengths)


def read_part(part: Part, mixture: Mixture) -> tuple[list[dict[str, Any]], int]:
    """Return a part's rows that are short enough, by id, and how many are too long."""
    rows: dict[str, dict[str, Any]] = {}
    too_long = 0
    for place, line in read_lines(part.file):
        row = parse_row(line, place)
        count = count_tokens(row, place)
        if count > mixture.max_tokens and mixture.too_long == "error":
            raise InvalidField("max_tokens", f"{place} has {count:,} tokens, at most {mixture.max_tokens:,} are wanted")
        if count > mixture.max_tokens:
            too_long += 1
            continue
        if row["id"] in rows:
            raise InvalidField("parts", f"{place} has the id {row['id']} for the second time")
        rows[row["id"]] = row
    # By id, so that the order of the file does not matter.
    return [rows[name] for name in sorted(rows)], too_long


def parse_row(line: str, place: str) -> dict[str, Any]:
    """Return the row of a line; raise ``InvalidField`` for what is none."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InvalidField("parts", f"{place} is no JSON: {error}") from error
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        raise InvalidField("parts", f"{place} is no row with an id")
    return row


def refuse_repeats(chosen: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Raise ``InvalidField`` for a row that stands in two parts, which would count twice."""
    seen: dict[str, str] = {}
    for title, rows in chosen.items():
        for row in rows:
            if seen.setdefault(row["id"], title) != title:
                raise InvalidField("parts", f"{row['id']} is in {seen[row['id']]} and in {title}")
