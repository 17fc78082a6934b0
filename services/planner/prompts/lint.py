"""Lint rules of prompt files, used by ``fathom prompt lint`` and the tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import jsonschema

from fathom.protocol.pipeline import STAGES as WORKFLOW_STAGES
from services.planner.prompts.catalogue import AUTO_NUMBER, EXAMPLES, Catalogue, Prompt

FEW_SHOT_STAGES = frozenset({"research"})
"""Stages that write queries; examples in other stages would make all answers alike."""
PREFIX_STAGES = frozenset({"research", "search_r1", *WORKFLOW_STAGES})
"""Stages whose prompt is the prefix of every request, before tools and question."""
BILINGUAL = frozenset({"research", "answer", "restate", *WORKFLOW_STAGES})
"""Stages whose prompt is in the question's language."""
LAYOUTS = 3
MAX_CHARS = 8_000
# Bytes that would differ from run to run, or from day to day.
VOLATILE = (
    (re.compile(r"\{(?!\{)[a-z_]*(?:date|time|today|now|uuid|id|seed)[a-z_]*\}", re.IGNORECASE), "a placeholder"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "a UUID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d"), "a time stamp"),
    (re.compile(r"(?:today is|今天是)\s*\d", re.IGNORECASE), "a date"),
)
SCHEMA_IN_TEXT = re.compile(r'"(?:parameters|properties|additionalProperties)"\s*:')
THOUGHT_LIMIT = re.compile(r"\b200\b")
PLAN_LIMIT = re.compile(r"at most five|最多五项")
LOCK = "lock.json"


@dataclass(frozen=True)
class Problem:
    """A violated rule; ``row`` is the rule's code."""

    prompt: str
    row: str
    text: str


def lint(catalogue: Catalogue, lock: Mapping[str, str]) -> list[Problem]:
    """Return all problems, by prompt.

    Only the newest version of a prompt must follow the rules, but no released version may change.
    """
    prompts = sorted(catalogue, key=lambda prompt: prompt.id)
    newest = {newest_of(catalogue, prompt) for prompt in prompts}
    problems = [problem for prompt in prompts if prompt.id in newest for rule in RULES for problem in rule(prompt)]
    problems += [
        Problem(prompt.id, "P10", "differs from what was released under this version; a change is a new version")
        for prompt in prompts
        if lock.get(prompt.id, prompt.sha256) != prompt.sha256
    ]
    problems += [
        Problem(gone, "P10", "was released and is gone") for gone in sorted(lock.keys() - {p.id for p in prompts})
    ]
    return sorted([*problems, *both_languages(prompts)], key=lambda problem: (problem.prompt, problem.row))


def newest_of(catalogue: Catalogue, prompt: Prompt) -> str:
    header = prompt.header
    return catalogue.find(header.stage, header.language, header.name).id


def declared_output(prompt: Prompt) -> Iterator[Problem]:
    """Row P01: JSON has a schema that is one, and nothing else has."""
    schema = prompt.header.output_schema
    if (prompt.header.output == "json") != (schema is not None):
        yield Problem(prompt.id, "P01", "a JSON output, and no other, declares its schema")
    if schema is not None:
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as error:
            yield Problem(prompt.id, "P01", f"the schema is none: {error.message}")


def few_shot(prompt: Prompt) -> Iterator[Problem]:
    """Rows P03 to P06: examples at key places, in several layouts, good and bad ones."""
    blocks = prompt.examples
    if bool(blocks) != prompt.header.few_shot:
        yield Problem(prompt.id, "P03", "the header must say few_shot exactly when there are examples")
    if blocks and prompt.header.stage not in FEW_SHOT_STAGES:
        yield Problem(prompt.id, "P03", f"examples belong to {', '.join(sorted(FEW_SHOT_STAGES))} only")
    if not blocks and prompt.header.stage in FEW_SHOT_STAGES:
        yield Problem(prompt.id, "P05", "has no example of a good first step")
    for name, examples in blocks.items():
        if len({example.layout for example in examples}) < LAYOUTS:
            yield Problem(prompt.id, "P04", f"the examples {name!r} have fewer than {LAYOUTS} layouts")
        for case, row in (("good", "P05"), ("bad", "P06")):
            if not any(example.case == case for example in examples):
                yield Problem(prompt.id, row, f"the examples {name!r} have no {case} case")
        if not any(AUTO_NUMBER.search(example.text) for example in examples):
            yield Problem(prompt.id, "P07", f"the examples {name!r} have no list whose numbering can vary")
    if prompt.body.count("<examples") != len(EXAMPLES.findall(prompt.body)):
        yield Problem(prompt.id, "P03", "a block of examples is malformed")


def stable_prefix(prompt: Prompt) -> Iterator[Problem]:
    """Rows P09 and R05: nothing that changes, and no parameter schema of a tool."""
    if prompt.header.stage in PREFIX_STAGES:
        for pattern, what in VOLATILE:
            if pattern.search(prompt.body):
                yield Problem(prompt.id, "P09", f"holds {what} in the part that engines cache")
    if SCHEMA_IN_TEXT.search(prompt.body):
        yield Problem(prompt.id, "R05", "holds a parameter schema; tools travel beside the prompt")


def short_thought(prompt: Prompt) -> Iterator[Problem]:
    """Rows R01 and X02: short thoughts, and a plan that begins small."""
    if prompt.header.stage != "research":
        return
    if not THOUGHT_LIMIT.search(prompt.body):
        yield Problem(prompt.id, "R01", "does not limit a thought to 200 characters")
    if not PLAN_LIMIT.search(prompt.body):
        yield Problem(prompt.id, "X02", "does not limit the first plan to five items")


def length(prompt: Prompt) -> Iterator[Problem]:
    """Row X06: the window belongs to the work."""
    if len(prompt.render()) > MAX_CHARS:
        yield Problem(prompt.id, "X06", f"has {len(prompt.render()):,} characters; at most {MAX_CHARS:,} are allowed")


RULES: tuple[Callable[[Prompt], Iterator[Problem]], ...] = (
    declared_output, few_shot, stable_prefix, short_thought, length,
)  # fmt: skip


def both_languages(prompts: Iterable[Prompt]) -> Iterator[Problem]:
    """Yield problems of prompts whose newest Chinese and English versions differ."""
    versions: dict[tuple[str, str], dict[str, int]] = {}
    for prompt in prompts:
        header = prompt.header
        if header.stage in BILINGUAL:
            known = versions.setdefault((header.stage, header.name), {})
            known[header.language] = max(header.version, known.get(header.language, 0))
    for (stage, name), known in versions.items():
        if known.get("en") != known.get("zh"):
            where = ".".join(filter(None, (stage, name)))
            yield Problem(where, "zh/en", f"newest versions differ: {known}")


def read_lock(folder: Path | None = None) -> dict[str, str]:
    """Return the sha256 of each released prompt, of the package or of ``folder``."""
    source = folder / LOCK if folder else resources.files("services.planner.prompts").joinpath(LOCK)
    return dict(json.loads(source.read_text(encoding="utf-8"))) if source.is_file() else {}


def released(catalogue: Catalogue, lock: Mapping[str, str]) -> dict[str, str]:
    """Return the lock with new prompts added; released ones keep their entry."""
    return dict(sorted({**{prompt.id: prompt.sha256 for prompt in catalogue}, **lock}.items()))
