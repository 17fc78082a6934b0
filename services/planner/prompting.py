"""Selection of the prompts of a run or rollout, made once and recorded with the trajectory."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fathom.errors import InvalidField, NotFound
from fathom.ids import sha256
from fathom.protocol.guidance import with_guidance
from fathom.protocol.language import language_of
from fathom.protocol.pipeline import COMPOSE, PLAN, REFLECT, REWRITE
from fathom.protocol.quoting import quoted
from services.planner.config import Config
from services.planner.model import Task
from services.planner.prompts.catalogue import Catalogue, Prompt, checked_names

RESEARCH_STAGES = ("research", "answer", "restate")
WORKFLOW_STAGES = (REWRITE, PLAN, REFLECT, COMPOSE, "answer")
STAGES = tuple(dict.fromkeys((*RESEARCH_STAGES, *WORKFLOW_STAGES)))


@dataclass(frozen=True)
class Prompts:
    """Prompts of a planner, according to its settings."""

    catalogue: Catalogue
    weights: Mapping[str, float]
    """Weights of the answer stage's variants."""
    versions: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    restate: bool = True

    @classmethod
    def of(cls, catalogue: Catalogue, config: Config) -> Prompts:
        """Create them from the settings; raise ``InvalidField`` for a setting that names an unknown prompt."""
        known = catalogue.names("answer")
        weights = checked_names(config.answer_variants, known, "answer_variants")
        made = cls(catalogue, weights, config.prompt_versions, config.prompt_seed, config.restate_question)
        for stage, version in config.prompt_versions.items():
            if stage not in STAGES:
                raise InvalidField(f"prompt_versions.{stage}", f"is not one of {', '.join(STAGES)}")
            for name in known if stage == "answer" else [""]:
                found(catalogue, stage, "en", name, version, f"prompt_versions.{stage}")
        return made

    def choose(
        self,
        question: str,
        key: str,
        wanted: Mapping[str, str] | None = None,
        stages: Sequence[str] = RESEARCH_STAGES,
    ) -> dict[str, str]:
        """Return prompt ids by stage, deterministic by ``key``; ``wanted`` holds ids, versions ("v1") or variants.

        Raises ``InvalidField("prompts.<stage>")`` for an unknown one.
        """
        wanted, language = wanted or {}, language_of(question)
        for stage in wanted:
            if stage not in stages:
                raise InvalidField(f"prompts.{stage}", f"is not one of {', '.join(stages)}")
        return {
            stage: self._one(stage, language, self._variant(key) if stage == "answer" else "", wanted.get(stage, "")).id
            for stage in stages
            if stage != "restate" or self.restate
        }

    def _variant(self, key: str) -> str:
        names = sorted(self.weights)
        return random.Random(f"answer:{key}").choices(names, [self.weights[name] for name in names])[0]  # noqa: S311 - repeatable

    def _one(self, stage: str, language: str, name: str, wanted: str) -> Prompt:
        version, known = self.versions.get(stage, 0), self.catalogue.names(stage)
        if wanted in known and wanted:
            name = wanted
        elif wanted.startswith("v") and wanted[1:].isdigit():
            version = int(wanted[1:])
        elif wanted:
            prompt = got(self.catalogue, wanted, f"prompts.{stage}")
            if prompt.header.stage != stage:
                raise InvalidField(f"prompts.{stage}", f"{wanted!r} is a prompt of {prompt.header.stage}")
            return prompt
        return found(self.catalogue, stage, language, name, version, f"prompts.{stage}")

    def system(self, task: Task) -> str:
        """Return the system prompt of a task, identical bytes for all runs with the same prompt."""
        return self.catalogue.get(self._ids(task)["research"]).render(self.seed)

    def opening(self, task: Task) -> str:
        """Return the user message: the question first, then what is specific to this run."""
        ids = self._ids(task)
        lines = [f"Date: {task.date}"] if task.date else []
        lines += tables(task)
        lines += [self.catalogue.get(ids[stage]).render(self.seed) for stage in ("answer", "restate") if stage in ids]
        return with_guidance(task.question, lines)

    def text(self, task: Task, stage: str) -> str:
        """Return the prompt of one workflow stage."""
        return self.catalogue.get(self._ids(task, WORKFLOW_STAGES)[stage]).render(self.seed)

    def hash(self, task: Task, stages: Sequence[str] = RESEARCH_STAGES) -> str:
        """Return a hash of all prompt texts of a task."""
        ids = self._ids(task, stages)
        return sha256("\n".join(self.catalogue.get(ids[stage]).render(self.seed) for stage in sorted(ids)).encode())

    def _ids(self, task: Task, stages: Sequence[str] = RESEARCH_STAGES) -> Mapping[str, str]:
        return task.prompts or self.choose(task.question, task.run_id, stages=stages)


def tables(task: Task) -> list[str]:
    """Return the tables supplied with a task, described as fetched ones are."""
    there = "已在 Python 中" if language_of(task.question) == "zh" else "is in Python already"
    named = [(f"sheet_{number}", sheet) for number, sheet in enumerate(task.sheets, 1)]
    return [f"{name} {there}:\n{quoted(sheet.digest.replace(sheet.id, name))}" for name, sheet in named]


def found(catalogue: Catalogue, stage: str, language: str, name: str, version: int, where: str) -> Prompt:
    """Find a prompt; raise ``InvalidField(where)`` when it does not exist."""
    try:
        return catalogue.find(stage, language, name, version)
    except NotFound as error:
        raise InvalidField(where, error.message) from error


def got(catalogue: Catalogue, wanted: str, where: str) -> Prompt:
    """Return the prompt of an id; raise ``InvalidField(where)`` when it does not exist."""
    try:
        return catalogue.get(wanted)
    except NotFound as error:
        raise InvalidField(where, error.message) from error
