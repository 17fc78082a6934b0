"""The bench of history policies: what each shows of a conversation."""

from __future__ import annotations

from fathom.services.planner.commands.follow_ups import Case, Exchange
from tests.bench.memory.histories import POLICIES, SERVED, describe, has_expected, make_prompt

FACT = "Its gross margin was 38.2 %."
LONG = "\n".join(["Apple did well.", "It grew.", "It paid a dividend.", FACT])
CASE = Case(
    turns=tuple(
        Exchange(question=f"Question {number}?", answer=LONG.replace("38.2", f"3{number}.2")) for number in range(4)
    ),
    follow_up="Why is it so low?",
    expected_mentions=("31.2|31,2",),
)


def test_only_the_policy_that_keeps_all_shows_a_detail_of_an_old_answer() -> None:
    shown = {name: has_expected(CASE, make_prompt(CASE, full)) for name, full in POLICIES.items()}
    assert shown == {"all": True, "points of all": False, SERVED: False}


def test_a_detail_of_the_last_answer_is_lost_by_points_alone() -> None:
    case = CASE.model_copy(update={"expected_mentions": ("33.2",)})
    shown = {name: has_expected(case, make_prompt(case, full)) for name, full in POLICIES.items()}
    assert shown == {"all": True, "points of all": False, SERVED: True}


def test_a_line_has_the_share_the_length_and_with_a_model_the_difference() -> None:
    assert "in the prompt 0 of 1 = 0.0%" in describe(SERVED, [CASE], {})
    line = describe("all", [CASE, CASE], {"all": [1.0, 1.0], SERVED: [0.0, 0.0]})
    assert "right 100.0%, to what serves [+100.0, +100.0] points" in line
