"""Test when an answer with open parts is given back to the model, and when it is accepted with them."""

from __future__ import annotations

import pytest

from fathom.services.planner.coverage.ending import is_worth_returning
from fathom.services.planner.coverage.stated import STATED
from fathom.services.planner.coverage.wording import list_open
from fathom.services.planner.model.slots import Reading, Slot, SlotKind, SlotSource, SlotState

GAP = Slot(SlotKind.MEASURE, "drawdown", "max_drawdown", state=SlotState.OPEN, detail="no calculation gives it")
NAMED = Slot(SlotKind.UNKNOWN, "years before 1948", state=SlotState.OPEN, detail=STATED)


@pytest.mark.parametrize(("slots", "is_returned"), [((GAP, NAMED), True), ((NAMED,), False), ((), False)])
def test_a_gap_that_the_model_itself_has_named_is_no_reason(slots: tuple[Slot, ...], is_returned: bool) -> None:
    assert is_worth_returning(Reading("How deep was it?", slots, "", ())) is is_returned


def test_what_the_check_and_the_model_both_name_is_said_once() -> None:
    words = ("Drawdown", "taxes")
    stated = [
        Slot(SlotKind.UNKNOWN, text, source=SlotSource.MODEL, state=SlotState.OPEN, detail=STATED) for text in words
    ]
    assert list_open("How deep was it?", [GAP, *stated]) == (
        "drawdown (no calculation gives it)",
        "taxes",
    )
