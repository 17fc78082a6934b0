"""Slots of a question: the words that name entities, measures and periods, as datafetch reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import FathomError

ENTITY, TOPIC, PERIOD, FREQUENCY, UNKNOWN = "entity", "topic", "period", "frequency", "unknown"
KINDS = {
    pb.MENTION_KIND_ENTITY: ENTITY,
    pb.MENTION_KIND_INDICATOR: TOPIC,
    pb.MENTION_KIND_MEASURE: TOPIC,
    pb.MENTION_KIND_PERIOD: PERIOD,
    pb.MENTION_KIND_FREQUENCY: FREQUENCY,
    pb.MENTION_KIND_UNKNOWN: UNKNOWN,
}
MAX_CHARS = 2_000
# A name that is only similar to known ones ("bank" to "bank frequency") says too little about a follow-up.
MIN_CONFIDENCE = 0.85


@dataclass(frozen=True)
class Slot:
    """Words of a text from ``start`` to ``end`` with their canonical ``value``."""

    kind: str
    start: int
    end: int
    text: str
    value: str
    is_measure: bool = False
    """True for a computation, e.g. "return", which leaves open of what."""


@dataclass(frozen=True)
class ReadText:
    """A text with its slots in order."""

    text: str
    slots: tuple[Slot, ...] = ()

    def of(self, kind: str) -> tuple[Slot, ...]:
        """Return the slots of a kind, each value once."""
        first = {slot.value or slot.text: slot for slot in reversed(self.slots) if slot.kind == kind}
        return tuple(sorted(first.values(), key=lambda slot: slot.start))


class Reader(Protocol):
    """Reads slots."""

    async def read(self, text: str) -> ReadText | None:
        """Return the text with its slots; None where nothing can read it now."""
        ...


class DatafetchReader:
    """Reads by datafetch's ``ReadQuestion``, which knows the entities and indicators of the data."""

    def __init__(self, clients: Clients, timeout_s: float) -> None:
        self._clients, self._timeout_s = clients, timeout_s

    async def read(self, text: str) -> ReadText | None:
        """Return the text, cut to 2,000 characters, with its slots; None when datafetch does not answer in time."""
        cut = text[:MAX_CHARS]
        if not cut.strip():
            return ReadText(cut)
        try:
            response = await self._clients.datafetch.read_question(
                pb.ReadQuestionRequest(question=cut), timeout_s=self._timeout_s
            )
        except FathomError:
            return None
        return ReadText(cut, slots_of(response.mentions))


def slots_of(mentions: Sequence[pb.Mention]) -> tuple[Slot, ...]:
    """Return the slots of mentions; those of other kinds say how a result is computed or shown."""
    return tuple(read_mention(one) for one in mentions if one.kind in KINDS)


def read_mention(mention: pb.Mention) -> Slot:
    """Return a mention as a slot, an uncertain one as unknown words."""
    kind, value = KINDS[mention.kind], mention.value
    if kind in (ENTITY, TOPIC) and mention.confidence < MIN_CONFIDENCE:
        kind, value = UNKNOWN, ""
    is_measure = mention.kind == pb.MENTION_KIND_MEASURE
    return Slot(kind, mention.start, mention.end, mention.text, value, is_measure)
