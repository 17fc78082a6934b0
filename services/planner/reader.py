"""Reading of texts by datafetch: the words that name entities, measures, periods and all else that a question asks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import FathomError
from fathom.services.planner.model.programs import Program, ReadProgram, parse_steps
from fathom.services.planner.model.slots import ENTITY, FREQUENCY, PERIOD, TOPIC, UNKNOWN, ReadText, Slot, SlotKind

# datafetch reads at most so many characters; a longer text is read from its beginning.
MAX_CHARS = 2_000
# And so many earlier questions.
MAX_EARLIER = 3
# A change of price or a fall has the price as its indicator, by the same words: "returns" is one slot, not two.
IMPLIED = "close_adj"
# A name that is only similar to known ones ("bank" to "bank frequency") says too little about a follow-up.
MIN_CONFIDENCE = 0.85
# Indicator of the price of a euro in another currency.
EURO_RATE = "eur_rate"
# Reason of a word without a meaning for datafetch, and the names of series in steps.
UNREAD, SERIES_NAME = "UNREAD", re.compile(r"\bs\d+\b")
KINDS = {getattr(pb, f"MENTION_KIND_{kind.name}"): kind for kind in SlotKind}
NAMED = ENTITY + TOPIC
NAMING = NAMED + PERIOD + FREQUENCY + UNKNOWN


class Reader(Protocol):
    """Reads slots."""

    async def read(self, text: str, as_of: Any = None) -> ReadText | None:
        """Return the text with its slots; None where nothing can read it now."""
        ...

    async def read_program(self, text: str, earlier: Sequence[str] = (), as_of: Any = None) -> ReadProgram | None:
        """Return the text with its slots and its program after ``earlier`` questions; None as for ``read``."""
        ...


class DatafetchReader:
    """Reads by datafetch's ``ReadQuestion``, which knows the entities and indicators of the data."""

    def __init__(self, clients: Clients, timeout_s: float) -> None:
        self._clients, self._timeout_s = clients, timeout_s

    async def read(self, text: str, as_of: Any = None) -> ReadText | None:
        """Return the text with its slots; None when datafetch does not answer in time."""
        try:
            return await read_text(self._clients, text, self._timeout_s, as_of)
        except FathomError:
            return None

    async def read_program(self, text: str, earlier: Sequence[str] = (), as_of: Any = None) -> ReadProgram | None:
        """Return the text with its slots and its program; None when datafetch does not answer in time."""
        request = make_program_request(text, earlier, as_of)
        try:
            response = await self._clients.datafetch.read_question(request, timeout_s=self._timeout_s)
            return make_program(request.question, response)
        except FathomError:
            return None


async def read_text(clients: Clients, text: str, timeout_s: float, as_of: Any = None) -> ReadText:
    """Return the text, cut to ``MAX_CHARS``, with its slots; raise ``FathomError``."""
    cut = text[:MAX_CHARS]
    if not cut.strip():
        return ReadText(cut)
    request = pb.ReadQuestionRequest(question=cut, as_of=as_of)
    return make_text(cut, await clients.datafetch.read_question(request, timeout_s=timeout_s))


def make_program_request(text: str, earlier: Sequence[str], as_of: Any = None) -> pb.ReadQuestionRequest:
    """Return the request for the program of a question after earlier ones, cut to what datafetch reads."""
    cut = [one[:MAX_CHARS] for one in earlier if one.strip()][-MAX_EARLIER:]
    return pb.ReadQuestionRequest(question=text[:MAX_CHARS], earlier=cut, as_of=as_of, with_program=True)


def make_program(text: str, response: pb.ReadQuestionResponse) -> ReadProgram:
    """Return a text with its slots and its program; raise ``CorruptData`` for a program that is none."""
    read, found = make_text(text, response), response.program
    if not response.HasField("program"):
        return ReadProgram(read)
    gaps = frozenset(one.reason for one in found.missing)
    program = Program(
        found.kind,
        parse_steps(found.text),
        found.confidence,
        found.link_confidence,
        gaps,
        resolved=resolve_steps(found),
        left_out=tuple(one.words for one in found.unused if one.reason != UNREAD),
        rates=frozenset(one.words for one in found.series if one.indicator == EURO_RATE),
        unread=tuple(one.words for one in found.unused if one.reason == UNREAD),
    )
    return ReadProgram(read, program)


def resolve_steps(found: pb.Program) -> tuple[str, ...]:
    """Return the steps of a program with ids for its series and days for its periods; () where something is missing."""
    if found.missing:
        return ()
    ids = {one.name: f"{one.entity}.{one.indicator}{one.sheet_id}.{one.column}" for one in found.series}
    return tuple(SERIES_NAME.sub(lambda match: ids.get(match.group(), match.group()), step) for step in found.steps)


def make_text(text: str, response: pb.ReadQuestionResponse) -> ReadText:
    """Return a text with the mentions of its reading as slots."""
    query = response.understood
    whole = f"{query.start_date or '..'}/{query.end_date or '..'}"
    slots = [
        Slot(KINDS[one.kind], one.text, one.value, one.start, one.end, confidence=one.confidence)
        for one in response.mentions
        if one.kind in KINDS and one.text.strip()
    ]
    return ReadText(text, tuple(slots), whole if whole != "../.." else "")


def list_mentions(read: ReadText) -> list[pb.Mention]:
    """Return the slots of a text as the mentions that they were read from."""
    numbers = {kind: number for number, kind in KINDS.items()}
    return [pb.Mention(kind=numbers[one.kind], text=one.text, start=one.start, end=one.end) for one in read.slots]


def select_names(read: ReadText | None) -> ReadText | None:
    """Return a reading with the slots that a follow-up may take over, uncertain names as unknown words.

    The others say how a result is computed or shown.
    """
    if read is None:
        return None
    measured = {(slot.start, slot.end) for slot in read.slots if slot.is_measure}
    named = [slot for slot in read.slots if slot.kind in NAMING]
    kept = [slot for slot in named if not (slot.value == IMPLIED and (slot.start, slot.end) in measured)]
    return replace(read, slots=tuple(map(doubt_name, kept)))


def doubt_name(slot: Slot) -> Slot:
    """Return a slot, an uncertain name as unknown words."""
    if slot.kind in NAMED and slot.confidence < MIN_CONFIDENCE:
        return replace(slot, kind=SlotKind.UNKNOWN, value="")
    return slot
