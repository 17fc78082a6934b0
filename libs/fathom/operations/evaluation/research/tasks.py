"""Tasks of DeepResearch Bench with the criteria of each, read from a folder outside of the package."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fathom.core.errors import InvalidField
from fathom.operations.evaluation.public.items import REPORT_SET
from fathom.operations.evaluation.public.rows import read_objects

DIMENSIONS = ("comprehensiveness", "insight", "instruction_following", "readability")
TASKS, CRITERIA, REFERENCES = "query.jsonl", "criteria.jsonl", "reference.jsonl"


class Row(BaseModel):
    """A row of one of the files; what it has beside these fields is not used."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: int
    prompt: str = Field(min_length=1)


R = TypeVar("R", bound=Row)


class TaskRow(Row):
    """A task's own fields."""

    topic: str
    language: str


class ReferenceRow(Row):
    """A reference report of the authors."""

    article: str = Field(min_length=1)


class Criterion(BaseModel):
    """One thing that a report is graded on, with its weight within its dimension."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    criterion: str = Field(min_length=1)
    explanation: str
    weight: float = Field(gt=0)


class Rubric(Row):
    """Criteria of a task by dimension, and the weights of the dimensions."""

    dimension_weight: Mapping[str, float]
    criterions: Mapping[str, tuple[Criterion, ...]]

    @model_validator(mode="after")
    def dimensions_are_those_of_the_authors(self) -> Self:
        for name, found in (("dimension_weight", self.dimension_weight), ("criterions", self.criterions)):
            if set(found) != set(DIMENSIONS):
                raise ValueError(f"{name} must have {', '.join(DIMENSIONS)}")
        if empty := [name for name, criteria in self.criterions.items() if not criteria]:
            raise ValueError(f"criterions.{empty[0]} is empty")
        if sum(self.dimension_weight.values()) <= 0:
            raise ValueError("dimension_weight has no weight above 0")
        return self


@dataclass(frozen=True)
class ReportTask:
    """A task with its criteria; ``reference`` is the authors' report, "" where it is not at hand."""

    id: str
    prompt: str
    topic: str
    language: str
    rubric: Rubric
    reference: str = ""


def load_tasks(folder: Path, limit: int, seed: int) -> list[ReportTask]:
    """Return at most ``limit`` tasks of the folder of all sets, drawn by the seed, in the order of the file.

    Raises ``NotFound`` for a missing file of tasks or criteria, and ``InvalidField`` naming the line of a wrong row, or
    the task without criteria. Reference reports are optional, since they are too large for most copies of the set.
    """
    home = folder / REPORT_SET
    tasks = {row.id: row for row in read_rows(home / TASKS, TaskRow)}
    rubrics = {row.id: row for row in read_rows(home / CRITERIA, Rubric)}
    path = home / REFERENCES
    references = {row.id: row.article for row in read_rows(path, ReferenceRow)} if path.is_file() else {}
    if not tasks:
        raise InvalidField("set", f"{home / TASKS} has no task")
    # Before anything is drawn: a set with a gap is another set.
    for task in tasks.values():
        if task.id not in rubrics or rubrics[task.id].prompt != task.prompt:
            raise InvalidField("set", f"{CRITERIA} has no criteria of task {task.id}")
        # Scores beside a reference and scores alone have no common mean.
        if references and task.id not in references:
            raise InvalidField("set", f"{REFERENCES} has no report of task {task.id}")
    chosen = random.Random(seed).sample(sorted(tasks), min(limit, len(tasks)))  # noqa: S311 - can be repeated
    return [
        ReportTask(str(task.id), task.prompt, task.topic, task.language, rubrics[task.id], references.get(task.id, ""))
        for task in tasks.values()
        if task.id in chosen
    ]


def read_rows(path: Path, schema: type[R]) -> Iterator[R]:
    """Yield the rows of a file; raise ``NotFound``, or ``InvalidField`` naming line and field of a wrong row."""
    for place, value in read_objects(path):
        try:
            yield schema.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            raise InvalidField(place, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
