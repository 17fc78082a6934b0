"""Completion of a follow-up question from the slots of earlier turns, without a language model.

What a follow-up names takes the place of the same slot in the last question, or joins or leaves it, if it says nothing
else ("and Lilly?", "add Exxon"). In any other one the referring words are replaced, and slots that it lacks are added
in brackets. A reference with no or several candidates is reported instead of guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.domain.text.language import language_of
from fathom.services.planner.model.slots import (
    ENTITY,
    FREQUENCY,
    PERIOD,
    TOPIC,
    UNKNOWN,
    ReadText,
    Slot,
)
from fathom.services.planner.questions.frames import Frame, Turn, find_frame
from fathom.services.planner.questions.phrasing import (
    add_in_brackets,
    join_names,
    replace_slots,
)
from fathom.services.planner.questions.references import (
    ADD,
    COMPARED,
    EARLIER,
    FOUND,
    NAMING,
    REMOVE,
    SAME,
    SEVERAL,
    SHIFTED,
    STATEMENT,
    Reference,
    list_rest,
)
from fathom.services.planner.questions.settling import (
    choose_preposition,
    is_one_figure,
    list_meant,
    name_found,
    name_shifted,
    prepare,
)
from fathom.services.planner.questions.substitution import (
    PAIRWISE,
    is_qualifier,
    substitute_slots,
)

# A follow-up without any slot ("Why?") refers to the last turn as a whole only when it is as short as this.
BARE_CHARS = 40
# What stands right before a period that another one is measured against: "below February", 比2019年.
AGAINST = re.compile(
    r"(?:\b(?:than|below|above|versus|vs|against|compared (?:to|with))|[比较])\s*(?:in |the )?$", re.IGNORECASE
)
# Several candidates are worth a choice, a long list of them is not.
MAX_OPTIONS = 4


@dataclass(frozen=True)
class Completed:
    """The question made whole; with ``unresolved`` words, ``options`` are the questions that may be meant."""

    text: str
    unresolved: str = ""
    options: tuple[str, ...] = ()


def complete_question(question: ReadText, turns: Sequence[Turn]) -> Completed:
    """Return the follow-up as a whole question; ``turns`` are oldest first."""
    if not turns:
        return Completed(question.text)
    turns = [turn for turn in turns if turn.has_data]
    question, references = prepare(question, turns)
    question = merge_inputs(question)
    kinds = {one.kind for one in references}
    if not turns:
        return ask_without_turns(question, references)
    if EARLIER in kinds:
        return recall_turn(question, references, turns)
    frame = find_frame(question, turns, references)
    text = ""
    if kinds & {ADD, REMOVE}:
        text = edit_names(question, references, turns[-1], frame)
    elif not kinds - {STATEMENT}:
        text = substitute_slots(question, turns)
    elif kinds <= {SHIFTED, SAME} and not question.of(ENTITY):
        text = move_period(question, references, turns[-1], frame)
    return Completed(text) if text else resolve_references(question, references, frame)


def ask_without_turns(question: ReadText, references: Sequence[Reference]) -> Completed:
    """Return the question as it stands, as unresolved if it leans on a turn that there was not."""
    is_named = bool(question.of(ENTITY)) or any(not slot.is_measure for slot in question.of(TOPIC))
    leaning = [one for one in references if one.kind != COMPARED and (one.kind != STATEMENT or not is_named)]
    is_short = bool(question.slots) and not is_named and len(question.text) <= BARE_CHARS
    words = leaning[0].text if leaning else question.text if is_short and not is_bare(question) else ""
    return Completed(question.text, words)


def merge_inputs(question: ReadText) -> ReadText:
    """Return the text with "monthly returns" as a frequency: the returns are the input of another measure."""
    slots: list[Slot] = []
    for slot in sorted(question.slots, key=lambda one: one.start):
        before = slots[-1] if slots else None
        if before and before.kind in FREQUENCY and slot.value == "return" and slot.start - before.end <= 1:
            slots[-1] = replace(before, end=slot.end, text=question.text[before.start : slot.end])
        else:
            slots.append(slot)
    return replace(question, slots=tuple(slots))


def recall_turn(question: ReadText, references: Sequence[Reference], turns: Sequence[Turn]) -> Completed:
    """Return the question on a turn before the last one ("the ratio we talked about last time")."""
    words = next(one.text for one in references if one.kind == EARLIER)
    earlier = [turn for turn in turns[:-1] if turn.has_data]
    others = [one for one in references if one.kind != EARLIER]
    texts = [resolve_references(question, others, find_frame(question, [turn], others)).text for turn in earlier]
    if len(texts) == 1:
        return Completed(texts[0])
    return Completed(question.text, words, tuple(texts[-MAX_OPTIONS:]))


def edit_names(question: ReadText, references: Sequence[Reference], last: Turn, frame: Frame) -> str:
    """Return the last question with names added or removed; "" for a follow-up that says more."""
    operators = [one for one in references if one.kind in (ADD, REMOVE)]
    names, chinese = list(frame.entities), language_of(last.question.text) == "zh"
    ends = [*(one.start for one in operators[1:]), len(question.text)]
    used = []
    for operator, end in zip(operators, ends, strict=True):
        part = question.text[operator.end : end]
        if operator.kind == REMOVE:
            gone = [name for name in names if is_named(name, part, question, last)]
            names = [name for name in names if name not in gone]
            used += gone
        else:
            new = [slot.text for slot in question.of(ENTITY) if operator.end <= slot.start < end]
            names += [name for name in new if name not in names]
            used += new
    words = {word.lower() for name in used for word in re.findall(r"\w+", name)}
    rest = [word for word in list_rest(question, references) if word.lower() not in words]
    if not used or not names or rest:
        return ""
    text = replace_slots(last.question, ENTITY, join_names(names, chinese), chinese)
    return replace_periods(text, question, chinese).text


def is_named(name: str, part: str, question: ReadText, last: Turn) -> bool:
    """Return whether the words name an entity of the last question, by the same or another of its names."""
    values = {slot.value for slot in last.question.of(ENTITY) if slot.text == name and slot.value}
    known = any(slot.value in values and slot.text in part for slot in question.of(ENTITY))
    return known or name.lower() in part.lower()


def replace_periods(text: ReadText, question: ReadText, chinese: bool) -> ReadText:
    """Return the text with the periods and the frequency of the follow-up, if it has any."""
    for kind in (PERIOD, FREQUENCY):
        words = [slot.text for slot in question.of(kind)]
        if words:
            text = replace_slots(text, kind, join_names(words, chinese), chinese)
    return text


def move_period(question: ReadText, references: Sequence[Reference], last: Turn, frame: Frame) -> str:
    """Return the last question at another period, for "And the year after?"; "" when the follow-up says more."""
    chinese = language_of(last.question.text) == "zh"
    # A date of its own says more exactly what the shift means.
    words = [slot.text for slot in question.of(PERIOD)][:1] or name_shifted(references[0], frame, chinese)
    if not words or list_rest(question, references) or is_qualifier(question, last.question):
        return ""
    text = replace_slots(last.question, PERIOD, words[0], chinese) if len(words) == 1 else None
    if text is None:
        return ""
    for slot in question.of(TOPIC):
        text = replace_slots(text, TOPIC, slot.text, chinese)
    return text.text


def resolve_references(question: ReadText, references: Sequence[Reference], frame: Frame) -> Completed:
    """Replace referring words and add what the question lacks."""
    chinese = language_of(question.text) == "zh"
    if not has_tie(question, references, frame) or is_whole(question, references):
        return Completed(question.text)
    guess = write(question, references, frame, frame.entities, {}, chinese)
    if frame == Frame():
        # Nothing was asked yet that the words could mean.
        return Completed(question.text, references[0].text if references else question.text)
    meanings: list[tuple[str, ...]] = []
    for one in references:
        if one.kind in NAMING or is_one_figure(one, frame, question):
            names = list_meant(one, frame, question)
            # "Compare it with them": nothing is compared with itself.
            if len(names) != 1 or (one.kind == SEVERAL and names[0] in meanings):
                texts = [write(question, references, frame, meant, {}, chinese) for meant in names]
                # The guess, for a conversation in which nothing is asked back any more.
                return Completed(guess, one.text, tuple(dict.fromkeys(texts))[:MAX_OPTIONS])
            meanings += names
            guess = write(question, references, frame, names[0], {}, chinese)
        elif one.kind == SHIFTED and one.shift is not None:
            days = name_shifted(one, frame, chinese)
            if len(days) > 1 or not (days or question.of(PERIOD) or one.shift.unit != "day"):
                texts = [write(question, references, frame, frame.entities, {one.start: day}, chinese) for day in days]
                return Completed(guess, one.text, tuple(texts[:MAX_OPTIONS]))
    return Completed(guess)


def is_whole(question: ReadText, references: Sequence[Reference]) -> bool:
    """Return whether a question names what it is about, what of it and when, beside a word on the turn before."""
    is_complete = all(question.of(kind) for kind in (ENTITY, TOPIC, PERIOD))
    starts = [slot.start for slot in question.slots if slot.kind not in UNKNOWN]
    return is_complete and all(one.kind == STATEMENT and one.end <= min(starts) for one in references)


def has_tie(question: ReadText, references: Sequence[Reference], frame: Frame) -> bool:
    """Return whether the question leans on earlier turns."""
    if any(one.kind not in (COMPARED, ADD, REMOVE) for one in references) or frame.is_quoted:
        return True
    names, topics, periods = question.of(ENTITY), question.of(TOPIC), question.of(PERIOD)
    if any(one.kind in (ADD, REMOVE) for one in references) and names:
        return True
    if any(one.kind == COMPARED for one in references) and len(names) == 1:
        return not periods
    if names and not topics:
        return not periods and len(question.text) <= BARE_CHARS
    if names:
        same_topic = bool(frame.values & {slot.value for slot in topics})
        same_name = {slot.text.lower() for slot in names} <= {name.lower() for name in frame.entities}
        return (same_topic or (same_name and bool(topics))) and not periods
    if topics:
        # "How volatile in 2021?" does not say of what; "inflation in 2021" does.
        return not periods or all(slot.is_measure for slot in topics)
    return len(question.text) <= BARE_CHARS


def write(
    question: ReadText,
    references: Sequence[Reference],
    frame: Frame,
    entities: Sequence[str],
    days: dict[int, str],
    chinese: bool,
) -> str:
    """Return the question with names for referring words, and the slots that it lacks in brackets.

    ``days`` has the day chosen for a reference, by its start.
    """
    text, has_statement = question.text, frame.is_quoted
    # What is left out of a period is left out of an earlier one, and what is compared with one is that of another.
    is_against = len(question.of(PERIOD)) == 1 and bool(AGAINST.search(text[: question.of(PERIOD)[0].start]))
    is_against |= any(one.kind == COMPARED for one in references) and not question.of(ENTITY)
    has_period = bool(question.of(PERIOD)) and not is_against and not any(one.kind == REMOVE for one in references)
    meant = entities if entities != frame.entities else frame.referents
    # "Compare with gold": the other side of the comparison is what was talked about.
    operands = [*question.of(ENTITY), *(slot for slot in question.of(TOPIC) if not slot.is_measure)]
    joins = any(one.kind in (COMPARED, ADD) for one in references)
    is_half = len(operands) == 1 and (joins or any(slot.value in PAIRWISE for slot in question.of(TOPIC)))
    joins |= is_half
    named = bool(question.of(ENTITY)) and not joins
    for one in reversed(references):
        has_statement |= one.kind == STATEMENT
        if one.kind == FOUND:
            found = name_found(one, frame, chinese)
            text = text[: one.start] + (found or one.text) + text[one.end :]
            has_statement |= not found
            has_period |= bool(found)
            continue
        new = join_names(meant, chinese) if one.kind in NAMING else ""
        if one.kind in (SAME, SHIFTED):
            shifted = name_shifted(one, frame, chinese)
            new = days.get(one.start, shifted[0] if shifted else "")
            # What is compared with another time needs both.
            has_period |= bool(new) and not any(other.kind == COMPARED for other in references)
            new = new if chinese or not new or new.startswith(("in ", "from ")) else f"{choose_preposition(new)} {new}"
        if not new:
            continue
        named |= one.kind in NAMING
        text = text[: one.start] + new + ("'s" if one.is_genitive else "") + text[one.end :]
    lacking = [] if named or not entities else [join_names(entities, chinese)]
    lacking += list_lacking_topics(question, text, frame, has_statement or is_half)
    if not has_period and frame.periods:
        lacking.append(join_names(list(dict.fromkeys(slot.text for slot in frame.periods)), chinese))
    if (has_statement or (is_bare(question) and not references)) and frame.figure and frame.figure not in text:
        lacking.append(frame.figure)
    return add_in_brackets(text, lacking, chinese)


def is_bare(question: ReadText) -> bool:
    """Return whether nothing in the question is known."""
    return all(slot.kind in UNKNOWN for slot in question.slots)


def list_lacking_topics(question: ReadText, text: str, frame: Frame, has_statement: bool) -> list[str]:
    """Return what is measured, as earlier turns said it and the question does not.

    A measure alone ("and the average?") leaves the indicator of the earlier question; that of a named entity, as in
    "how volatile was it", replaces a former measure.
    """
    topics = question.of(TOPIC)
    # A question on several indicators is left whole.
    several = [slot for slot in frame.topics if not slot.is_measure]
    wanted: Sequence[Slot] = frame.topics[: max(2, len(several))]
    if topics and not has_statement and not is_bare(question):
        wanted = several
        if any(not slot.is_measure for slot in topics):
            wanted = []
    return [slot.text for slot in wanted if slot.text.lower() not in text.lower()]
