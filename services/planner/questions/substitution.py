"""The last question with the slots of a follow-up in the place of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from fathom.domain.text.language import language_of
from fathom.services.planner.model.slots import ENTITY, FREQUENCY, PERIOD, TOPIC, Kinds, ReadText, SlotKind
from fathom.services.planner.questions.frames import Turn
from fathom.services.planner.questions.periods import Shift, parse_period, shift_period
from fathom.services.planner.questions.phrasing import PAIR, join_names, replace_second, replace_slots, replace_span
from fathom.services.planner.questions.references import list_rest

# Measures of two things, by datafetch's names.
PAIRWISE = frozenset({"correlation", "beta", "spread"})
INDICATOR: Kinds = (SlotKind.INDICATOR,)
BARE_YEAR = re.compile(r"(?:in )?\d{4}年?")


def substitute_slots(question: ReadText, turns: Sequence[Turn]) -> str:
    """Return the last question with the follow-up's slots in it; "" for a follow-up that says more than slots."""
    last = turns[-1].question
    chinese = language_of(last.text) == "zh"
    fresh = {kind: [slot.text for slot in question.of(kind)] for kind in (ENTITY, TOPIC, PERIOD, FREQUENCY)}
    fresh[PERIOD] = move_to_year(question, last, chinese) or fresh[PERIOD]
    rest = list_rest(question)
    if rest and is_exchange(question, last):
        return exchange_names(question, last, chinese)
    # "Now compare A with B instead": a verb beside the names.
    is_pair = len(rest) <= 1 and is_new_pair(question, last)
    if rest and not is_pair:
        return ""
    if not any(fresh.values()) or is_qualifier(question, last):
        return ""
    # A whole question of its own, such as "Apple revenue 2019".
    if fresh[ENTITY] and fresh[TOPIC] and (fresh[PERIOD] or not last.of(PERIOD)):
        return ""
    text = last
    if any(slot.value in PAIRWISE for slot in question.of(TOPIC)) and len(fresh[ENTITY]) == 1:
        # A measure of two things takes the other one from the question before.
        fresh[ENTITY] = [*(slot.text for slot in last.of(ENTITY)), *fresh[ENTITY]]
    elif any(slot.value in PAIRWISE for slot in last.of(TOPIC)) and len(fresh[ENTITY]) == 1 < len(last.of(ENTITY)):
        # Of two things that are measured against each other the second is another one.
        fresh[ENTITY] = [last.of(ENTITY)[0].text, *fresh[ENTITY]]
    for kind, names in fresh.items():
        if not names:
            continue
        joined = join_names(names, chinese)
        second = replace_second(text, joined) if kind == ENTITY and PAIR.search(question.text) else None
        text = second or replace_slots(text, choose_kinds(kind, question, last), joined, chinese)
    return text.text


def choose_kinds(kinds: Kinds, question: ReadText, last: ReadText) -> Kinds:
    """Return the kinds to replace: an indicator takes the place of one, and leaves "average" before it as it is."""
    is_indicator = kinds == TOPIC and not any(slot.is_measure for slot in question.of(TOPIC))
    return INDICATOR if is_indicator and last.of(INDICATOR) else kinds


def move_to_year(question: ReadText, last: ReadText, chinese: bool) -> list[str]:
    """Return the month, quarter or day of the last question in the year that the follow-up names; [] for others."""
    asked, former = question.of(PERIOD), last.of(PERIOD)
    if len(asked) != 1 or len(former) != 1:
        return []
    year, before = parse_period(asked[0].value), parse_period(former[0].value)
    if year is None or before is None or not BARE_YEAR.fullmatch(asked[0].text):
        return []
    # Of a whole year, or of more than one, nothing is left to move.
    if before[0].year != before[1].year or former[0].value == whole_year(before):
        return []
    moved = shift_period(former[0].value, Shift("year", year[0].year - before[0].year), chinese)
    return [moved] if moved else []


def whole_year(days: tuple[date, date]) -> str:
    """Return the year of a period's first day as an ISO interval."""
    return f"{days[0].year}-01-01/{days[0].year}-12-31"


def is_new_pair(question: ReadText, last: ReadText) -> bool:
    """Return whether the question names other things to compare and leaves the rest: "now compare A with B"."""
    known = {slot.value for slot in last.of(ENTITY)}
    names = [slot for slot in question.of(ENTITY) if slot.value not in known]
    return len(names) >= 2 and not question.of(TOPIC) and not question.of(PERIOD)


def is_exchange(question: ReadText, last: ReadText) -> bool:
    """Return whether the follow-up names one thing of several and one in its place: "swap Apple for Nvidia"."""
    known = {slot.value for slot in last.of(ENTITY)}
    names = question.of(ENTITY)
    former = [slot for slot in names if slot.value in known]
    is_name_only = not any(question.of(kind) for kind in (TOPIC, PERIOD, FREQUENCY))
    return is_name_only and len(former) == 1 < len(known) and len(names) > len(former)


def exchange_names(question: ReadText, last: ReadText, chinese: bool) -> str:
    """Return the last question with the one name replaced by the others."""
    known = {slot.value for slot in last.of(ENTITY)}
    former = next(slot.value for slot in question.of(ENTITY) if slot.value in known)
    place = next(slot for slot in last.of(ENTITY) if slot.value == former)
    new = join_names([slot.text for slot in question.of(ENTITY) if slot.value not in known], chinese)
    return replace_span(last, place.start, place.end, new).text


def is_qualifier(question: ReadText, last: ReadText) -> bool:
    """Return whether the follow-up's measure says how the last one is meant or condensed, without replacing it."""
    topics, former = question.of(TOPIC), last.of(TOPIC)
    if not topics:
        return False
    same = {slot.value for slot in topics} & {slot.value for slot in former}
    has_indicator = any(not slot.is_measure for slot in former)
    return bool(same) or (has_indicator and all(slot.is_measure for slot in topics))
