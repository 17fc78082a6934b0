"""The last question with what a follow-up names in the place of what it named: "and Lilly?", "2021?", 那黄金呢."""

from __future__ import annotations

from fathom.domain.periods.grammar import find_dates
from fathom.domain.periods.period import Date
from fathom.services.planner.model.slots import ENTITY, FREQUENCY, PERIOD, Kinds, ReadText, Slot, SlotKind
from fathom.services.planner.questions.leaning import WORD, list_rest
from fathom.services.planner.questions.periods import parse_period
from fathom.services.planner.questions.phrasing import replace_span

INDICATOR: Kinds = (SlotKind.INDICATOR,)
MEASURE: Kinds = (SlotKind.MEASURE,)
# A part of a year has fewer days.
YEAR_DAYS = 364


def exchange_slots(asked: ReadText, last: ReadText) -> str:
    """Return the last question with the follow-up's slots, each in the one place of its kind; "" for any other.

    A follow-up that says more than its slots, two for one place, or a time of another length may mean something else.
    """
    new = list_new(asked, last)
    # Words of the last question say nothing new: "What was Apple's net margin?" after one that begins so.
    known = set(WORD.findall(last.text.casefold()))
    if not any(new.values()) or any(word.casefold() not in known for word in list_rest(asked)):
        return ""
    text = last
    for kinds, slots in new.items():
        if not slots:
            continue
        places = text.of(kinds)
        if len(slots) != 1 or len(places) != 1 or not is_alike(slots[0], places[0]):
            return ""
        text = replace_span(text, places[0].start, places[0].end, slots[0].text)
    return text.text


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
