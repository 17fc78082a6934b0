"""The examples of the plan prompt: drawn by seed, checked against its schema, and their effect measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import Sampling
from fathom.domain.chat.pipeline import PLAN, read_ask
from fathom.operations.evaluation.items import load_items
from fathom.services.planner.commands.plans import (
    PlanScore,
    choose_questions,
    format_ablation,
    sample_plans,
    score_plan,
)
from fathom.services.planner.config import Config
from fathom.services.planner.model.episode import Limits, Task
from fathom.services.planner.prompts.catalogue import Catalogue, load_catalogue, read_prompt
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.prompts.tools.lint import lint, list_json, read_lock
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.service import Service
from tests.unit.reward.house import House
from tests.unit.reward.scripted_policy import ScriptedPolicy

CATALOGUE = load_catalogue()
QUESTIONS = ["What did Apple return in 2012?", "How high was unemployment in 2020, and why?"]
SCHEMA = Path(__file__).parents[4] / "services" / "planner" / "prompts" / "plan.v2.en.md"


def plan(*queries: str, tool: str = "data") -> str:
    return json.dumps([{"tool": tool, "subquery": query} for query in queries])


def read_asked(request: policy.GenerateRequest) -> tuple[str, str]:
    """Return the question of a plan stage's request, and its system prompt."""
    stage = read_ask(request.messages[-1].content)
    assert stage is not None
    assert stage.stage == PLAN
    return stage["question"], request.messages[0].content


async def play(reply: Callable[[policy.GenerateRequest], str], *, guided: bool = False) -> tuple[list[list[PlanScore]], ScriptedPolicy]:  # fmt: skip
    """Plan the questions with a model that replies by a function, under both versions and two seeds."""
    peer = ScriptedPolicy(reply)
    telemetry = House().telemetry
    dispatcher = Dispatcher(Service("policy", peer), telemetry)
    dispatcher.ready = True
    clients = Clients({"policy": "inproc://policy"}, telemetry, dispatchers={"policy": dispatcher})
    sides = [await sample_plans(clients, CATALOGUE, one, QUESTIONS, 2, "m", is_guided=guided) for one in ("v1", "v2")]
    await clients.close()
    return sides, peer


@pytest.mark.parametrize("language", ["en", "zh"])
def test_examples_are_drawn_by_seed_with_the_same_bytes_for_the_same_seed(language: str) -> None:
    question = "Why?" if language == "en" else "为什么下跌？"
    texts = {}
    for seed in range(6):
        prompts = Prompts.of(load_catalogue(), Config(prompt_seed=seed))
        task = Task("run", question, "m", Sampling(), Limits(1, 0, 0.0))
        texts[seed] = prompts.text(task, PLAN)
        assert texts[seed] == prompts.text(task, PLAN)
        # A good plan, a bad one and a third; the rest of the examples stay out of the window.
        assert texts[seed].count("\nQuestion: " if language == "en" else "\n问题：") == 3
        assert "<example" not in texts[seed]
    assert len(set(texts.values())) >= 4
    assert prompts.choose(question, stages=(PLAN,)) == {PLAN: f"plan.v2.{language}"}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (('"subquery": "Siemens dividend', '"query": "Siemens dividend'), "example-output"),
        (('[{"tool": "data", "subquery": "Denmark retail', '[{"tool": "data", "question": "Denmark retail'), "example-output"),
        (('"indicators": ["dividend yield"]}]', '"indicators": ["dividend yield"]}'), "example-output"),
        (('"indicators": ["real wage"]', '"indicators": "real wage"'), "example-output"),
        (('case="bad"', 'case="good"'), "bad-example"),
        (('layout="prose"', 'layout="list"'), "layouts"),
        (("#. ", "1. "), "numbering"),
        (("few_shot: true\n", ""), "few-shot"),
    ],
)  # fmt: skip
def test_lint_checks_the_examples_of_a_plan(change: tuple[str, str], rule: str) -> None:
    text = SCHEMA.read_text(encoding="utf-8")
    assert [problem.rule for problem in lint(Catalogue([read_prompt("plan.v2.en.md", text)]), {})] == ["zh/en"]
    changed = text.replace(*change)
    assert changed != text
    assert rule in [problem.rule for problem in lint(Catalogue([read_prompt("plan.v2.en.md", changed)]), {})]


