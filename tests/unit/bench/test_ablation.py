"""Ablations say what a part of the planner adds, and how sure that is."""

from __future__ import annotations

import pytest

from fathom.services.planner.config import Config
from tests.bench.ablation import ABLATIONS, Ablation, format_line
from tests.golden.blind.grading import Given, Grade, Verdict
from tests.golden.blind.schema import Question

QUESTION = Question(id="x-1", kind="multi_step", language="en", question="How much?", answerable=True)


def grade_all(*grades: Grade) -> list[Verdict]:
    return [Verdict(QUESTION, Given("", False, False), grade, ()) for grade in grades]


def test_the_difference_is_over_the_same_questions() -> None:
    having = grade_all(*[Grade.RIGHT] * 30, *[Grade.SILENT] * 10)
    without = grade_all(*[Grade.RIGHT] * 20, *[Grade.SILENT] * 20)
    line = format_line("reflection", having, without)
    assert line.startswith("reflection: with 75.0%, without 50.0% of 40; difference +25.0 points [+")
    same = format_line("reflection", having, having)
    assert same.endswith("difference +0.0 points [+0.0, +0.0]")


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda one: one.name)
def test_each_part_is_a_setting_of_the_planner_that_is_on_by_default(ablation: Ablation) -> None:
    default = Config()
    changed = Config.model_validate(ablation.without)
    assert [name for name in ablation.without if getattr(changed, name) != getattr(default, name)] == [
        *ablation.without
    ]
