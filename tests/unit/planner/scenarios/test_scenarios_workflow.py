"""A whole workflow by a language model behind an endpoint: its stages, its sections and sources, its budget, failures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from fathom.api.datafetch.v1 import datafetch_pb2
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.domain.report_sections import SECTIONS
from fathom.services.planner.answering.rendering.finish import CheckedEnding
from fathom.services.planner.answering.rendering.report import find_sections
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.coverage.ending import CoverageEnding
from fathom.services.planner.coverage.reading import QuestionReader
from fathom.services.planner.engine import Engine
from fathom.services.planner.episode.llm import PolicyService
from tests.support.endpoint import FakeEndpoint, Reply, fake_endpoint
from tests.unit.planner.scenarios.path import open_policy
from tests.unit.planner.workflow.workflow_house import WorkflowHouse, stages

QUESTIONS = {"en": "Write a report on Apple", "zh": "写一份报告：苹果"}
TURN = memory.WindowTurn(number=1, question="What was Apple's price?", answer="It was 1.")


def write_plan(*queries: str) -> Reply:
    return Reply(text=json.dumps([{"tool": tool, "subquery": text} for tool, text in (q.split(": ") for q in queries)]))


def write_report(language: str) -> str:
    """Return a report whose sections cite the material, without a table."""
    lines = {"en": "Apple rose, the papers say why [1] [2].", "zh": "苹果上涨，报道说明了原因[1][2]。"}
    chinese = language == "zh"
    return "\n\n".join(f"## {section.name(chinese)}\n\n{lines[language]}" for section in SECTIONS)


class Datafetch:
    """Knows Apple."""

    async def read_question(
        self, request: datafetch_pb2.ReadQuestionRequest, timeout_s: float
    ) -> datafetch_pb2.ReadQuestionResponse:
        found = [
            datafetch_pb2.Mention(
                kind=datafetch_pb2.MENTION_KIND_ENTITY, start=start, end=start + len(name), text=name, value=name,
                confidence=1.0,
            )
            for name in ("Apple", "苹果")
            if (start := request.question.find(name)) >= 0
        ]  # fmt: skip
        return datafetch_pb2.ReadQuestionResponse(mentions=found)


async def play(
    script: Iterable[Reply], question: str, turns: Sequence[memory.WindowTurn] = (), **fields: Any
) -> tuple[Sequence[pb.RunEvent], FakeEndpoint]:
    """Play a workflow by an endpoint's model; return its events and the endpoint."""
    house = WorkflowHouse(turns=turns)
    known: Any = SimpleNamespace(datafetch=Datafetch())
    evidence = Evidence(house.store)
    house.ending = CoverageEnding(CheckedEnding(evidence), QuestionReader(known), evidence)
    async with fake_endpoint("gpt-4", script) as far, open_policy(far, house) as clients:
        clients.__dict__["memory"] = house.clients.memory
        house.runs.clients = house.clients = clients
        worker = house.worker(lambda: Engine(lambda protocol: PolicyService(clients, tags=protocol.tags), house.stage))
        await house.ask(question=question, model="far", **fields)
        async with house.working(worker):
            events = await house.events()
        assert (await house.runs.replay("run_1")).same
    return events, far


def read_shown(far: FakeEndpoint, request: int) -> str:
    """Return all that the model was shown with a request."""
    return "\n".join(str(message.get("content")) for message in far.requests[request].body["messages"])


@pytest.mark.parametrize("language", QUESTIONS)
async def test_a_report_has_its_sections_its_sources_and_the_prompts_of_its_language(language: str) -> None:
    plan = write_plan("data: Apple price 2020", "search: Apple news")
    script = [plan, Reply(text="{}"), Reply(text=write_report(language))]
    events, far = await play(script, QUESTIONS[language])
    finished = events[-1].finished
    assert stages(events) == ["plan", "reflect", "compose", "compose"], "the missing table comes back once"
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED
    names = [section.name(language == "zh") for section in SECTIONS]
    lines = finished.answer.markdown.splitlines()
    assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == names
    assert list(finished.answer.cited) == [1, 2]
    assert [item.number for item in finished.material] == [1, 2]
    assert events[0].started.form == pb.ANSWER_FORM_REPORT
    assert not any(request.body.get("tools") for request in far.requests), "stages call no tools themselves"
    composing = read_shown(far, 2)
    assert all(name in composing for name in names)
    assert far.refusals == []


@pytest.mark.parametrize(
    ("language", "notice"),
    [
        ("en", "**Not covered:** broken margins of Apple (its source failed)."),
        ("zh", "**未涵盖：** 苹果的broken利润率（数据源出错）。"),
    ],
)
async def test_a_part_whose_source_failed_is_named_before_anything_else(language: str, notice: str) -> None:
    failing = {"en": "data: broken margins of Apple", "zh": "data: 苹果的broken利润率"}[language]
    working = {"en": "search: Apple news", "zh": "search: 苹果新闻"}[language]
    script = [write_plan(working, failing), Reply(text="{}"), Reply(text=write_report(language))]
    events, far = await play(script, QUESTIONS[language])
    answer = events[-1].finished.answer
    assert answer.markdown.startswith(f"{notice}\n\n## ")
    assert find_sections(answer.markdown)[0].section is SECTIONS[0]
    assert failing.partition(": ")[2] in read_shown(far, 1), "the reflection sees the failure"


@pytest.mark.parametrize("language", QUESTIONS)
async def test_a_follow_up_is_rewritten_by_the_model_and_only_there_sees_the_conversation(language: str) -> None:
    whole = {"en": "What was Microsoft's price in 2020?", "zh": "微软2020年的股价是多少？"}[language]
    follow_up = {"en": "And Microsoft's in 2020?", "zh": "那微软2020年的呢？"}[language]
    script = [Reply(text=whole), write_plan("data: Microsoft price 2020"), Reply(text="{}"), Reply(text="It rose [1].")]
    events, far = await play(script, follow_up, [TURN])
    assert stages(events)[:2] == ["rewrite", "plan"]
    assert events[-1].finished.answer.markdown.startswith("It rose [1].")
    shown = [read_shown(far, number) for number in range(len(far.requests))]
    assert ["It was 1." in text for text in shown] == [True] + [False] * (len(shown) - 1)
    assert all(whole in text for text in shown[1:])


async def test_the_last_round_of_a_budget_is_for_the_answer() -> None:
    script = [write_plan("search: Apple news"), Reply(text="Apple rose [1].")]
    events, far = await play(script, "How did Apple do?", budget=pb.Budget(max_rounds=2))
    assert stages(events) == ["plan", "compose"]
    assert (len(far.requests), events[-1].finished.answer.markdown) == (2, "Apple rose [1].")


async def test_a_spent_budget_ends_the_run_and_says_so() -> None:
    script = [write_plan("search: Apple news"), Reply(text="{}")]
    events, far = await play(script, "How did Apple do?", budget=pb.Budget(max_tokens=10))
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_BUDGET
    assert "budget is spent" in finished.error
    assert len(far.requests) == 1
