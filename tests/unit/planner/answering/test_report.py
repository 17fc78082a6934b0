"""Reports: the sections of the skeleton in both languages, one correction that names the missing ones, notes in place."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest

from fathom.api.common.v1.common_pb2 import MISSING_REASON_UNKNOWN_ENTITY, MissingItem
from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.planner.v1.trajectory_pb2 import CodeRecord
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Sampling, ToolCall, Usage
from fathom.domain.report_sections import SECTIONS
from fathom.services.planner.answering.rendering.finish import CHECKED, CheckedEnding
from fathom.services.planner.answering.rendering.report import find_missing_sections, find_sections
from fathom.services.planner.answering.rendering.skeleton import Skeleton
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.model.episode import (
    Answer,
    Episode,
    FindingKind,
    Limits,
    Material,
    MaterialKind,
    Step,
    Task,
    ToolResult,
    ToolStatus,
)

QUESTION = "Write a report on Apple"
TABLE = "| Year | Return |\n|---|---|\n| 2020 | 80.5% [1] |"


def write(chinese: bool = False, leave_out: str = "", **bodies: str) -> str:
    """Return a report; ``bodies`` replace the text of sections by the first word of their English heading."""
    parts = []
    for section in SECTIONS:
        if section.english == leave_out:
            continue
        body = TABLE if section.english == "Key table" else "苹果上涨。" if chinese else "Apple rose."
        parts.append(f"## {section.name(chinese)}\n\n{bodies.get(section.english.split()[0].lower(), body)}")
    return "\n\n".join(parts)


def make_episode(form: str = "report", question: str = QUESTION, missing: bool = False, **task: Any) -> Episode:
    code = Material(1, MaterialKind.CODE, CodeRecord(id="c", code="x", stdout="2020: 80.5%\n", ok=True))
    item = MissingItem(subject="Tencent", reason=MISSING_REASON_UNKNOWN_ENTITY)
    known = (code, Material(2, MaterialKind.MISSING, item)) if missing else (code,)
    made = Episode(Task("run_1", question, "m", Sampling(), Limits(9, 9_999, time.monotonic() + 100), **task), ())
    calls = (ToolCall("c1", "finish", json.dumps({"answer": "x", "form": form})),) if form else ()
    completion = Completion((1,), (2,), (0.0,), "", calls, FinishReason.STOP, 0, 0, Usage(), True, "m")
    result = ToolResult(ToolCall("c0", "python", "{}"), "", "", ToolStatus.OK, 0, known)
    made.append(Step(0, (), completion, (result,)))
    return made


async def finish(text: str, episode: Episode, *, correct: bool = True) -> Answer | Message:
    return await CheckedEnding(Evidence(None), correct=correct).finish(text, episode, False)


@pytest.mark.parametrize(("chinese", "question"), [(False, QUESTION), (True, "写一份关于苹果的研究报告")])
async def test_a_whole_report_is_accepted_at_once(chinese: bool, question: str) -> None:
    answer = await finish(write(chinese), make_episode(question=question))
    assert isinstance(answer, Answer)
    assert answer.findings == ()


async def test_a_report_without_a_section_comes_back_once_with_its_name() -> None:
    text = write(leave_out="Assumptions", key="See above.")
    episode = make_episode()
    asked = await finish(text, episode)
    assert isinstance(asked, Message)
    assert "section: '## Assumptions': the report has no section 'Assumptions'" in asked.content
    assert "'## Key table'" in asked.content
    again = Completion((1,), (2,), (0.0,), "", episode.steps[0].completion.tool_calls, FinishReason.STOP, 0, 0, Usage(),
                       True, "m")  # fmt: skip
    episode.append(Step(1, (Message(Role.TOOL, f"x {CHECKED}", tool_call_id="c1"),), again))
    answer = await finish(text, episode)
    assert isinstance(answer, Answer)
    marks = [(mark.kind, mark.text, answer.markdown[mark.start : mark.end]) for mark in answer.findings]
    assert marks == [(FindingKind.SECTION, name, name) for name in ("## Key table", "## Assumptions")]


async def test_what_makes_an_answer_a_report() -> None:
    part = "## Answer\n\nApple rose 80.5% [1].\n\n## Risks\n\nNone."
    # An answer with headings is none, whatever they are called.
    assert isinstance(await finish(part, make_episode("answer")), Answer)
    assert isinstance(await finish(part, make_episode("")), Answer)
    assert isinstance(await finish(part, make_episode("report")), Message)
    asked = make_episode("", prompts={"answer": "answer.report.v1.en"})
    assert isinstance(await finish(part, asked), Message)
    # Prose without a call, as of the workflow, says by its headings what it is.
    assert isinstance(await finish(write(leave_out="Sources"), make_episode("")), Message)


async def test_what_was_not_found_is_named_in_the_section_for_it() -> None:
    answer = await finish(write(), make_episode(missing=True), correct=False)
    assert isinstance(answer, Answer)
    parts = {part.section.english: answer.markdown[part.start : part.end] for part in find_sections(answer.markdown)}
    assert "**Missing:** Tencent" in parts["Missing data"]
    assert "Tencent" not in parts["Sources"]
    assert answer.markdown.endswith("## Sources\n\nApple rose.")


def test_headings_may_be_numbered_and_emphasised_and_code_has_none() -> None:
    text = "# 1. **Answer**\n\na\n\n## 二、关键数据\n\nb\n\n```python\n# Sources\n```\n\n### Evidence:\n\nc"
    assert [part.section.english for part in find_sections(text)] == ["Answer", "Key table", "Evidence"]


def test_an_empty_section_counts_as_missing() -> None:
    [mark] = find_missing_sections(write(evidence=""), QUESTION)
    assert mark.detail == "the section 'Evidence' is empty"


@pytest.mark.parametrize(
    ("chinese", "question", "notes"),
    [
        (
            False,
            QUESTION,
            ("No table was fetched", "Not written by the model.", "- Tencent – unknown here [2]", "calc"),
        ),
        (True, "写一份关于苹果的研究报告", ("没有取得", "模型没有写这一节。", "- Tencent – 未收录 [2]", "计算")),
    ],
)
async def test_prose_of_any_model_becomes_the_fixed_sections(
    chinese: bool, question: str, notes: Sequence[str]
) -> None:
    episode = make_episode("", question, missing=True, prompts={"answer": "answer.report.v1.en"})
    answer = await finish("Apple rose 80.5% [1].\n\nMore on 2020.", episode, correct=False)
    assert isinstance(answer, Answer)
    parts = {part.section: answer.markdown[part.start : part.end].strip() for part in find_sections(answer.markdown)}
    assert list(parts) == list(SECTIONS)
    names = [section.name(chinese) for section in SECTIONS]
    assert [line.removeprefix("## ") for line in answer.markdown.splitlines() if line.startswith("## ")] == names
    bodies = list(parts.values())
    assert bodies[0] == "Apple rose 80.5% [1]."
    assert bodies[2] == "More on 2020."
    assert [notes[0] in bodies[1], bodies[3], bodies[5], notes[3] in bodies[6]] == [True, notes[1], notes[2], True]
    assert [mark.text for mark in answer.findings if mark.kind is FindingKind.SECTION][:2] == [
        f"## {name}" for name in names[:2]
    ]
    again = await finish("Apple rose 80.5% [1].\n\nMore on 2020.", episode, correct=False)
    assert again == answer, "two runs write alike"


async def test_sections_out_of_order_are_put_in_order_and_figures_stand_with_the_evidence() -> None:
    text = write().replace("## Answer\n\nApple rose.\n\n", "") + "\n\n{{figure:fig_1}}\n\n## 1. Answer\n\nIt rose."
    answer = await finish(f"Some words first.\n\n{text}", make_episode(), correct=False)
    assert isinstance(answer, Answer)
    assert answer.markdown.startswith("## Answer\n\nSome words first.\n\nIt rose.\n\n## Key table")
    assert "Apple rose.\n\n{{figure:fig_1}}\n\n## Counter-arguments" in answer.markdown
    # No section is missed; that the figure does not exist is another matter.
    assert [mark.kind for mark in answer.findings] == [FindingKind.UNRESOLVED]


async def test_a_trainer_reads_a_report_as_the_model_wrote_it() -> None:
    answer = await finish("Apple rose.", make_episode(is_rollout=True), correct=False)
    assert isinstance(answer, Answer)
    assert answer.markdown == "Apple rose."


async def test_the_answer_reaches_to_what_was_found_and_a_table_stands_once() -> None:
    sheet = Material(2, MaterialKind.SHEET, Sheet(id="t1", title="Prices"), "sheet_1")
    text = "Not understood: x.\n\nApple rose 80.5% [1].\n\nMore.\n\n{{table:sheet_1}}\n\nEnd."
    markdown = Skeleton(text, QUESTION, [*make_episode().material, sheet]).complete()
    assert markdown.startswith(
        "## Answer\n\nNot understood: x.\n\nApple rose 80.5% [1].\n\n## Key table\n\n{{table:sheet_1}} [2]\n\n"
        "## Evidence\n\nMore.\n\nEnd.\n\n## Counter-arguments"
    )
