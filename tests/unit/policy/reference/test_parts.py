"""A question for a report is answered part by part, each with its calculation, table and chart."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.policy.reference.conftest import ALPHA, BETA, make_program

YEARS = "f.period('2019-01-01', '2020-12-31')"
ONE, OTHER = (f"f.within({name}, {YEARS})" for name in ("s1", "s2"))
QUESTION = "Write a report on Alpha 2019-2020: performance, risk, relation to Beta, management"
PERFORMANCE, RISK, RELATION, MANAGEMENT = (
    f"Alpha 2019-2020: {words}" for words in ("performance", "risk", "relation to Beta", "management")
)
HEADINGS = ["Answer", "Key table", "Evidence", "Counter-arguments", "Assumptions", "Missing data", "Sources"]


@pytest.fixture
def world(two_companies: Any) -> Any:
    two_companies.reads_only = True
    two_companies.words = []
    two_companies.program = make_program([f"f.ret({ONE})"])
    two_companies.parts = {
        PERFORMANCE: make_program([f"f.ret({ONE})"]),
        RISK: make_program([f"f.vol({ONE})"], confidence=0.9, unused=[{"words": "risk", "reason": "UNREAD"}]),
        RELATION: make_program([f"f.corr({ONE}, {OTHER})"], series=[ALPHA, BETA], words=["Alpha", "Beta"]),
        # The names alone would give this, too.
        MANAGEMENT: make_program([f"f.ret({ONE})"], unused=[{"words": "management", "reason": "UNREAD"}]),
    }
    two_companies.asked = [["risk", "the words of a part", ""]]
    two_companies.unmeasured = frozenset({MANAGEMENT})
    return two_companies


def read_section(answer: str, heading: str) -> str:
    return answer.partition(f"## {heading}\n")[2].partition("\n## ")[0]


async def test_each_part_has_its_value_its_table_and_its_chart(drive: Any, world: Any) -> None:
    talk = await drive(QUESTION, world)
    assert re.findall(r"^## (.+)$", talk.answer, re.MULTILINE) == HEADINGS
    assert talk.calls[-1][1]["form"] == "report"
    evidence = read_section(talk.answer, "Evidence")
    assert re.findall(r"^### (.+)$", evidence, re.MULTILINE) == ["performance", "risk", "relation to Beta"]
    assert len(re.findall(r"\{\{table:sheet_\d\}\}", evidence)) == 3
    assert re.findall(r"\{\{figure:(\w+)\}\}", evidence) == ["fig_1", "fig_2", "fig_3"]
    assert [kind for _, call in talk.calls for kind in re.findall(r"chart\(\w+, '(\w+)'", str(call.get("code")))] == [
        "rebased",
        "volatility",
        "scatter",
    ]
    table = read_section(talk.answer, "Key table")
    assert len(re.findall(r"^\| (?:performance|risk|relation to Beta) \| .+ \[\d+\] \|$", table, re.MULTILINE)) == 3


async def test_what_cannot_be_computed_is_missing_and_an_uncertain_reading_is_an_assumption(
    drive: Any, world: Any
) -> None:
    talk = await drive(QUESTION, world)
    assert talk.calls[-1][1]["reading"]["open"] == ["management"]
    assert read_section(talk.answer, "Missing data").strip() == "- management"
    assert "“risk” is taken for: annualised volatility of Alpha" in read_section(talk.answer, "Assumptions")
    assert "a language model" in read_section(talk.answer, "Counter-arguments")


async def test_a_series_that_several_parts_need_is_fetched_once(drive: Any, world: Any) -> None:
    talk = await drive(QUESTION, world)
    fetched = [call["entities"] for name, call in talk.calls if name == "data" and "entities" in call]
    assert fetched == [["AAA"], ["AAA", "BBB"]]


async def test_a_last_round_gives_the_report_as_far_as_it_has_come(drive: Any, world: Any) -> None:
    talk = await drive(QUESTION, world, nudge_after=2)
    assert re.findall(r"^## (.+)$", talk.answer, re.MULTILINE) == HEADINGS
    assert talk.calls[-1][1]["reading"]["open"]


async def test_more_parts_than_one_report_has_are_named(drive: Any, world: Any) -> None:
    world.parts = {f"Alpha 2019-2020: part {number}": make_program([f"f.ret({ONE})"]) for number in range(8)}
    talk = await drive(QUESTION, world)
    assert talk.calls[-1][1]["reading"]["open"] == ["part 6", "part 7"]


async def test_a_question_whose_parts_name_nothing_to_compute_is_read_as_a_whole(drive: Any, world: Any) -> None:
    please = "Alpha 2019-2020: please"
    world.parts = {MANAGEMENT: world.parts[MANAGEMENT], please: world.parts[MANAGEMENT]}
    world.unmeasured = frozenset({MANAGEMENT, please})
    talk = await drive("Alpha 2019-2020: a report on the management, please", world)
    assert "return of Alpha" in talk.answer
    assert "{{table:" in talk.answer
