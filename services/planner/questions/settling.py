"""The words of a follow-up that refer to earlier turns and answers, and what they mean; nothing is added."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fathom.domain.text.language import language_of
from fathom.domain.text.scripts import HAN_CHARACTER
from fathom.services.planner.model.slots import ENTITY, PERIOD, TOPIC, ReadText, Slot, SlotKind
from fathom.services.planner.questions.frames import Frame, Turn, find_frame
from fathom.services.planner.questions.names import promote_names
from fathom.services.planner.questions.periods import (
    Shift,
    begin_at,
    find_named,
    name_period,
    parse_period,
    shift_period,
    take_edge,
)
from fathom.services.planner.questions.phrasing import join_names, replace_span
from fathom.services.planner.questions.references import (
    FOUND,
    HIGHEST,
    LOWEST,
    MAXIMUM,
    MINIMUM,
    NAMING,
    ONE,
    OTHER,
    SAME,
    SEVERAL,
    SHIFTED,
    STATEMENT,
    THEN,
    Reference,
    drop_overlapped,
    find_references,
)
from fathom.services.planner.questions.substitution import move_to_year

# Measures that put things in an order, by datafetch's names.
ORDERED = frozenset({"rank"})
# Measures that are found at a time, and those of which less is better.
DRAWDOWN = "max_drawdown"
DATED, RISKS = frozenset({"max", "min", DRAWDOWN}), frozenset({DRAWDOWN, "volatility"})
DATING = (SlotKind.UNKNOWN, SlotKind.PARAMETER, SlotKind.PERIOD)
COUNTED = {2: re.compile("two|both|[两二俩]"), 3: re.compile("three|三")}
# Words that judge instead of comparing sizes.
JUDGING = re.compile(r"better|best|worse|worst|winner|loser|leader|laggard|[好差强弱赢输]", re.IGNORECASE)
# What stands right before a name that is denied: "not in 2018", 不是, 而不是.
DENIED = re.compile(r"(?:\b(?:not|instead of|rather than)|不是|而不是|不要)\s*(?:in |for )?$", re.IGNORECASE)
# What stands right before the end of a span: "through to 2012", 到2015年.
END_OF_SPAN = re.compile(r"(?:\b(?:up to|through to|through|until|till|to)\s*(?:the )?|[到至])$", re.IGNORECASE)


def settle_references(question: ReadText, turns: Sequence[Turn]) -> str:
    """Return the follow-up with names and periods for its referring words; words with no or several meanings stay.

    What it denies is left out ("Tampa, not Boston"), and a bare year is the month of the question before in that year.
    """
    turns = [turn for turn in turns if turn.has_data]
    if not turns:
        return question.text
    question, references = prepare(question, turns)
    frame = find_frame(question, turns, references)
    chinese, text = language_of(question.text) == "zh", question.text
    if not references:
        is_year_only = not question.of(ENTITY + TOPIC)
        moved = move_to_year(question, turns[-1].question, chinese) if is_year_only else []
        slot = question.of(PERIOD)[0] if moved else None
        return replace_span(question, slot.start, slot.end, moved[0]).text if slot else text
    for one in reversed(references):
        if one.kind in (*NAMING, SAME, SHIFTED, FOUND) and (words := name_reference(one, frame, question, chinese)):
            text = text[: one.start] + words + text[one.end :]
    return text


def name_reference(one: Reference, frame: Frame, question: ReadText, chinese: bool) -> str:
    """Return what referring words mean; "" for nothing and for several things."""
    if one.kind in NAMING:
        meant = list_meant(one, frame, question)
        return join_names(meant[0], chinese) + ("'s" if one.is_genitive else "") if len(meant) == 1 else ""
    if one.kind == FOUND:
        return name_found(one, frame, chinese)
    days = name_shifted(one, frame, chinese)
    if len(days) != 1:
        return ""
    is_placed = chinese or days[0].startswith(("in ", "from "))
    return days[0] if is_placed else f"{choose_preposition(days[0])} {days[0]}"


def prepare(question: ReadText, turns: Sequence[Turn]) -> tuple[ReadText, list[Reference]]:
    """Return the follow-up with whole dates, its names, and without what it denies; and its referring words."""
    known = [slot for turn in turns for slot in turn.question.of(ENTITY)]
    question = promote_names(complete_ends(complete_dates(question, turns), turns), known, is_follow_up=True)
    references = settle_then(find_references(question), question, turns)
    return drop_denied(drop_overlapped(question, references)), references


def complete_dates(question: ReadText, turns: Sequence[Turn]) -> ReadText:
    """Return the text with whole dates: "and in March?" is of the year that was talked about, '15 is 2015."""
    chinese, whole = language_of(question.text) == "zh", question
    for one in reversed(find_named(question.text, find_year(turns))):
        taken = any(
            slot.start < one.end
            and one.start < slot.end
            and (slot.kind not in DATING or len(slot.text) > one.end - one.start)
            for slot in question.slots
        )
        period = parse_period(one.value)
        if taken or not one.is_partial or period is None:
            continue
        words = name_period(*period, chinese)
        whole = replace_span(whole, one.start, one.end, words)
        made = Slot(SlotKind.PERIOD, words, one.value, one.start, one.start + len(words))
        whole = replace(whole, slots=tuple(sorted([*whole.slots, made], key=lambda slot: slot.start)))
    return whole


