"""Reading of a question into slots: datafetch's reading, and the numbers and dates that it consumed by no slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import FathomError
from fathom.domain.text.numerals import parse_numeral
from fathom.services.planner.answering.verification.dates import find_moments, find_ranges
from fathom.services.planner.answering.verification.numbers import find_numbers
from fathom.services.planner.model.slots import Slot, SlotKind

READ_S = 5.0
"""Seconds that a reading may take: it must not hold up an answer."""
# datafetch reads at most so many characters; a longer question is read from its beginning.
MAX_CHARS = 2_000
# Score of a candidate that shares a name or most of its meaning; the same decides nothing, it only leaves a doubt.
LIKE = 0.5
# A preposition with its blanks.
NEAR_CHARS = 4
STOPS = frozenset(",.;:?!，。；：？！、()（）")
NAMED = frozenset({SlotKind.UNKNOWN, SlotKind.PARAMETER})
NUMERALS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
SLOT_KINDS = {getattr(pb, f"MENTION_KIND_{kind.name}"): kind for kind in SlotKind}


@dataclass(frozen=True)
class QuestionReader:
    """Reads questions through datafetch; a failure gives what the words alone show."""

    clients: Clients
    as_of: Any = None
    _measures: dict[str, frozenset[str]] = field(default_factory=dict, compare=False)
    _alike: dict[tuple[str, ...], Mapping[str, frozenset[str]]] = field(default_factory=dict, compare=False)
    """What was read of an answer's draft, which the answer itself mostly has as well."""

    async def read(self, question: str) -> tuple[Slot, ...]:
        """Return the slots of a question in its order, none of them checked; never raises ``FathomError``."""
        request = pb.ReadQuestionRequest(question=question[:MAX_CHARS], as_of=self.as_of)
        try:
            response = await self.clients.datafetch.read_question(request, timeout_s=READ_S)
        # The check is a service to the reader, not a condition of the answer.
        except FathomError:
            # Without the names that hold numbers ("S&P 500", "10-year yield") only the dates are safe to read.
            return bind_dates(question, ())
        return bind_words(question, join_words(question, make_slots(response)))

    async def find_alike(self, slots: Sequence[Slot]) -> Mapping[str, frozenset[str]]:
        """Return, by the words for it, the indicators that are like an asked one in name or meaning.

        datafetch compares by its library of synonyms, and by its sentence encoder where one is installed.
        """
        texts = tuple(dict.fromkeys(slot.text for slot in slots if slot.kind is SlotKind.INDICATOR))
        if not texts or texts in self._alike:
            return self._alike.get(texts, {})
        try:
            request = pb.MatchIndicatorsRequest(mentions=texts)
            response = await self.clients.datafetch.match_indicators(request, timeout_s=READ_S)
        except FathomError:
            return {}
        self._alike[texts] = {
            text: frozenset(one.id for one, score in zip(found.indicators, found.scores, strict=False) if score >= LIKE)
            for text, found in zip(texts, response.results, strict=False)
        }
        return self._alike[texts]

    async def read_measures(self, labels: Sequence[str]) -> frozenset[str]:
        """Return the measures that names in the material stand for, by the lexicon that reads questions.

        What is asked and what was computed are thus compared by one vocabulary, in both languages. Names beyond the
        first ``MAX_CHARS`` characters are left out; without datafetch nothing is recognised.
        """
        text = "; ".join(dict.fromkeys(label.replace("_", " ") for label in labels))[:MAX_CHARS].strip()
        if not text or text in self._measures:
            return self._measures.get(text, frozenset())
        try:
            request = pb.ReadQuestionRequest(question=text)
            response = await self.clients.datafetch.read_question(request, timeout_s=READ_S)
        except FathomError:
            return frozenset()
        found = frozenset(item.value for item in response.mentions if item.kind == pb.MENTION_KIND_MEASURE)
        self._measures[text] = found
        return found


