"""Ablations say what a part of the planner adds, and how sure that is."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from pydantic import ValidationError

from fathom.domain.chat.pipeline import COMPOSE, PLAN, REFLECT, Asked
from fathom.services.planner.config import Config
from tests.bench.ablations.ablation import ABLATIONS, LEAST, Ablation, format_line
from tests.bench.ablations.bridging import find_gap, write_stage
from tests.golden.ablations.schema import Bridge, load_bridges, load_watched
from tests.golden.blind.grading import Given, Grade, Verdict
from tests.golden.blind.schema import Question

QUESTION = Question(id="x-1", kind="multi_step", language="en", question="How much?", answerable=True)


def grade_all(*grades: Grade) -> list[Verdict]:
    return [Verdict(QUESTION, Given("", False, False), grade, ()) for grade in grades]


def test_the_difference_is_over_the_same_questions() -> None:
    having = grade_all(*[Grade.RIGHT] * 30, *[Grade.SILENT] * 10)
    without = grade_all(*[Grade.RIGHT] * 20, *[Grade.SILENT] * 20)
    line = format_line("reflection", having, without)
    assert line.startswith("reflection: with 75.0% [59.8%, 85.8%], without 50.0% [35.2%, 64.8%] of 40; ")
    assert "; difference +25.0 points [+" in line
    same = format_line("reflection", having, having)
    assert same.endswith("difference +0.0 points [+0.0, +0.0]")


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda one: one.name)
def test_each_part_is_a_setting_of_the_planner_that_is_on_by_default(ablation: Ablation) -> None:
    default = Config()
    changed = Config.model_validate(ablation.without)
    assert [name for name in ablation.without if getattr(changed, name) != getattr(default, name)] == [
        *ablation.without
    ]


def test_each_ablation_has_questions_enough() -> None:
    names = {one.name for one in ABLATIONS}
    assert {"reflection", "frameworks", "history policy", "thought length", "memory"} <= names
    for ablation in ABLATIONS:
        questions = ablation.load()
        assert len(questions) >= LEAST, ablation.name
        assert len({question.id for question in questions}) == len(questions)


def test_the_answers_are_those_of_the_bundled_data(tables_dir: Path) -> None:
    table = parquet.read_table(tables_dir / "observations.parquet", columns=["entity", "indicator", "date", "value"])
    found = {(row["entity"], row["indicator"], row["date"]): row["value"] for row in table.to_pylist()}
    wrong = []
    for bridge in load_bridges():
        value = found[bridge.answer.entity, bridge.answer.indicator, bridge.answer.day]
        if abs(value - bridge.values[0].any_of[0]) > 1e-4:
            wrong.append(bridge.id)
    for one in load_watched():
        for entity, expected in zip(one.watched.split(","), one.values, strict=True):
            first, last = (found[entity, "close_adj", day] for day in (one.first, one.last))
            if abs(100 * (last / first - 1) - expected.any_of[0]) > 0.006:
                wrong.append(f"{one.id} {entity}")
    assert wrong == []


PROFILES = """1. [search] maker of pumps => ok
Alpha Works (ALP): company profile
Alpha Works makes valves. Its headquarters are in Oslo.
Beta Pumps (BETA): company profile
Beta Pumps makes pumps. On 3 May 2012 it was listed. Its headquarters are in Turku since April 2014.
"""


def make_bridge(**fields: object) -> Bridge:
    """A bridge whose clue stands in PROFILES."""
    given = load_bridges()[0].model_dump(by_alias=True)
    return Bridge.model_validate(
        {**given, "question": "What did the pump maker from Turku close at?", "clue": "Turku", "then": "Close of {}?"}
        | fields
    )


@pytest.mark.parametrize(("gap", "found"), [("company", "Beta Pumps"), ("date", "April 2014")])
def test_the_bridging_model_reads_what_stands_near_the_question_s_words(gap: str, found: str) -> None:
    bridge = make_bridge(gap=gap)
    assert find_gap(PROFILES, bridge) == found
    reflected = write_stage(Asked(REFLECT, {"asked": PROFILES}), bridge)
    assert reflected == f'{{"data": ["Close of {found}?"]}}'


def test_the_bridging_model_knows_nothing_that_it_is_not_shown() -> None:
    bridge = make_bridge()
    assert write_stage(Asked(REFLECT, {"asked": "1. [search] maker of pumps => empty\n"}), bridge) == "{}"
    assert "Beta" not in write_stage(Asked(PLAN, {"question": bridge.question}), bridge)
    assert write_stage(Asked(COMPOSE, {"material": "[1] document: Beta Pumps"}), bridge).startswith(
        "The material has no"
    )


def test_a_bridge_whose_clue_is_not_in_its_question_is_refused() -> None:
    with pytest.raises(ValidationError, match="is not in the question"):
        make_bridge(clue="Stockholm")
