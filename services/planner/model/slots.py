"""Slots of a question, and which of them an answer covers. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any


class SlotKind(StrEnum):
    """Kind of a slot, as in ``MentionKind`` of the API."""

    ENTITY = "entity"
    INDICATOR = "indicator"
    PERIOD = "period"
    FREQUENCY = "frequency"
    MEASURE = "measure"
    CONDITION = "condition"
    PARAMETER = "parameter"
    OUTPUT = "output"
    UNKNOWN = "unknown"


class SlotSource(StrEnum):
    """Source of a slot: the words of the question, which bind, or the model."""

    QUESTION = "question"
    MODEL = "model"


class SlotState(StrEnum):
    """State of a slot: filled by the material of an answer, open or unsure."""

    FILLED = "filled"
    OPEN = "open"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Slot:
    """One thing that a question asks for or fixes.

    ``value`` is the meaning in canonical form, "" for unknown words; ``start`` and ``end`` are characters of the
    question, both 0 for what the model stated. ``detail`` says why the slot is open or unsure, ``material`` what fills
    it.
    """

    kind: SlotKind
    text: str
    value: str = ""
    start: int = 0
    end: int = 0
    source: SlotSource = SlotSource.QUESTION
    state: SlotState = SlotState.UNSURE
    detail: str = ""
    material: tuple[int, ...] = ()
    confidence: float = 1.0
    """Confidence of the reader, from 0 to 1."""

    @property
    def is_measure(self) -> bool:
        """Return whether it is a computation, e.g. "return", which leaves open of what."""
        return self.kind is SlotKind.MEASURE


Kinds = tuple[SlotKind, ...]
ENTITY: Kinds = (SlotKind.ENTITY,)
# What a question is about: an indicator, or a computation on one.
TOPIC: Kinds = (SlotKind.INDICATOR, SlotKind.MEASURE)
PERIOD: Kinds = (SlotKind.PERIOD,)
FREQUENCY: Kinds = (SlotKind.FREQUENCY,)
UNKNOWN: Kinds = (SlotKind.UNKNOWN,)


@dataclass(frozen=True)
class ReadText:
    """A text with its slots in order, as a reader has read it."""

    text: str
    slots: tuple[Slot, ...] = ()
    interval: str = ""
    """The period of the whole text as an ISO interval; "" for none."""

    def of(self, kinds: Kinds) -> tuple[Slot, ...]:
        """Return the slots of some kinds, each value once."""
        first = {slot.value or slot.text: slot for slot in reversed(self.slots) if slot.kind in kinds}
        return tuple(sorted(first.values(), key=lambda slot: slot.start))


def restore_text(stored: Mapping[str, Any] | None) -> ReadText | None:
    """Return a reading from its JSON form, which is that of ``dataclasses.asdict``; None for None."""
    if stored is None:
        return None
    return ReadText(stored["text"], tuple(map(restore_slot, stored["slots"])), stored["interval"])


def restore_slot(stored: Mapping[str, Any]) -> Slot:
    """Return a slot from its JSON form."""
    kinds = {
        "kind": SlotKind(stored["kind"]),
        "source": SlotSource(stored["source"]),
        "state": SlotState(stored["state"]),
        "material": tuple(stored["material"]),
    }
    return Slot(**{**stored, **kinds})


@dataclass(frozen=True)
class Reading:
    """Slots of a question in their order, and the line that a reader is shown."""

    question: str
    slots: tuple[Slot, ...] = ()
    line: str = ""
    open_texts: tuple[str, ...] = ()
    """Slots that stay open, each with its reason, in the question's language."""

    @property
    def open(self) -> tuple[Slot, ...]:
        """Return the slots that the answer leaves open."""
        return tuple(slot for slot in self.slots if slot.state is SlotState.OPEN)


def parse_interval(value: str) -> tuple[date | None, date | None]:
    """Return first and last day of an ISO interval such as "2015-01-01/2019-12-31"; None for an open end.

    A text that is no interval gives two Nones.
    """
    first, _, last = value.partition("/")
    return parse_day(first), parse_day(last or first)


def parse_day(text: str) -> date | None:
    """Return the day of an ISO date, or None for anything else, as ".." for an open end."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None
