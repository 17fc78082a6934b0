"""``fathom prompt plans``: a model's plans under two versions of the plan prompt, such as without and with examples."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.clients.completions import read_completion
from fathom.core.errors import InvalidField
from fathom.core.ids import new_id
from fathom.domain.chat.messages import Message, Sampling
from fathom.domain.chat.pipeline import PLAN
from fathom.domain.chat.proto import message_to_proto, sampling_to_proto
from fathom.domain.intervals import bootstrap_mean
from fathom.domain.text.language import language_of
from fathom.domain.text.terms import list_words
from fathom.services.planner.config import Config
from fathom.services.planner.model.episode import Limits, Task
from fathom.services.planner.prompts.catalogue import Catalogue, Prompt
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.prompts.tools.lint import list_json
from fathom.services.planner.workflow.enrichment import QuestionContext
from fathom.services.planner.workflow.planning import MAX_SENT
from fathom.services.planner.workflow.stage_prompts import prompt_plan

# The two of the prompt's own rules; a plan that names another tool cannot be carried out.
TOOLS = (
    ("data", "Looks up figures of companies, markets and countries by name, indicator and period."),
    ("search", "Finds documents: news, readings of reports, ratings, views, causes, definitions."),
)
PLAN_TOKENS = 512
PLAN_S = 600.0


@dataclass(frozen=True)
class PlanScore:
    """Rules that a plan keeps, and how much of the question is in it."""

    question: str
    text: str
    is_valid: bool
    coverage: float
    is_copied: bool
    queries: int


@dataclass(frozen=True)
class Measure:
    """Figure of a plan: its name in the table, its value, and whether it is a share."""

    name: str
    value: Callable[[PlanScore], float]
    is_share: bool = True


MEASURES = (
    Measure("valid", lambda one: float(one.is_valid)),
    Measure("coverage", lambda one: one.coverage),
    Measure("copied", lambda one: float(one.is_copied)),
    Measure("sub-questions", lambda one: float(one.queries), is_share=False),
)


async def sample_plans(
    clients: Clients, catalogue: Catalogue, version: str, questions: Sequence[str], seeds: int, model: str, *,
    is_guided: bool,
) -> list[PlanScore]:  # fmt: skip
    """Return a plan for each question and seed, greedily; the seed draws the examples of the prompt and their layout.

    Guided, the model's grammar allows only what the prompt's schema takes. Raises ``InvalidField`` for an unknown
    version, and the errors of the policy service.
    """
    scores = []
    for question in questions:
        for seed in range(seeds):
            prompts = Prompts.of(catalogue, Config(prompt_seed=seed))
            ident = prompts.choose(question, {PLAN: version}, (PLAN,))[PLAN]
            prompt = catalogue.get(ident)
            task = Task(new_id("plan"), question, model, Sampling(), Limits(1, 0, 0.0), prompts={PLAN: ident})
            messages = prompt_plan(prompts, task, question, TOOLS, QuestionContext())
            schema = json.dumps(prompt.header.output_schema) if is_guided else ""
            text = await ask_model(clients, model, messages, schema)
            scores.append(score_plan(question, text, prompt))
    return scores


async def ask_model(clients: Clients, model: str, messages: Sequence[Message], schema: str) -> str:
    """Return the text of one completion."""
    request = policy.GenerateRequest(
        request_id=new_id("plan"),
        model=model,
        messages=[message_to_proto(message) for message in messages],
        sampling=sampling_to_proto(Sampling(max_tokens=PLAN_TOKENS)),
        response_schema_json=schema,
        without_deltas=True,
    )
    return str(await read_completion(clients, request, lambda completion: completion.text, timeout_s=PLAN_S))


def score_plan(question: str, text: str, prompt: Prompt) -> PlanScore:
    """Score a plan by the rules of its prompt: the schema, the tools, the number of sub-questions, and none twice."""
    entries = read_strictly(text, prompt)
    queries = [entry["subquery"].strip() for entry in entries]
    # Rules that a schema cannot state: a tool of another name, or one sub-question asked twice of it, is wasted.
    known = {name for name, _ in TOOLS}
    is_valid = (
        1 <= len(entries) <= MAX_SENT
        and all(entry["tool"] in known for entry in entries)
        and all(queries)
        and len({(entry["tool"], query) for entry, query in zip(entries, queries, strict=True)}) == len(entries)
    )
    wanted, there = set(list_words(question)), set(list_words(" ".join(queries)))
    shown = {query for example in list_examples(prompt) for query in example}
    return PlanScore(
        question,
        text,
        is_valid,
        len(wanted & there) / max(1, len(wanted)),
        # A plan for the example's question in place of one's own: what examples do to weak models.
        any(query in shown for query in queries),
        len(entries),
    )


def read_strictly(text: str, prompt: Prompt) -> list[Mapping[str, Any]]:
    """Return the entries of a text that is a plan of the prompt's schema and nothing else; else none."""
    try:
        value = json.loads(text)
        jsonschema.validate(value, prompt.header.output_schema or {})
    except (ValueError, jsonschema.ValidationError):
        return []
    return list(value)


