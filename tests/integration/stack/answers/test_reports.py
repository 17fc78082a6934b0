"""Questions for a report through every service: the fixed sections by the reference policy, in both languages."""

from __future__ import annotations

import re

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.domain.report_sections import EVIDENCE, KEY_TABLE, SECTIONS, SOURCES
from fathom.services.local import Endpoints
from fathom.services.planner.answering.rendering.report import find_sections
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]


@pytest.mark.parametrize(
    ("question", "chinese"),
    [
        ("Write a report: the price performance of Apple and Microsoft from 2015 to 2020", False),
        ("写一份报告：比较苹果和微软2015年到2020年的最大回撤", True),
    ],
)
async def test_the_reference_policy_gives_a_report_too(stack: Stack, question: str, chinese: bool) -> None:
    _, clients = stack

    async def is_report() -> bool:
        route = await clients.planner.route_question(pb.RouteQuestionRequest(question=question))
        return route.form == pb.ANSWER_FORM_REPORT

    # The encoder loads beside the first questions, which then get the usual form.
    await eventually(is_report, within_s=60, every_s=0.5)
    events = [event async for event in run(clients, pb.RunRequest(question=question))]
    # A run that waits tells its place before it starts.
    assert next(event.started for event in events if event.HasField("started")).form == pb.ANSWER_FORM_REPORT
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    text = finished.answer.markdown
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == [section.name(chinese) for section in SECTIONS]
    bodies = {part.section: text[part.start : part.end] for part in find_sections(text)}
    assert "{{table:sheet_" in bodies[KEY_TABLE]
    assert re.search(r"\[\d+\]", bodies[SOURCES])
    assert not finished.answer.unresolved


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "Write a research report on Exxon Mobil 2014-2022: performance, risk, relation to the oil price",
            ["performance", "risk", "relation to the oil price"],
        ),
        (
            "写一份埃克森美孚2014年至2022年的研究报告：业绩表现、风险、与油价的关系",
            ["业绩表现", "风险", "与油价的关系"],
        ),
    ],
)
async def test_each_part_of_a_report_is_computed(stack: Stack, question: str, parts: list[str]) -> None:
    events = [event async for event in run(stack[1], pb.RunRequest(question=question))]
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    text = finished.answer.markdown
    bodies = {part.section: text[part.start : part.end] for part in find_sections(text)}
    assert len(bodies) == len(SECTIONS)
    assert re.findall(r"^### (.+)$", bodies[EVIDENCE], re.MULTILINE) == parts
    for body in bodies[EVIDENCE].split("### ")[1:]:
        assert "{{table:sheet_" in body
        assert "{{figure:fig_" in body
    # Of each part a row with its value and the calculation that gave it.
    assert all(re.search(rf"^\| {part} \| .+\d.+ \[\d+\] \|$", bodies[KEY_TABLE], re.MULTILINE) for part in parts)
    assert not finished.answer.unresolved
