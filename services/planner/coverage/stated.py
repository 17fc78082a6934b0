"""Reading of a question as its model states it, as an argument of ``finish``, and how it refines the question's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.model.slots import Slot, SlotKind, SlotSource, SlotState, parse_day
from fathom.services.planner.tools.arguments import read_arguments
from fathom.services.planner.tools.think import READING, Finish

KINDS = {
    "entities": SlotKind.ENTITY,
    "indicators": SlotKind.INDICATOR,
    "measures": SlotKind.MEASURE,
    "parameters": SlotKind.PARAMETER,
}
MAX_CHARS = 240
# Why a part is open that the model has named as open itself.
STATED = "the answer says so"


def read_statement(calls: Sequence[ToolCall]) -> tuple[Slot, ...]:
    """Return the slots that the model states in its ``finish`` call; () for none or malformed ones."""
    call = next((call for call in calls if call.name == Finish.name), None)
    if call is None:
        return ()
    try:
        said = read_arguments(call).get(READING)
    except InvalidField:
        return ()
    return tuple(list_stated(said)) if isinstance(said, Mapping) else ()


def list_stated(said: Mapping[str, Any]) -> list[Slot]:
    """Return the slots of a statement, as far as it keeps to the schema."""
    found = [
        Slot(kind, text, source=SlotSource.MODEL) for name, kind in KINDS.items() for text in list_texts(said, name)
    ]
    frequency = said.get("frequency")
    if isinstance(frequency, str) and frequency in Finish.frequencies:
        found.append(Slot(SlotKind.FREQUENCY, frequency, frequency, source=SlotSource.MODEL))
    first, last = (parse_day(str(said.get(name, ""))) for name in ("start", "end"))
    if first or last:
        value = f"{first or '..'}/{last or '..'}"
        found.append(Slot(SlotKind.PERIOD, value, value, source=SlotSource.MODEL))
    # What a model itself leaves open needs no check.
    left = [Slot(SlotKind.UNKNOWN, text, source=SlotSource.MODEL, state=SlotState.OPEN, detail=STATED)
            for text in list_texts(said, "open")]  # fmt: skip
    return [*found, *left]


def list_texts(said: Mapping[str, Any], name: str) -> list[str]:
    values = said.get(name)
    texts = values if isinstance(values, list) else []
    return [" ".join(text.split())[:MAX_CHARS] for text in texts if isinstance(text, str) and text.strip()]


def refine(asked: Sequence[Slot], stated: Sequence[Slot]) -> tuple[Slot, ...]:
    """Return the question's slots refined by the model's statement.

    The words of the question bind: what they fix stays as it is. The model adds what they leave to it, and may date a
    period that the question gives without a number, such as "last year".
    """
    slots, kinds = list(asked), {slot.kind for slot in asked}
    for stating in stated:
        if stating.state is SlotState.OPEN:
            slots.append(stating)
        elif stating.kind is SlotKind.PERIOD and stating.kind in kinds:
            slots = [redate(slot, stating.value) for slot in slots]
        elif stating.kind not in kinds:
            slots.append(stating)
    said = [slot.text for slot in stated if slot.state is not SlotState.OPEN]
    return tuple(explain(slot, said) for slot in slots)


def explain(slot: Slot, said: Sequence[str]) -> Slot:
    """Return an unknown word with the model's own reading of it, where the model states one."""
    if slot.kind is not SlotKind.UNKNOWN or slot.source is SlotSource.MODEL:
        return slot
    own = next((text for text in said if slot.text.casefold() in text.casefold()), "")
    return replace(slot, detail=f"the model reads it as “{own}”") if own else slot


def redate(slot: Slot, value: str) -> Slot:
    """Return a relative period with the dates that the model gave it; any other slot as it is."""
    is_relative = slot.kind is SlotKind.PERIOD and not any(char.isdigit() for char in slot.text)
    return replace(slot, value=value) if is_relative else slot
