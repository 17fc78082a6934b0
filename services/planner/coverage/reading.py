"""Reading of a question into slots: datafetch's reading, and the numbers and dates that it consumed by no slot."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import FathomError, NotReady
from fathom.core.retry import Retries, RetryPolicy
from fathom.domain.text.numerals import parse_numeral
from fathom.services.planner.answering.verification.dates import find_moments, find_ranges
from fathom.services.planner.answering.verification.numbers import find_numbers
from fathom.services.planner.model.slots import ReadText, Slot, SlotKind
from fathom.services.planner.reader import MAX_CHARS, DatafetchReader, read_text

READ_S = 5.0
"""Seconds that an answer waits for datafetch once that is ready: it must not be held up."""
# A question is read beside the work on it, within the time of its run; then datafetch is asked again.
RUN_S, PAUSES = 600.0, RetryPolicy(attempts=None, first_delay_s=0.5, max_delay_s=0.5)
# Score of a candidate that shares a name or most of its meaning; the same decides nothing, it only leaves a doubt.
LIKE = 0.5
# A preposition with its blanks.
NEAR_CHARS = 4
STOPS = frozenset(",.;:?!，。；：？！、()（）")
NAMED = frozenset({SlotKind.UNKNOWN, SlotKind.PARAMETER})
NUMERALS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip


@dataclass(frozen=True)
class QuestionReader:
    """Reads questions through datafetch; a failure gives what the words alone show."""

    clients: Clients
    as_of: Any = None
    _waiting: set[str] = field(default_factory=set, compare=False)
    _measures: dict[str, frozenset[str]] = field(default_factory=dict, compare=False)
    _alike: dict[tuple[str, ...], Mapping[str, frozenset[str]]] = field(default_factory=dict, compare=False)
    """Reading of an answer's draft, which the answer itself mostly has as well."""

    async def read(self, question: str) -> tuple[Slot, ...]:
        """Return the slots of a question in its order, none of them checked; never raises ``FathomError``.

        Takes as long as datafetch does, and waits for one that is not ready: whoever waits for it sets the limit.
        """
        retries = Retries(PAUSES)
        try:
            while True:
                try:
                    return bind_text(question, await read_text(self.clients, question, RUN_S, self.as_of))
                except NotReady as error:
                    self._waiting.add(question)
                    await asyncio.sleep(retries.next_delay_s(error))
        # The check is a service to the reader, not a condition of the answer.
        except FathomError:
            # Without the names that hold numbers ("S&P 500", "10-year yield") only the dates are safe to read.
            return bind_dates(question, ())
        finally:
            self._waiting.discard(question)

    def is_waiting(self, question: str) -> bool:
        """Return whether the reading of a question waits for datafetch to become ready."""
        return question in self._waiting

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

    async def read_measures(self, labels: Sequence[str]) -> frozenset[str] | None:
        """Return the measures that names in the material stand for, by the lexicon that reads questions.

        What is asked and what was computed are thus compared by one vocabulary, in both languages. Names beyond the
        first ``MAX_CHARS`` characters are left out. Return None when datafetch does not answer in time.
        """
        text = "; ".join(dict.fromkeys(label.replace("_", " ") for label in labels))[:MAX_CHARS].strip()
        if not text or text in self._measures:
            return self._measures.get(text, frozenset())
        read = await DatafetchReader(self.clients, READ_S).read(text)
        if read is None:
            return None
        self._measures[text] = frozenset(slot.value for slot in read.slots if slot.is_measure)
        return self._measures[text]


def bind_text(question: str, read: ReadText) -> tuple[Slot, ...]:
    """Return the slots of a reading of the question, with its numbers and dates; a period without a value gets that of
    the whole.
    """
    slots = [
        replace(slot, value=slot.value or read.interval) if slot.kind is SlotKind.PERIOD else slot
        for slot in read.slots
    ]
    return bind_words(question, join_words(question, slots))


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
