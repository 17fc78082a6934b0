"""Slots of a question that its program fills, where an episode has computed all of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathom.services.planner.answering.calculation import Computed
from fathom.services.planner.model.slots import Slot, SlotKind, SlotSource, SlotState

# What a program says by its functions.
BY_FUNCTIONS = frozenset({SlotKind.FREQUENCY, SlotKind.OUTPUT})
# Computations that no other one answers: where a question names one, a program without it leaves a part out.
DISTINCT = frozenset(
    {
        "volatility", "max_drawdown", "correlation", "sharpe", "sortino", "beta", "cagr", "mean", "median", "sum",
        "recovery", "crossover", "percentile",
    }
)  # fmt: skip
# What it takes from the question by its words; a number may be in a function too, as the twelve months of a growth.
BY_WORDS = frozenset(
    {SlotKind.ENTITY, SlotKind.INDICATOR, SlotKind.PERIOD, SlotKind.PARAMETER, SlotKind.CONDITION, SlotKind.UNKNOWN}
)
DOUBTFUL = frozenset({SlotKind.INDICATOR, SlotKind.PARAMETER, SlotKind.UNKNOWN})


def settle_slots(slots: Sequence[Slot], computed: Computed) -> tuple[Slot, ...]:
    """Return the question's slots as a computed program fills them.

    It fills what its functions say and the words that it uses. A name, a period, a condition or a distinct computation
    that it does not use stays as it was judged, so that a part of the question which was left out is seen; a word that
    nobody has read is in doubt.
    """
    return tuple(settle_slot(slot, computed) for slot in slots)


def settle_slot(slot: Slot, computed: Computed) -> Slot:
    """Return one slot; what the model itself states as open stays open."""
    if slot.source is SlotSource.MODEL or slot.state is SlotState.FILLED:
        return slot
    text = slot.text.casefold()
    is_used = any(text in words.casefold() or words.casefold() in text for words in computed.words if words)
    is_other = slot.kind is SlotKind.MEASURE and slot.value not in DISTINCT
    if slot.kind in BY_FUNCTIONS or is_other or (slot.kind in BY_WORDS and is_used):
        return replace(slot, state=SlotState.FILLED, detail="")
    return replace(slot, state=SlotState.UNSURE) if slot.kind in DOUBTFUL else slot
