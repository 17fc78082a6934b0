"""What the program of a question covers of it, where an episode has computed all of its steps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.domain.chat.quoting import unquote
from fathom.services.planner.model.episode import Episode, ToolResult
from fathom.services.planner.model.slots import Slot, SlotKind, SlotSource, SlotState
from fathom.services.planner.tools.data.query import Data

# What a program says by its functions: which computation, in which steps, under which condition.
BY_FUNCTIONS = frozenset({SlotKind.MEASURE, SlotKind.CONDITION, SlotKind.FREQUENCY, SlotKind.OUTPUT, SlotKind.UNKNOWN})
# What it takes from the question by its words; a number may be in a function too, as the twelve months of a growth.
BY_WORDS = frozenset({SlotKind.ENTITY, SlotKind.INDICATOR, SlotKind.PERIOD, SlotKind.PARAMETER})
DOUBTFUL = frozenset({SlotKind.INDICATOR, SlotKind.PARAMETER})


@dataclass(frozen=True)
class Computed:
    """A program that an episode has computed: the question's words that it uses."""

    words: tuple[str, ...]


def find_computed(episode: Episode) -> Computed | None:
    """Return the program of the episode's question; None where it has none or a step of it was not computed."""
    results = [result for step in episode.steps for result in step.results]
    programs = [one for one in map(read_program, results) if one is not None]
    if not programs:
        return None
    program, count = programs[0], len(programs[0].get("steps", ()))
    done = {number for result in results for number in list_steps(result)}
    if not count or not set(range(1, count + 1)) <= done:
        return None
    return Computed(tuple(str(text) for text in program.get("words", ())))


def read_program(result: ToolResult) -> Mapping[str, Any] | None:
    """Return the program that a result of the data tool carries; None for any other result."""
    if result.call.name != Data.name:
        return None
    head = parse_object(result.content.partition("\n")[0])
    found = head.get("program")
    return found if isinstance(found, Mapping) else None


def list_steps(result: ToolResult) -> list[int]:
    """Return the numbers of the steps that a cell printed with a result."""
    lines = unquote(result.content.partition("\n")[2]).splitlines() if '"step"' in result.content else []
    printed = [parse_object(line.strip()) for line in lines if line.strip().startswith("{")]
    return [one["step"] for one in printed if isinstance(one.get("step"), int) and "error" not in one]


def parse_object(text: str) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def settle_slots(slots: Sequence[Slot], computed: Computed) -> tuple[Slot, ...]:
    """Return the question's slots as a computed program fills them.

    It fills what its functions say and the words that it uses. A name or a period that it does not use stays as it was
    judged, so that a part of the question which was left out is seen.
    """
    return tuple(settle_slot(slot, computed) for slot in slots)


def settle_slot(slot: Slot, computed: Computed) -> Slot:
    """Return one slot; what the model itself states as open stays open."""
    if slot.source is SlotSource.MODEL or slot.state is SlotState.FILLED:
        return slot
    text = slot.text.casefold()
    is_used = any(text in words.casefold() or words.casefold() in text for words in computed.words if words)
    if slot.kind in BY_FUNCTIONS or (slot.kind in BY_WORDS and is_used):
        return replace(slot, state=SlotState.FILLED, detail="")
    return replace(slot, state=SlotState.UNSURE) if slot.kind in DOUBTFUL else slot
