"""A synthesised task, its way into parquet, and the split."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fathom.errors import InvalidField
from fathom.ids import sha256
from trainers.data.convert import split_of
from trainers.data.instructions import asked
from trainers.data.records import Record

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
    """A tool call that helps to solve a task."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class SynthTask:
    """``references`` are acceptable answers for ``grader``, ``kind`` the template that made the task.

    ``path`` are calls that lead to the answer: what the last cell prints, or what ``documents`` say. ``fact`` says
    what is asked, whatever the language: tasks of one fact stay on one side of the split.
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
        """Short, and the same for the same fact in the same language."""
        return f"{self.scenario}-{self.kind}-{self.language}-{sha256(self.fact.encode())[:10]}"

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools of the path, each once: which tool fits which scenario (row Z03)."""
        return tuple(dict.fromkeys(step.tool for step in self.path))

    @property
    def data_query(self) -> str:
        """What gives the task's tables, as JSON: the interpreter's episodes begin with them injected."""
        first = self.path[0]
        return json.dumps(first.arguments, ensure_ascii=False) if first.tool == "data" else ""

    def record(self, split: str, index: int) -> Record:
        """The task as a prompt of SR33's schema; searching ones carry Search-R1's instruction."""
        prompt = asked(self.question, "search_r1", self.language) if self.scenario == "search" else self.question
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
    """A question's text in both languages, with the same fields to fill."""

    en: str
    zh: str

    def of(self, language: Language, **fields: Any) -> str:
        return (self.en if language == "en" else self.zh).format(**fields)


def unique(tasks: Iterable[SynthTask], count: int) -> list[SynthTask]:
    """The first ``count`` tasks that differ; raises ``InvalidField`` when there are fewer."""
    found: dict[str, SynthTask] = {}
    for task in tasks:
        found.setdefault(task.id, task)
        if len(found) == count:
            return list(found.values())
    raise InvalidField("count", f"{count} tasks are wanted, the data give {len(found)}")


def divided(tasks: Sequence[SynthTask], test_share: float, seed: int) -> dict[str, list[SynthTask]]:
    """Training and held-out tasks; a task's side follows from its fact alone."""
    sides: dict[str, list[SynthTask]] = {"train": [], "test": []}
    for task in tasks:
        sides[split_of(f"{task.kind} {task.fact}", test_share, seed)].append(task)
    return sides
