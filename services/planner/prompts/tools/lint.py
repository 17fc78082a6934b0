"""Lint rules of prompt files, used by ``fathom prompt lint`` and the tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema

from fathom.domain.chat.pipeline import STAGES as WORKFLOW_STAGES
from fathom.services.planner.prompts.catalogue import AUTO_NUMBER, EXAMPLES, Catalogue, Prompt

FEW_SHOT_STAGES = frozenset({"plan", "research"})
"""Stages that write queries; examples in other stages would make all answers alike."""
PREFIX_STAGES = frozenset({"research", "search_r1", *WORKFLOW_STAGES})
"""Stages whose prompt is the prefix of every request, before tools and question."""
BILINGUAL = frozenset({"research", "answer", "restate", *WORKFLOW_STAGES})
"""Stages whose prompt is in the question's language."""
# With fewer layouts a model copies the layout of the examples.
LAYOUTS = 3
# A longer prompt takes the window from the work.
MAX_CHARS = 8_000
# Bytes that would differ from run to run, or from day to day.
VOLATILE = (
    # ``{today}`` or ``{run_id}``, which code would fill in; not ``{{table:…}}``, which is the answer's own mark.
    (re.compile(r"\{(?!\{)[a-z_]*(?:date|time|today|now|uuid|id|seed)[a-z_]*\}", re.IGNORECASE), "a placeholder"),
    # ``123e4567-e89b-12d3-a456-426614174000``
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "a UUID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d"), "a time stamp"),
    (re.compile(r"(?:today is|今天是)\s*\d", re.IGNORECASE), "a date"),
)
# Keys of a JSON schema. Tools are sent beside the prompt; a copy in its text would drift from them.
SCHEMA_IN_TEXT = re.compile(r'"(?:parameters|properties|additionalProperties)"\s*:')
# The limits of `think` and `todo`, which the prompt must name.
THOUGHT_LIMIT = re.compile(r"\b200\b")
PLAN_LIMIT = re.compile(r"at most five|最多五项")
LOCK = "lock.json"


@dataclass(frozen=True)
class Problem:
    """A violated rule; ``rule`` is the rule's name."""

    prompt: str
    rule: str
    text: str


def lint(catalogue: Catalogue, lock: Mapping[str, str]) -> list[Problem]:
    """Return all problems, by prompt.

    Only the newest version of a prompt must follow the rules, but no released version may change.
    """
    prompts = sorted(catalogue, key=lambda prompt: prompt.id)
    newest = {find_newest(catalogue, prompt) for prompt in prompts}
    problems = [problem for prompt in prompts if prompt.id in newest for rule in RULES for problem in rule(prompt)]
    problems += [
        Problem(prompt.id, "released", "differs from what was released under this version; a change is a new version")
        for prompt in prompts
        if lock.get(prompt.id, prompt.sha256) != prompt.sha256
    ]
    problems += [
        # Recorded runs name the prompts that they were played with, so a released one must stay readable.
        Problem(gone, "released", "was released and is gone")
        for gone in sorted(lock.keys() - {p.id for p in prompts})
    ]
    return sorted([*problems, *check_languages(prompts)], key=lambda problem: (problem.prompt, problem.rule))


def find_newest(catalogue: Catalogue, prompt: Prompt) -> str:
    header = prompt.header
    return catalogue.find(header.stage, header.language, header.name).id


def check_output(prompt: Prompt) -> Iterator[Problem]:
    """Declare a valid JSON schema for a JSON output, and none for any other output."""
    schema = prompt.header.output_schema
    if (prompt.header.output == "json") != (schema is not None):
        yield Problem(prompt.id, "output-schema", "a JSON output, and no other, declares its schema")
    if schema is not None:
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as error:
            yield Problem(prompt.id, "output-schema", f"the schema is none: {error.message}")


