"""Runs whose question asks for a report: the form stands in the first event, in the prompts and in the record."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.services.planner.engine import Engine
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import Step, Task
from tests.unit.planner.house import House, finish

ENGLISH, CHINESE = "Write a report on Apple", "写一份报告：苹果"


async def play(house: House, question: str, **fields: object) -> tuple[pb.RunStarted, Task]:
    """Return the first event and the task of a run."""
    tasks: list[Task] = []

    def stage(task: Task, steps: Sequence[Step], cut_short: Step | None) -> EpisodeResources:
        tasks.append(task)
        return house.stage(task, steps, cut_short)

    worker = house.worker(lambda: Engine(lambda protocol: house.policy, stage))
    await house.ask(question=question, **fields)  # type: ignore[arg-type]
    async with house.working(worker):
        events = await house.events()
    assert (await house.runs.replay("run_1")).same
    return events[0].started, tasks[0]


@pytest.mark.parametrize(("question", "prompt"), [(ENGLISH, "answer.report.v1.en"), (CHINESE, "answer.report.v1.zh")])
async def test_a_question_for_a_report_gets_the_prompt_of_a_report(question: str, prompt: str) -> None:
    house = House(finish("Done."))
    started, task = await play(house, question)
    assert (started.form, task.prompts["answer"]) == (pb.ANSWER_FORM_REPORT, prompt)
    ended = await house.record.get_trajectory("run_1")
    assert ended is not None
    assert ended.report, "a resumption writes a report as well, when the log is gone"


async def test_any_other_question_keeps_the_usual_form() -> None:
    started, task = await play(House(finish("Done.")), "why?")
    assert (started.form, task.prompts["answer"]) == (pb.ANSWER_FORM_ANSWER, "answer.conclusion.v3.en")


async def test_the_form_that_a_request_names_is_kept() -> None:
    started, task = await play(House(finish("Done.")), ENGLISH, prompts={"answer": "sections"})
    assert (started.form, task.prompts["answer"]) == (pb.ANSWER_FORM_UNSPECIFIED, "answer.sections.v1.en")


async def test_a_small_window_has_no_room_for_a_report() -> None:
    started, task = await play(House(finish("Done.")), ENGLISH, window={"tokens": 4_000})
    assert (started.form, task.prompts["answer"]) == (pb.ANSWER_FORM_REPORT, "answer.short.v1.en")
