"""The last question with what a follow-up names in the place of what it named: "and Lilly?", "2021?", 那黄金呢."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.domain.periods.grammar import find_dates
from fathom.domain.periods.period import Date
from fathom.services.planner.model.slots import ENTITY, FREQUENCY, PERIOD, Kinds, ReadText, Slot, SlotKind
from fathom.services.planner.questions.leaning import (
    REPLACING,
    WORD,
    compile_kind,
    is_around,
    list_rest,
    mask_slots,
)
from fathom.services.planner.questions.periods import parse_period

INDICATOR: Kinds = (SlotKind.INDICATOR,)
MEASURE: Kinds = (SlotKind.MEASURE,)
# A part of a year has fewer days.
YEAR_DAYS = 364


@dataclass(frozen=True)
class Exchange:
    """The last question with other slots in the places of some: ``pairs`` are the old and the new ones.

    ``is_explicit`` says that the follow-up names both of a pair: "Apple instead of Microsoft", 把苹果换成微软.
    """

    text: str
    pairs: tuple[tuple[Slot, Slot], ...]
    is_explicit: bool = False


def exchange_slots(asked: ReadText, last: ReadText) -> Exchange | None:
    """Return the last question with the follow-up's slots, each in the one place of its kind; None for any other.

    A follow-up that says more than its slots, two for one place, or a time of another length may mean something else.
    """
    if named := exchange_named(asked, last):
        return named
    new = list_new(asked, last)
    if not any(new.values()) or list_new_words(asked, last):
        return None
    pairs = []
    for kinds, slots in new.items():
        if not slots:
            continue
        places = last.of(kinds)
        if len(slots) != 1 or len(places) != 1 or not is_alike(slots[0], places[0]):
            return None
        if not is_placed_alike(slots[0].start, asked, places[0].start, last):
            return None
        pairs.append((places[0], slots[0]))
    return Exchange(replace_slots(last, pairs), tuple(pairs))


def exchange_named(asked: ReadText, last: ReadText) -> Exchange | None:
    """Return the last question with a slot in the place of another one, both named by the follow-up; None otherwise."""
    if not compile_kind(REPLACING).search(mask_slots(asked)) or list_new_words(asked, last):
        return None
    pairs = []
    for kinds in (ENTITY, INDICATOR, PERIOD):
        old = [place for place in last.of(kinds) if any(slot.value == place.value for slot in asked.of(kinds))]
        new = [slot for slot in asked.of(kinds) if all(slot.value != place.value for place in last.of(kinds))]
        pairs += [(old[0], new[0])] if len(old) == len(new) == 1 else []
    named = asked.of((*ENTITY, *INDICATOR, *MEASURE, *PERIOD, *FREQUENCY))
    if len(pairs) != 1 or len(named) != 2:
        return None
    return Exchange(replace_slots(last, pairs), tuple(pairs), is_explicit=True)


def is_placed_alike(new: int, asked: ReadText, old: int, last: ReadText) -> bool:
    """Return whether the word before a place, where it is one of the last question, stands before a place there, too.

    "Per dollar?" after "Lira per euro" asks of the euro's place, though only the lira is a name.
    """
    before = WORD.findall(asked.text[:new].casefold())
    known = WORD.findall(last.text.casefold())
    if not before or before[-1] not in known or is_around(before[-1]):
        return True
    return WORD.findall(last.text[:old].casefold())[-1:] == before[-1:]


def replace_slots(last: ReadText, pairs: Sequence[tuple[Slot, Slot]]) -> str:
    """Return a question with the words of other slots in the places of some of its own."""
    text = last.text
    for old, new in sorted(pairs, key=lambda pair: -pair[0].start):
        text = text[: old.start] + new.text + text[old.end :]
    return text


def list_new_words(asked: ReadText, last: ReadText) -> list[str]:
    """Return the words outside of slots that neither stand around what is new nor are those of the last question.

    "What was Apple's net margin?" says nothing new by its first words after a question that begins so.
    """
    known = set(WORD.findall(last.text.casefold()))
    return [word for word in list_rest(asked) if word.casefold() not in known]


def exchange_meaning(meaning: Sequence[str], pairs: Sequence[tuple[Slot, Slot]]) -> tuple[str, ...]:
    """Return resolved steps with the ids and days of other slots; () where a pair is not in them or has no id."""
    steps = "\n".join(meaning)
    for old, new in pairs:
        before, after = (write_meaning(slot) for slot in (old, new))
        if not before or not after or before not in steps:
            return ()
        steps = steps.replace(before, after)
    return tuple(steps.split("\n"))


def write_meaning(slot: Slot) -> str:
    """Return how resolved steps write an entity, an indicator or a period; "" for anything else."""
    if slot.kind in PERIOD:
        days = parse_period(slot.value)
        return f"period('{days[0]}', '{days[1]}')" if days else ""
    if slot.kind in ENTITY:
        return f"({slot.value}."
    return f".{slot.value}." if slot.kind in INDICATOR else ""


def list_new(asked: ReadText, last: ReadText) -> dict[Kinds, list[Slot]]:
    """Return the follow-up's slots by kind that the last question has not, each words once.

    The one name that it repeats stays where it is, and one of several is new: it leaves the others out. Words that are
    read both as an indicator and as a measure are one slot.
    """
    found: dict[Kinds, list[Slot]] = {}
    spans: set[tuple[int, int]] = set()
    for kinds in (ENTITY, INDICATOR, MEASURE, PERIOD, FREQUENCY):
        places = last.of(kinds)
        known = {places[0].value} if len(places) == 1 else set()
        slots = [slot for slot in asked.of(kinds) if slot.value not in known and (slot.start, slot.end) not in spans]
        spans |= {(slot.start, slot.end) for slot in slots}
        found[kinds] = slots
    return found


def is_as_long(new: Slot, old: Slot) -> bool:
    """Return whether two times both have a year or more, or both less."""
    spans = [parse_period(slot.value) for slot in (new, old)]
    return len({(span[1] - span[0]).days >= YEAR_DAYS for span in spans if span}) == 1 and all(spans)


def is_alike(new: Slot, old: Slot) -> bool:
    """Return whether one slot can stand in the place of another and says something else."""
    if new.value == old.value:
        return False
    if new.kind not in PERIOD:
        return True
    named = [date for _, _, date in find_dates(new.text)]
    days, former = parse_period(new.value), parse_period(old.value)
    # "March" is of a year that the words do not say, and 2020 after "March 2019" may be that March.
    is_dated = bool(named) and all(isinstance(date, Date) and date.year and not date.short for date in named)
    if not is_dated or days is None or former is None:
        return False
    return (days[1] - days[0]).days < YEAR_DAYS or (former[1] - former[0]).days >= YEAR_DAYS