def check_examples(prompt: Prompt) -> Iterator[Problem]:
    """Give examples only where queries are written, good and bad ones, in several layouts."""
    blocks = prompt.examples
    if bool(blocks) != prompt.header.few_shot:
        yield Problem(prompt.id, "few-shot", "the header must say few_shot exactly when there are examples")
    if blocks and prompt.header.stage not in FEW_SHOT_STAGES:
        yield Problem(prompt.id, "few-shot", f"examples belong to {', '.join(sorted(FEW_SHOT_STAGES))} only")
    # A variant is for a window that has no room for them.
    if not blocks and prompt.header.stage in FEW_SHOT_STAGES and not prompt.header.name:
        yield Problem(prompt.id, "good-example", "has no example of a good first step")
    for name, examples in blocks.items():
        if len({example.layout for example in examples}) < LAYOUTS:
            yield Problem(prompt.id, "layouts", f"the examples {name!r} have fewer than {LAYOUTS} layouts")
        for case, rule in (("good", "good-example"), ("bad", "bad-example")):
            if not any(example.case == case for example in examples):
                yield Problem(prompt.id, rule, f"the examples {name!r} have no {case} case")
        if not any(AUTO_NUMBER.search(example.text) for example in examples):
            yield Problem(prompt.id, "numbering", f"the examples {name!r} have no list whose numbering can vary")
    if prompt.body.count("<examples") != len(EXAMPLES.findall(prompt.body)):
        yield Problem(prompt.id, "few-shot", "a block of examples is malformed")


def check_json_examples(prompt: Prompt) -> Iterator[Problem]:
    """Show in each example of a JSON prompt an output that its schema takes, and in a good one no other."""
    schema = prompt.header.output_schema
    if schema is None:
        return
    checker = jsonschema.Draft202012Validator(schema)
    for name, examples in prompt.examples.items():
        for example in examples:
            fits = [checker.is_valid(value) for value in list_json(example.text)]
            # A model copies the form of examples before it obeys a schema.
            if not any(fits) or (example.case == "good" and not all(fits)):
                what = example.text.splitlines()[0]
                yield Problem(
                    prompt.id, "example-output", f"an example of {name!r} has no output of the schema: {what}"
                )


def list_json(text: str) -> list[Any]:
    """Return the JSON lists and objects that stand in a text, the outermost only."""
    decode, found, place = json.JSONDecoder().raw_decode, [], 0
    while (start := next((i for i in range(place, len(text)) if text[i] in "[{"), None)) is not None:
        try:
            value, place = decode(text, start)
        except ValueError:
            place = start + 1
        else:
            found.append(value)
    return found


def check_prefix(prompt: Prompt) -> Iterator[Problem]:
    """Keep the cached prefix stable: nothing that changes from run to run, and no parameter schema of a tool."""
    if prompt.header.stage in PREFIX_STAGES:
        for pattern, what in VOLATILE:
            if pattern.search(prompt.body):
                yield Problem(prompt.id, "stable-prefix", f"holds {what} in the part that engines cache")
    if SCHEMA_IN_TEXT.search(prompt.body):
        yield Problem(prompt.id, "tool-schema", "holds a parameter schema; tools travel beside the prompt")


def check_limits(prompt: Prompt) -> Iterator[Problem]:
    """Ask for short thoughts, and for a plan that begins small, in the usual variant; others may have neither tool."""
    if prompt.header.stage != "research" or prompt.header.name:
        return
    if not THOUGHT_LIMIT.search(prompt.body):
        yield Problem(prompt.id, "thought-length", "does not limit a thought to 200 characters")
    if not PLAN_LIMIT.search(prompt.body):
        yield Problem(prompt.id, "plan-length", "does not limit the first plan to five items")


def check_length(prompt: Prompt) -> Iterator[Problem]:
    """Stay short: the window belongs to the work."""
    if len(prompt.render()) > MAX_CHARS:
        yield Problem(
            prompt.id, "length", f"has {len(prompt.render()):,} characters; at most {MAX_CHARS:,} are allowed"
        )


RULES: tuple[Callable[[Prompt], Iterator[Problem]], ...] = (
    check_output, check_examples, check_json_examples, check_prefix, check_limits, check_length,
)  # fmt: skip


def check_languages(prompts: Iterable[Prompt]) -> Iterator[Problem]:
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
    source = folder / LOCK if folder else resources.files("fathom.services.planner.prompts").joinpath(LOCK)
    return dict(json.loads(source.read_text(encoding="utf-8"))) if source.is_file() else {}


def extend_lock(catalogue: Catalogue, lock: Mapping[str, str]) -> dict[str, str]:
    """Return the lock with new prompts added; released ones keep their entry."""
    # The old lock comes last and wins: a release never changes a recorded hash.
    return dict(sorted({**{prompt.id: prompt.sha256 for prompt in catalogue}, **lock}.items()))
