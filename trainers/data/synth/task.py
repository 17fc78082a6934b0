"""A synthetic task, its conversion to a prompt record, and the train-test split."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fathom.core.errors import InvalidField
from fathom.core.ids import sha256
from fathom.trainers.data.convert import split_of
from fathom.trainers.data.instructions import format_question
from fathom.trainers.data.records import Record

Scenario = Literal["search", "code", "table"]
Language = Literal["en", "zh"]
SCENARIOS: tuple[Scenario, ...] = ("search", "code", "table")
ABILITIES: Mapping[Scenario, str] = {
    "search": "situational-search",
    "code": "code-data-reasoning",
    "table": "table-query",
}


@dataclass(frozen=True)
class Step:
    """A tool call on the way to a task's answer."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class SynthTask:
    """A task with its accepted answers and its solution.

    ``references`` are accepted answers for ``grader``, ``kind`` names the template that made the task. ``path`` holds
    tool calls that lead to the answer: the last cell's output, or the content of ``documents``. ``fact`` identifies
    what is asked independently of the language: all tasks of one fact are in the same split.
    """

    scenario: Scenario
    kind: str
    fact: str
    language: Language
    question: str
    references: tuple[str, ...]
    grader: str
    path: tuple[Step, ...]
    grader_parameters: Mapping[str, float] = field(default_factory=dict)
    documents: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Return a short id, determined by the fact and the language."""
        return f"{self.scenario}-{self.kind}-{self.language}-{sha256(self.fact.encode())[:10]}"

    @property
    def tools(self) -> tuple[str, ...]:
        """Return the distinct tools of the path: those suitable for the task."""
        return tuple(dict.fromkeys(step.tool for step in self.path))

    @property
    def data_query(self) -> str:
        """Return the query for the task's tables as JSON; empty when the path does not begin with one.

        The code interpreter's episodes start with these tables injected.
        """
        first = self.path[0]
        return json.dumps(first.arguments, ensure_ascii=False) if first.tool == "data" else ""

    def record(self, split: str, index: int) -> Record:
        """Convert the task to a prompt record; search tasks carry Search-R1's instruction."""
        prompt = (
            format_question(self.question, "search_r1", self.language) if self.scenario == "search" else self.question
        )
        return Record(
            f"fathom_{self.scenario}",
            (("user", prompt),),
            ABILITIES[self.scenario],
            self.references,
            split,
            index,
            self.id,
            self.question,
            self.language,
            self.grader,
            self.grader_parameters,
            self.scenario,
            self.tools,
            self.data_query,
        )


@dataclass(frozen=True)
class Wording:
    """A question's text in both languages, with the same fields."""

    en: str
    zh: str

    def of(self, language: Language, **fields: Any) -> str:
        return (self.en if language == "en" else self.zh).format(**fields)


def unique(tasks: Iterable[SynthTask], count: int) -> list[SynthTask]:
    """Return the first ``count`` distinct tasks; raises ``InvalidField`` when there are fewer."""
    found: dict[str, SynthTask] = {}
    for task in tasks:
        found.setdefault(task.id, task)
        if len(found) == count:
            return list(found.values())
    raise InvalidField("count", f"{count} tasks are wanted, the data give {len(found)}")


def split_tasks(tasks: Sequence[SynthTask], test_share: float, seed: int) -> dict[str, list[SynthTask]]:
    """Split tasks into training and held-out ones; a task's side depends only on its kind and fact."""
    sides: dict[str, list[SynthTask]] = {"train": [], "test": []}
    for task in tasks:
        sides[split_of(f"{task.kind} {task.fact}", test_share, seed)].append(task)
    return sides