def test_a_plan_prompt_without_examples_is_a_problem_unless_a_newer_one_has_them() -> None:
    old = [CATALOGUE.get(f"plan.v1.{language}") for language in ("en", "zh")]
    assert {problem.rule for problem in lint(Catalogue(old), {})} == {"good-example"}
    assert lint(CATALOGUE, read_lock()) == []


def test_json_is_found_from_the_first_character_on_and_within_words() -> None:
    assert list_json('[1] or {"a": [2]}, not [3') == [[1], {"a": [2]}]
    assert list_json("none [here") == []


@pytest.mark.parametrize(
    ("text", "is_valid", "coverage", "is_copied"),
    [
        (plan("Apple return 2012"), True, 1.0, False),
        (plan("Apple 2012"), True, 2 / 3, False),
        (plan("Siemens dividend yield at the end of 2023"), True, 0.0, True),
        (plan("Apple return 2012", tool="web"), False, 1.0, False),
        (plan("Apple return 2012", "Apple return 2012"), False, 1.0, False),
        (plan(""), False, 0.0, False),
        (plan(*(f"Apple return 2012 {number}" for number in range(17))), False, 1.0, False),
        ("[]", False, 0.0, False),
        (f"Here it is: {plan('Apple return 2012')}", False, 0.0, False),
        ('{"tool": "data", "subquery": "Apple return 2012"}', False, 0.0, False),
    ],
)
def test_a_plan_is_scored_by_the_rules_of_its_prompt(
    text: str, is_valid: bool, coverage: float, is_copied: bool
) -> None:
    score = score_plan(QUESTIONS[0], text, CATALOGUE.get("plan.v2.en"))
    assert (score.is_valid, score.is_copied) == (is_valid, is_copied)
    assert score.coverage == pytest.approx(coverage)


async def test_the_ablation_shows_what_examples_change() -> None:
    """A model that can write plans only after an example, and copies one of them once."""

    def reply(request: policy.GenerateRequest) -> str:
        question, system = read_asked(request)
        shown = "Good and bad plans" in system
        if shown and question == QUESTIONS[1] and "litre of milk" in system:
            return plan("Denmark retail price of milk per litre")
        return plan(question) if shown else f"I would look up {question}"

    sides, peer = await play(reply)
    assert [sum(one.is_valid for one in side) for side in sides] == [0, 4]
    printed = format_ablation(["v1", "v2"], sides)
    assert "4 plans for 2 questions" in printed
    [valid] = [line for line in printed.splitlines() if line.startswith("valid")]
    assert valid.split()[1:] == ["0.0", "[0.0,", "0.0]", "100.0", "[100.0,", "100.0]", "+100.0", "[+100.0,", "+100.0]"]
    assert "the same word for word under both: 0 of 4" in printed
    systems = {request.messages[0].content for request in peer.seen}
    # Both seeds draw other examples for the newer version; the older has none.
    assert len(systems) == 3
    assert all(not request.response_schema_json for request in peer.seen)


async def test_a_model_that_ignores_prompts_is_said_to_measure_nothing() -> None:
    sides, peer = await play(lambda request: plan(read_asked(request)[0]), guided=True)
    assert "this model does not read them" in format_ablation(["v1", "v2"], sides)
    assert all(json.loads(request.response_schema_json)["type"] == "array" for request in peer.seen)


async def test_unknown_versions_and_languages_are_named() -> None:
    with pytest.raises(InvalidField) as refused:
        await sample_plans(Clients({}, House().telemetry), CATALOGUE, "v9", QUESTIONS, 1, "m", is_guided=False)
    assert refused.value.field == "prompts.plan"
    known = [one.question for one in load_items()]
    assert len(choose_questions(known, 5, "zh")) == 5
    with pytest.raises(InvalidField, match="'fr'"):
        choose_questions(known, 5, "fr")