def make_slots(response: pb.ReadQuestionResponse) -> tuple[Slot, ...]:
    """Convert the mentions of a reading; a period without a value takes that of the query."""
    query = response.understood
    whole = f"{query.start_date or '..'}/{query.end_date or '..'}"
    slots = []
    for mention in response.mentions:
        kind = SLOT_KINDS.get(mention.kind)
        if kind is None or not mention.text.strip():
            continue
        value = mention.value or (whole if kind is SlotKind.PERIOD and len(whole) > len("../..") else "")
        slots.append(Slot(kind, mention.text, value, mention.start, mention.end))
    return tuple(slots)


def join_words(question: str, slots: Sequence[Slot]) -> tuple[Slot, ...]:
    """Return the slots with neighbouring words joined that are one thing.

    Unknown words become phrases, or the name of the number beside them, as in "a risk-free rate of 4%"; "total" and
    "return" side by side are one measure. A number in words is a parameter, "one" is an article, and a single character
    is what segmentation left over.
    """
    joined: list[Slot] = []
    for slot in map(read_parameter, slots):
        if (slot.kind is SlotKind.UNKNOWN and len(slot.text) == 1) or (slot.value == "1" and not has_digit(slot)):
            continue
        before = joined[-1] if joined else None
        if before is not None and is_one(question, before, slot):
            whole = before if before.kind is SlotKind.PARAMETER else slot
            text = question[before.start : slot.end]
            joined[-1] = replace(whole, text=text, start=before.start, end=slot.end)
        else:
            joined.append(slot)
    return tuple(joined)


def read_parameter(slot: Slot) -> Slot:
    """Return a bare number word as a parameter, also one taken for an indicator; any other slot as it is."""
    value = read_numeral(slot.text) if slot.kind in (SlotKind.UNKNOWN, SlotKind.INDICATOR) else None
    return slot if value is None else replace(slot, kind=SlotKind.PARAMETER, value=str(value))


def has_digit(slot: Slot) -> bool:
    return any(char.isdecimal() for char in slot.text)


def is_one(question: str, left: Slot, right: Slot) -> bool:
    """Return whether two neighbouring slots are one."""
    kinds = {left.kind, right.kind}
    if kinds == {SlotKind.MEASURE}:
        return left.text.casefold() == "total" and question[left.end : right.start].isspace()
    return SlotKind.UNKNOWN in kinds and kinds <= NAMED and is_near(question, left, right)


def is_near(question: str, left: Slot, right: Slot) -> bool:
    """Return whether at most a short word such as "of" or 取 stands between two slots."""
    between = question[left.end : right.start]
    return len(between) <= NEAR_CHARS and not STOPS & set(between)


def read_numeral(text: str) -> int | None:
    """Return the value of a small number in English or Chinese words; None for any other text."""
    word = text.casefold()
    return NUMERALS.index(word) if word in NUMERALS else parse_numeral(word)


def bind_words(question: str, slots: Sequence[Slot]) -> tuple[Slot, ...]:
    """Return the slots with one more for each date and number of the question that stands in none of them.

    A reading may skip words; a number or date that the asker wrote is never dropped.
    """
    known = list(bind_dates(question, slots))
    for number in find_numbers(question):
        if not is_inside(number.start, number.end, known):
            known.append(Slot(SlotKind.PARAMETER, number.text, number.text, number.start, number.end))
    return tuple(sorted(known, key=lambda slot: slot.start))


def bind_dates(question: str, slots: Sequence[Slot]) -> tuple[Slot, ...]:
    """Return the slots with a period for each date or range of dates that stands in none of them."""
    known = list(slots)
    # Ranges and open ends first: of two readings of the same words the wider one is meant.
    found = reversed(find_ranges(question, find_moments(question)))
    for moment in sorted(found, key=lambda moment: moment.start - moment.stop):
        if moment.month_day is None and not is_inside(moment.start, moment.stop, known):
            first, last = (day.isoformat() if day else ".." for day in (moment.first, moment.last))
            text = question[moment.start : moment.stop]
            known.append(Slot(SlotKind.PERIOD, text, f"{first}/{last}", moment.start, moment.stop))
    return tuple(sorted(known, key=lambda slot: slot.start))


def is_inside(start: int, end: int, slots: Sequence[Slot]) -> bool:
    """Return whether a slot shares characters with a span."""
    return any(slot.start < end and start < slot.end for slot in slots)