def complete_ends(question: ReadText, turns: Sequence[Turn]) -> ReadText:
    """Return the text with whole spans: "through to 2012" begins where the last question did, "May to June" is one."""
    chinese, whole = language_of(question.text) == "zh", question
    anchors = turns[-1].question.of(PERIOD) if turns else ()
    slots = [slot for slot in question.slots if slot.kind in PERIOD]
    for place, slot in reversed(list(enumerate(slots))):
        before = slots[place - 1] if place else None
        end = END_OF_SPAN.search(question.text[: slot.start])
        if not (end or slot.value.startswith("../")) or (before is None and not anchors):
            continue
        start = end.start() if end else slot.start
        if before is not None and before.end >= start - 1:
            start, words = before.start, question.text[before.start : slot.end]
            value = f"{before.value.partition('/')[0]}/{slot.value.rpartition('/')[2]}"
        elif before is None:
            words = begin_at(slot.value, slot.text, anchors[0].value, chinese)
            value = f"{anchors[0].value.partition('/')[0]}/{slot.value.rpartition('/')[2]}"
        else:
            words = value = ""
        if words:
            whole = replace_span(whole, start, slot.end, words)
            made = Slot(SlotKind.PERIOD, words, value, start, start + len(words))
            whole = replace(whole, slots=tuple(sorted([*whole.slots, made], key=lambda one: one.start)))
    return whole


def find_year(turns: Sequence[Turn]) -> int:
    """Return the year of the newest question, or of its answer where that runs over several; 0 for none."""
    for turn in reversed(turns):
        for text in (turn.question, turn.answer):
            for slot in text.of(PERIOD):
                period = parse_period(slot.value)
                if period and period[0].year == period[1].year:
                    return period[0].year
    return 0


def settle_then(found: Sequence[Reference], question: ReadText, turns: Sequence[Turn]) -> list[Reference]:
    """Return the references with "then" as a time where the last question asked for one, and without it elsewhere."""
    asked_when = bool(turns) and turns[-1].moment is not None and not question.of(PERIOD)
    asked_when = asked_when and any(slot.value in DATED for slot in turns[-1].question.of(TOPIC))
    return [replace(one, kind=SAME) if one.kind == THEN else one for one in found if one.kind != THEN or asked_when]


def drop_denied(question: ReadText) -> ReadText:
    """Return a correction ("not 2007, 2017") without what it denies, where something of the kind is left."""
    kept = [slot for slot in question.slots if not DENIED.search(question.text[: slot.start])]
    left = {slot.kind for slot in kept}
    gone = [slot for slot in question.slots if slot not in kept and slot.kind in left]
    text = list(question.text)
    for slot in gone:
        denial = DENIED.search(question.text[: slot.start])
        start = denial.start() if denial else slot.start
        text[start : slot.end] = " " * (slot.end - start)
    return ReadText("".join(text), tuple(slot for slot in question.slots if slot not in gone)) if gone else question


def name_shifted(reference: Reference, frame: Frame, chinese: bool) -> list[str]:
    """Return the periods that the words may mean; several for "that day" after an answer with several days."""
    first = frame.periods[0] if frame.periods else None
    if frame.moment is not None and (reference.shift is None or not reference.shift.count):
        # "That month", "then": what the answer has found, where the question was about a longer time.
        if reference.shift is None:
            return [frame.moment.text]
        first = frame.moment
    if reference.shift is None:
        return [] if first is None else [first.text]
    # "That month" of two is either.
    several = () if reference.shift.count or frame.moment else frame.periods
    if reference.shift.unit == "day":
        anchors = frame.days or ((first,) if first is not None else ())
    else:
        anchors = several or ((first,) if first is not None else ())
    if found := shift_all(anchors, reference.shift, chinese):
        return found if reference.shift.unit == "day" or len(several) > 1 else found[:1]
    # "That month" is one that the answer has found, where the question is about a longer time; of several it is either.
    return shift_all(frame.days + (() if reference.shift.count else frame.answered_periods), reference.shift, chinese)


