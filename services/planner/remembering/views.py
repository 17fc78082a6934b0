"""Views that an answer takes: what its cited sentences say of a measure of an entity in a period."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.services.planner.answering.verification.claims import Sentence, parse_sentences
from fathom.services.planner.answering.verification.numbers import Number
from fathom.services.planner.classification.classifier import Classifier
from fathom.services.planner.classification.examples import MEASURE, PREMISE
from fathom.services.planner.model.episode import Material, MaterialKind
from fathom.services.planner.model.memory import View
from fathom.services.planner.model.slots import ENTITY, PERIOD, ReadText, Slot, SlotKind, parse_interval
from fathom.services.planner.reader import IMPLIED, Reader
from fathom.services.planner.remembering.comparing import DIRECTION

# A report states its main figures early; each sentence costs a reading.
MAX_SENTENCES, MAX_TEXT_CHARS, AT_ONCE = 16, 400, 4
SIGNS = {"rise": 1.0, "fall": -1.0}
# Computations whose result is a change, which a verb gives its sign.
CHANGES = frozenset({"return", "change", "growth", "cagr"})
LOSSES = frozenset({"max_drawdown", "drawdown"})
# A dollar is the American one unless it says otherwise.
SIGNS_OF_CURRENCIES = {"$": "USD"}
CODE_CHARS = 3
# Levels under several names: "close" asks for a price.
LEVELS = frozenset({"", "price", "level"})

OUTPUT, ASSUMED = (SlotKind.OUTPUT,), (SlotKind.PARAMETER, SlotKind.UNKNOWN)
# Characters between a number and its unit, and of the part of a measure's name that says what it rests on.
UNIT_GAP, MAX_BASIS_CHARS = 2, 120


@dataclass(frozen=True)
class ViewReader:
    """Reads the views of an answer through datafetch; a failure reads none."""

    reader: Reader
    measures: Classifier | None = None
    """Classifier of what a clause takes for granted; without it verbs have no sign."""

    async def read(
        self,
        markdown: str,
        question: ReadText | None,
        material: Sequence[Material] = (),
        *,
        cited_only: bool = True,
        as_of: Any = None,
    ) -> list[View]:
        """Return the views of an answer; what its sentences leave out is taken from its question.

        ``cited_only`` leaves out sentences that cite nothing.
        """
        chosen = choose_sentences(markdown, cited_only=cited_only)
        gate = asyncio.Semaphore(AT_ONCE)

        async def read_one(sentence: Sentence) -> list[View]:
            text = " ".join(sentence.text.split())
            # Other runs read questions at the same time.
            async with gate:
                read = await self.reader.read(text, as_of)
            if read is None:
                return []
            return await self._list_views(sentence, text, read, question, find_date(sentence.cited, material))

        found = [view for views in await asyncio.gather(*map(read_one, chosen)) for view in views]
        # The first statement of a thing is the answer; what follows repeats or rounds it.
        first = {(view.entity, view.measure, view.first, view.last): view for view in reversed(found)}
        return list(reversed(first.values()))

    async def _list_views(
        self, sentence: Sentence, text: str, read: ReadText, question: ReadText | None, as_of: str
    ) -> list[View]:
        read = drop_units(read, text)
        entities = list_values(read, ENTITY) or (list_values(question, ENTITY) if question else [])
        measure = name_measure(read) or (name_measure(question) if question else "")
        # The period decides whether two figures are of the same thing at all.
        first, last = find_window(read, question)
        numbers = [number for number in sentence.numbers if not is_taken(number, sentence.text, read)]
        if not entities or not measure:
            return []
        # "fell by 12%" is a change of -12, written without a sign.
        sign = await self._find_sign(text, measure)
        cut = text[:MAX_TEXT_CHARS]
        # Returns in dollars and in euros, with one risk-free rate and another, are different things.
        compared = f"{measure}{name_basis(read, question, numbers, sentence.text)}"
        made = View("", compared, first, last, 0.0, "", cut, as_of)
        # Without a number a clear rise or fall is still a view.
        if not numbers:
            direct = list_values(read, ENTITY)
            return [replace(made, entity=direct[0], value=sign, unit=DIRECTION)] if sign and len(direct) == 1 else []
        fitting = [number for number in numbers if fits(number, measure)] or numbers
        if len(fitting) == 1:
            # One value of several things is of them together, as a correlation.
            entities = [",".join(sorted(entities))]
        if len(fitting) != len(entities):
            # Several values of one thing, such as its first and its last level, are no single view.
            return []
        return [
            replace(
                made,
                entity=entity,
                value=value_of(number, sign, measure),
                unit=unit_of(number),
                tolerance=number.tolerance,
            )
            for entity, number in zip(entities, fitting, strict=True)
        ]

    async def _find_sign(self, text: str, measure: str) -> float:
        """Return -1 for a fall and 1 for a rise; 0 where the sentence says neither, or measures no change."""
        if self.measures is None or measure.partition("/")[2] not in CHANGES:
            return 0.0
        verdict = await self.measures.classify_one(MEASURE, text, PREMISE)
        return SIGNS.get(verdict.label, 0.0)


def choose_sentences(markdown: str, *, cited_only: bool = True) -> list[Sentence]:
    """Return the sentences of an answer that may say a view, as many as are looked at."""
    # Cells of a table are many values of one thing, and a heading claims nothing.
    sentences = [one for one in parse_sentences(markdown) if not one.row and not one.heading]
    # What cites nothing was not checked against anything, so it must not contradict anything later.
    return [one for one in sentences if one.cited or not cited_only][:MAX_SENTENCES]


def list_values(read: ReadText, kinds: tuple[SlotKind, ...]) -> list[str]:
    return [slot.value for slot in read.of(kinds) if slot.value]


def name_measure(read: ReadText) -> str:
    """Return indicator and computation of a text, e.g. "close_adj/return"; "" where it names neither."""
    indicators = [slot.value for slot in read.slots if slot.kind is SlotKind.INDICATOR and slot.value]
    computed = [slot.value for slot in read.slots if slot.is_measure and slot.value]
    if not indicators and not computed:
        return ""
    # "close" names a price and a level at once; only what is computed distinguishes views.
    how = next((value for value in computed if value not in LEVELS), "")
    # A price is what a computation without an indicator is made on.
    return f"{indicators[0] if indicators else IMPLIED}/{how}"


def name_basis(read: ReadText, question: ReadText | None, numbers: Sequence[Number], text: str) -> str:
    """Return what a measure rests on, e.g. ";euros", as the end of its name; "" where neither text says.

    It is the currency in which something is expressed, and what of the question is a parameter or was not understood:
    an assumption in unknown words is one nevertheless.
    """
    spans = [find_span(number, text) for number in numbers]
    # At a number stands its unit, which is compared as such.
    said = [
        slot
        for slot in read.of(OUTPUT)
        if not any(slot.start <= end + UNIT_GAP and start < slot.end for start, end in spans)
    ]
    asked = [*question.of(OUTPUT if not said else ()), *question.of(ASSUMED)] if question else []
    words = sorted({(slot.value or slot.text).casefold() for slot in (*said, *asked)})
    return f";{','.join(words)}"[:MAX_BASIS_CHARS] if words else ""


def find_window(read: ReadText, question: ReadText | None) -> tuple[str, str]:
    """Return the first and last day of a text, of its question where it names none; "" for open ends."""
    # The sentence binds; its question fills what it leaves out.
    for one in (read, question):
        slots: Sequence[Slot] = one.of(PERIOD) if one else ()
        if one is not None and len(slots) == 1:
            first, last = parse_interval(slots[0].value or one.interval)
            return (first.isoformat() if first else "", last.isoformat() if last else "")
        if one is not None and slots and one.interval:
            first, last = parse_interval(one.interval)
            return (first.isoformat() if first else "", last.isoformat() if last else "")
    return "", ""


def is_taken(number: Number, text: str, read: ReadText) -> bool:
    """Return whether a number is a part of a period or a name."""
    start, end = find_span(number, text)
    # Year numbers are parts of periods, and "S&P 500" has one in its name.
    # Parameters are the values themselves.
    named = (SlotKind.PERIOD, SlotKind.ENTITY, SlotKind.INDICATOR, SlotKind.FREQUENCY)
    return any(slot.start < end and start < slot.end for slot in read.slots if slot.kind in named)


def find_span(number: Number, text: str) -> tuple[int, int]:
    """Return where a number stands in its sentence as a reader has seen it, with single blanks."""
    before = " ".join(text[: number.start].split())
    start = len(before) + (1 if before and text[: number.start][-1:].isspace() else 0)
    return start, start + len(number.text)


def fits(number: Number, measure: str) -> bool:
    """Return whether a number may be a value of a measure: a change is told in per cent."""
    return (number.kind in ("%", "bp")) == (measure.partition("/")[2] in CHANGES)


def value_of(number: Number, sign: float, measure: str) -> float:
    """Return a value with its sign, which a verb gives it, or the measure: a drawdown is a loss however it is told."""
    if measure.partition("/")[2] in LOSSES:
        return -abs(number.value)
    return number.value if number.signed or not sign else sign * abs(number.value)


def unit_of(number: Number) -> str:
    return number.kind or SIGNS_OF_CURRENCIES.get(number.currency, number.currency) or number.noun


def drop_units(read: ReadText, text: str) -> ReadText:
    """Return a reading without currencies that only say in what a number counts: "135.5 dollars" names no entity."""

    def is_unit(slot: Slot) -> bool:
        before = text[: slot.start].rstrip()
        return slot.kind is SlotKind.ENTITY and len(slot.value) == CODE_CHARS and before[-1:].isdigit()

    return replace(read, slots=tuple(slot for slot in read.slots if not is_unit(slot)))


def find_date(cited: Sequence[int], material: Sequence[Material]) -> str:
    """Return the last day of the data of the cited tables as an ISO date; "" where none says."""
    # By number for citations, by name for what a computed sheet was made from.
    by_number: Mapping[int, Material] = {item.number: item for item in material}
    by_name = {item.variable: item for item in material if item.variable}
    chosen = [by_number[number] for number in cited if number in by_number]
    # A calculation rests on the tables that it has read.
    chosen += [by_name[name] for item in chosen for name in item.computed_from if name in by_name]
    sheets = [item for item in chosen if item.kind is MaterialKind.SHEET]
    # A cell does not say which of the run's tables it has read.
    sheets = sheets or [item for item in material if item.kind is MaterialKind.SHEET]
    days = [column.as_of for item in sheets for column in item.item.columns]
    return max((day[:10] for day in days if day), default="")