def list_examples(prompt: Prompt) -> list[list[str]]:
    """Return the sub-questions of each example of a prompt."""
    return [
        [entry["subquery"] for value in list_json(example.text) for entry in value]
        for examples in prompt.examples.values()
        for example in examples
    ]


def format_ablation(names: Sequence[str], sides: Sequence[Sequence[PlanScore]], seed: int = 0) -> str:
    """Return each figure of both sides, and their difference over the same questions, with 95 % intervals.

    Intervals are drawn over whole questions: the plans of several seeds are no independent evidence.
    """
    without, having = sides
    # Differences are taken question by question, so that both sides need the same ones in the same order.
    if len(without) != len(having):
        raise InvalidField("versions", "were not asked the same questions")
    questions = len({one.question for one in without})
    width = max(24, *(len(name) + 2 for name in names))
    lines = [
        f"{len(without)} plans for {questions} questions",
        f"{'':<15}" + "".join(f"{n:>{width}}" for n in (*names, "difference")),
    ]
    for measure in MEASURES:
        values = [[measure.value(one) for one in side] for side in sides]
        changes = [after - before for before, after in zip(*values, strict=True)]
        cells = [format_mean(group_values(without, one), measure, seed) for one in values]
        cells.append(format_mean(group_values(without, changes), measure, seed, sign="+"))
        lines.append(f"{measure.name:<15}" + "".join(f"{cell:>{width}}" for cell in cells))
    same = sum(before.text == after.text for before, after in zip(without, having, strict=True))
    # `rules`, for one, plans without a prompt: equal sides are then no finding about examples.
    if same == len(without):
        lines.append(
            "Every plan is the same under both prompts: this model does not read them, or nothing is measured."
        )
    else:
        lines.append(f"the same word for word under both: {same} of {len(without)}")
    return "\n".join(lines)


def group_values(scores: Sequence[PlanScore], values: Sequence[float]) -> list[list[float]]:
    """Return the values by question."""
    groups: dict[str, list[float]] = {}
    for one, value in zip(scores, values, strict=True):
        groups.setdefault(one.question, []).append(value)
    return list(groups.values())


def format_mean(groups: Sequence[Sequence[float]], measure: Measure, seed: int, sign: str = "") -> str:
    """Return a mean with its interval; ``sign`` "+" is for differences."""
    values = [value for group in groups for value in group]
    low, high = bootstrap_mean(groups, seed=seed)
    form, factor = (f"{sign}.1f", 100) if measure.is_share else (f"{sign}.2f", 1)
    mean = sum(values) / len(values)
    return f"{factor * mean:{form}} [{factor * low:{form}}, {factor * high:{form}}]"


def choose_questions(questions: Sequence[str], limit: int, language: str) -> list[str]:
    """Return the first questions of a language, all languages for "", at most ``limit``; raise ``InvalidField``."""
    found = [question for question in questions if language in ("", language_of(question))][:limit]
    if not found:
        raise InvalidField("language", f"no question is in {language!r}")
    return found
