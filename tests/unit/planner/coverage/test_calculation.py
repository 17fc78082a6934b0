"""Test what a computed program fills of a question, and what it leaves as it was judged."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.answering.calculation import Computed, find_computed, list_steps
from fathom.services.planner.coverage.calculation import settle_slots
from fathom.services.planner.model.episode import ToolResult, ToolStatus
from fathom.services.planner.model.slots import Slot, SlotKind, SlotSource, SlotState

PROGRAM = {"steps": ["f.maximum(s1)", "f.minimum(s1)"], "words": ["VIX", "in 2018"]}


def make_result(tool: str, head: dict[str, Any], body: str = "") -> ToolResult:
    """Return a result of a tool in the form that models see."""
    call = ToolCall(f"call-{tool}", tool, "{}")
    return ToolResult(call, "", f"{json.dumps(head)}\n{body}", ToolStatus.OK)


def make_episode(*results: ToolResult) -> Any:
    """Return an episode of one step with some results."""
    return SimpleNamespace(steps=(SimpleNamespace(results=results),))


def print_steps(*numbers: int, error: str = "") -> str:
    """Return what a cell prints of steps; ``error`` is that of the last one."""
    lines = [{"step": number, "kind": "point"} for number in numbers]
    if error:
        lines[-1] = {"step": numbers[-1], "error": error}
    return "\n".join(map(json.dumps, lines))


@pytest.mark.parametrize(
    ("body", "is_computed"),
    [
        (print_steps(1, 2), True),
        (print_steps(1), False),
        (print_steps(1, 2, error="no value"), False),
        ("nothing", False),
    ],
)
def test_a_program_counts_when_every_step_is_computed(body: str, is_computed: bool) -> None:
    episode = make_episode(make_result("data", {"program": PROGRAM}), make_result("python", {}, body))
    assert (find_computed(episode) is not None) is is_computed


def test_without_a_program_nothing_is_settled() -> None:
    episode = make_episode(make_result("data", {}), make_result("python", {}, print_steps(1)))
    assert find_computed(episode) is None
    assert list_steps(make_result("python", {}, '{"step": "x"}\n{broken "step"')) == []


def make_slot(kind: SlotKind, text: str, **changed: Any) -> Slot:
    return Slot(kind, text, **{"state": SlotState.OPEN, "detail": "no calculation gives it", **changed})


def test_it_fills_what_its_functions_say_and_the_words_that_it_uses() -> None:
    slots = [
        make_slot(SlotKind.MEASURE, "highest"),
        make_slot(SlotKind.UNKNOWN, "VIX"),
        make_slot(SlotKind.CONDITION, "above 10%"),
        make_slot(SlotKind.ENTITY, "vix"),
        make_slot(SlotKind.PERIOD, "2018"),
    ]
    found = settle_slots(slots, Computed(("VIX", "in 2018", "10%")))
    assert {slot.state for slot in found} == {SlotState.FILLED}
    assert not any(slot.detail for slot in found)


def test_a_name_or_period_that_it_leaves_out_stays_open_and_a_number_is_in_doubt() -> None:
    slots = [
        make_slot(SlotKind.ENTITY, "Apple"),
        make_slot(SlotKind.PERIOD, "2019"),
        make_slot(SlotKind.CONDITION, "above 90"),
        make_slot(SlotKind.PARAMETER, "12"),
        make_slot(SlotKind.UNKNOWN, "Chilean"),
    ]
    states = [slot.state for slot in settle_slots(slots, Computed(("VIX", "in 2018")))]
    assert states == [*[SlotState.OPEN] * 3, *[SlotState.UNSURE] * 2]


def test_what_the_answer_itself_leaves_open_stays_open() -> None:
    slot = make_slot(SlotKind.UNKNOWN, "dividends", source=SlotSource.MODEL)
    assert settle_slots([slot], Computed(("VIX",))) == (slot,)