def shift_all(anchors: Sequence[Slot], shift: Shift, chinese: bool) -> list[str]:
    """Return the names of the shifted periods, each once."""
    names = [shift_period(anchor.value, shift, chinese) for anchor in anchors]
    return list(dict.fromkeys(name for name in names if name))


def name_found(reference: Reference, frame: Frame, chinese: bool) -> str:
    """Return "that low" with the time at which the answer has found it; "" where it has none or several.

    A fall from its peak leads from a high to a low.
    """
    if frame.moment is None:
        return ""
    days, words = parse_period(frame.moment.value), frame.moment.text
    if any(slot.value == DRAWDOWN for slot in frame.topics):
        edge = take_edge(frame.moment.value, is_first=reference.extreme == MAXIMUM)
        days = parse_period(edge) if reference.extreme in (MAXIMUM, MINIMUM) else None
        words = name_period(*days, chinese) if days else ""
    if not days or not words:
        return ""
    return f"{reference.text}（{words}）" if chinese else f"{reference.text} {choose_preposition(words)} {words}"


def is_one_figure(reference: Reference, frame: Frame, question: ReadText) -> bool:
    """Return whether the words are of one figure, where the last question asked for those of several things."""
    is_named = bool(question.of(ENTITY)) or any(not slot.is_measure for slot in question.of(TOPIC))
    return reference.is_figure and not is_named and not frame.is_quoted and len(frame.referents) > 1


def list_meant(reference: Reference, frame: Frame, question: ReadText) -> list[tuple[str, ...]]:
    """Return the entities that the words may stand for, an empty list for none."""
    names, answered = frame.referents, frame.answered
    if reference.kind in (HIGHEST, LOWEST):
        return rank_by_score(reference, frame)
    if reference.kind == SEVERAL:
        return list_several(reference, frame, question)
    if reference.kind in (ONE, STATEMENT):
        return [(name,) for name in names]
    if reference.kind == OTHER:
        # An answer that leads with one of two leaves the other.
        if len(names) < 2:
            return []
        return [answered[1:]] if len(answered) == 2 else [(name,) for name in names]
    text = question.text.lower()
    orders = [names] if "问题" in text or "question" in text else [names, answered or names]
    if answered and ("名" in reference.text or any(slot.value in ORDERED for slot in frame.topics)):
        # Of a ranking the places are those of the answer; 第一名 is always one.
        orders = [answered]
    if len(names) < 2:
        names, orders = frame.recent, [frame.recent]
    if len(names) < 2 or max(reference.rank, 1) > len(names):
        return []
    place = reference.rank if reference.rank < 0 else reference.rank - 1
    return list(dict.fromkeys((order[place],) for order in orders))


def list_several(reference: Reference, frame: Frame, question: ReadText) -> list[tuple[str, ...]]:
    """Return what "both" and "they" stand for: with what the question itself names before, or of several turns."""
    count = next((number for number, words in COUNTED.items() if words.search(reference.text)), 0)
    own = [slot.text for slot in question.of(ENTITY) if slot.end <= reference.start]
    names = tuple(dict.fromkeys((*frame.referents, *own)))
    if len(names) < max(count, 2):
        names = frame.recent
    if len(names) >= max(count, 2):
        return [names[-count:]]
    # A company is "they" in English, and housing starts are plural.
    is_one = not count and len(frame.referents) == 1 and not HAN_CHARACTER.search(reference.text)
    return [frame.referents] if is_one else []


def rank_by_score(reference: Reference, frame: Frame) -> list[tuple[str, ...]]:
    """Return the name with the highest or lowest figure of the answer; [] where fewer than two have one."""
    scores = list(frame.scores)
    if len(scores) < 2:
        # Who did best is the one that the answer names.
        return [(name,) for name in frame.lead]
    if any(slot.value in RISKS for slot in frame.topics):
        # Falls are written with and without a minus, and who fell or swung least did best.
        scores = [(name, abs(figure)) for name, figure in scores]
    is_high = (reference.kind == HIGHEST) != (
        any(slot.value in RISKS for slot in frame.topics) and bool(JUDGING.search(reference.text))
    )
    best = (max if is_high else min)(figure for _, figure in scores)
    return [(name,) for name, figure in scores if figure == best]


def choose_preposition(period: str) -> str:
    """Return "on" for a day, "in" for anything longer."""
    return "on" if re.match(r"\d{1,2} [A-Z]|\d{4}-\d\d-\d\d$", period) else "in"
