"""Completion of a follow-up question from the slots of earlier turns, without a language model.

What a follow-up names takes the place of the same slot in the last question, if it says nothing else ("and Lilly?"). In
any other one the referring words are replaced, and slots that it lacks are added in brackets. A reference with no or
several candidates is reported instead of guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from fathom.domain.chat.language import language_of
from fathom.services.planner.questions.references import (
    COMPARED,
    FORMER,
    LATTER,
    NEXT,
    ONE,
    PREVIOUS,
    SAME,
    SEVERAL,
    STATEMENT,
    Reference,
    find_references,
    list_rest,
)
from fathom.services.planner.questions.slots import (
    ENTITY,
    FREQUENCY,
    PERIOD,
    TOPIC,
    UNKNOWN,
    ReadText,
    Slot,
    shift_period,
)

# A follow-up without any slot ("Why?") refers to the last turn as a whole only when it is as short as this.
BARE_CHARS = 40
# Names that belong together stand this close: "Apple and Microsoft", 苹果、微软和谷歌.
RUN_CHARS = 12
# A Chinese name of a company is hardly longer.
NAME_CHARS = 8
# Words of an unknown name: "And Zoom Video's?".
NAME_WORDS = 4
FIGURE = re.compile(r"[-−]?\d(?:[\d,]*\d)?(?:\.\d+)?\s*(?:%|percentage points|[A-Z]{3}\b|美元|元|点|亿|万)?")
CITATION = re.compile(r"\[\d+\]")
SENTENCE = re.compile(r"(?<=[。！？!?])|(?<=\.)\s+|\n+")
END = re.compile(r"[?？。.!！\s]*$")


@dataclass(frozen=True)
class Turn:
    """An earlier question, whole, and the answer to it."""

    question: ReadText
    answer: ReadText


@dataclass(frozen=True)
class Completed:
    """The question made whole; with ``unresolved`` words, ``options`` are the questions that may be meant."""

    text: str
    unresolved: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Frame:
    """What the conversation is about: the newest slots of each kind, and the figure of the last answer."""

    entities: tuple[str, ...] = ()
    topics: tuple[Slot, ...] = ()
    periods: tuple[Slot, ...] = ()
    figure: str = ""
    values: frozenset[str] = field(default_factory=frozenset)
    is_quoted: bool = False
    """True when the follow-up repeats a figure of an answer."""


def complete_question(question: ReadText, turns: Sequence[Turn]) -> Completed:
    """Return the follow-up as a whole question; ``turns`` are oldest first."""
    if not turns:
        return Completed(question.text)
    references = find_references(question)
    if not references:
        substituted = substitute_slots(question, turns)
        if substituted:
            return Completed(substituted)
    elif all(one.kind in (NEXT, PREVIOUS, SAME) for one in references) and not question.of(ENTITY):
        moved = move_period(question, references, turns)
        if moved:
            return Completed(moved)
    return resolve_references(question, references, find_frame(question, turns, references))


def find_frame(question: ReadText, turns: Sequence[Turn], references: Sequence[Reference]) -> Frame:
    """Return the frame; a follow-up on a statement is about the sentence of the answer that makes it."""
    quoted = [match.group().strip() for match in FIGURE.finditer(remove_slots(question, PERIOD))]
    texts: list[ReadText] = []
    figure = ""
    if quoted or any(one.kind == STATEMENT for one in references):
        sentence, figure = find_statement(quoted, turns)
        texts.append(sentence)
    for turn in reversed(turns):
        texts += [turn.question, *split_sentences(turn.answer)[:1]]
    entities: tuple[str, ...] = ()
    topics: tuple[Slot, ...] = ()
    periods: tuple[Slot, ...] = ()
    for text in texts:
        unknown_names, unknown_topics = split_unknown(text)
        # "Which share fell most?": the answer leads with the one that is meant.
        entities = entities or tuple(slot.text for slot in text.of(ENTITY)) or unknown_names
        topics = topics or text.of(TOPIC) or unknown_topics
        periods = periods or text.of(PERIOD)
    values = frozenset(slot.value for slot in topics if slot.value)
    return Frame(
        entities, topics, periods, "" if quoted else figure or find_figure(turns[-1].answer), values, bool(quoted)
    )


def find_statement(quoted: Sequence[str], turns: Sequence[Turn]) -> tuple[ReadText, str]:
    """Return the newest sentence of an answer that has a quoted figure, or else any figure, and that figure."""
    for turn in reversed(turns):
        for sentence in split_sentences(turn.answer):
            if any(number in sentence.text for number in quoted):
                return sentence, ""
    sentences = split_sentences(turns[-1].answer)
    found = next(((one, figure) for one in sentences if (figure := find_figure(one))), None)
    return found or (ReadText(""), "")


def split_sentences(text: ReadText) -> list[ReadText]:
    """Return the sentences with the slots in them."""
    found, start = [], 0
    for end in [*(match.start() for match in SENTENCE.finditer(text.text)), len(text.text)]:
        if text.text[start:end].strip():
            inside = tuple(
                Slot(slot.kind, slot.start - start, slot.end - start, slot.text, slot.value)
                for slot in text.slots
                if start <= slot.start and slot.end <= end
            )
            found.append(ReadText(text.text[start:end], inside))
        start = end
    return found


def split_unknown(text: ReadText) -> tuple[tuple[str, ...], tuple[Slot, ...]]:
    """Return names and measures among words that the data do not know: capitalised ones, or those that come first."""
    names: list[str] = []
    topics: list[Slot] = []
    for slot in merge_neighbours(text):
        if len(slot.text) < 2:
            continue
        is_first = slot.start == 0 and not slot.text.isascii()
        # An English sentence begins with a capital, whatever its first word is.
        if is_first:
            names.append(cut_name(text))
        elif slot.start > 0 and slot.text[0].isupper():
            names.append(slot.text.removesuffix("'s"))
        else:
            topics.append(slot)
    return tuple(names[:2]), tuple(topics[:2])


def cut_name(text: ReadText) -> str:
    """Return the beginning of a Chinese question up to its first known slot or 的, a name of unknown extent."""
    known = [slot.start for slot in text.slots if slot.kind != UNKNOWN]
    return text.text[: min([*known, NAME_CHARS])].split("的")[0]


def merge_neighbours(text: ReadText) -> list[Slot]:
    """Return the unknown slots, those next to each other as one."""
    merged: list[Slot] = []
    for slot in sorted((one for one in text.slots if one.kind == UNKNOWN), key=lambda one: one.start):
        last = merged[-1] if merged else None
        if last is not None and text.text[last.end : slot.start] in ("", " "):
            words = text.text[last.start : slot.end]
            merged[-1] = Slot(UNKNOWN, last.start, slot.end, words, "")
        else:
            merged.append(slot)
    return merged


def find_figure(answer: ReadText) -> str:
    """Return the first figure of a text that is no part of a date; "" without one."""
    match = FIGURE.search(CITATION.sub(" ", remove_slots(answer, PERIOD)))
    return match.group().strip() if match else ""


def remove_slots(text: ReadText, kind: str) -> str:
    """Return the text with the slots of a kind blanked out."""
    letters = list(text.text)
    for slot in text.slots:
        if slot.kind == kind:
            letters[slot.start : slot.end] = " " * (slot.end - slot.start)
    return "".join(letters)


def substitute_slots(question: ReadText, turns: Sequence[Turn]) -> str:
    """Return the last question with the follow-up's slots in it; "" for a follow-up that says more than slots."""
    fresh = {kind: [slot.text for slot in question.of(kind)] for kind in (ENTITY, TOPIC, PERIOD, FREQUENCY)}
    rest = list_rest(question)
    unknown = {slot.text.lower() for slot in question.of(UNKNOWN)}
    words = {word for text in unknown for word in re.split(r"\W+", text)}
    if rest and len(rest) <= NAME_WORDS and not any(fresh.values()) and is_name(question.text, rest, words):
        fresh[ENTITY] = [" ".join(rest)]
    elif rest or not any(fresh.values()):
        return ""
    # A whole question of its own, such as "Apple revenue 2019".
    if fresh[ENTITY] and fresh[TOPIC] and (fresh[PERIOD] or not turns[-1].question.of(PERIOD)):
        return ""
    text, chinese = turns[-1].question, language_of(turns[-1].question.text) == "zh"
    for kind, names in fresh.items():
        if names:
            text = replace_slots(text, kind, (("和" if chinese else " and ").join(names)), chinese)
    return text.text


def is_name(text: str, rest: Sequence[str], unknown: set[str]) -> bool:
    """Return whether the words that remain look like a name that the data do not know."""
    if language_of(text) == "zh" and not any(word.isascii() for word in rest):
        return len(rest) == 1 and 2 <= len(rest[0]) <= 8 and any(rest[0] in word for word in unknown)
    return all(word[0].isupper() or word[0].isdigit() for word in rest) and {word.lower() for word in rest} <= unknown


def replace_slots(text: ReadText, kind: str, words: str, chinese: bool) -> ReadText:
    """Return the text with the first run of slots of a kind replaced, or with the words added in brackets."""
    slots = sorted((slot for slot in text.slots if slot.kind == kind), key=lambda slot: slot.start)
    if not slots:
        return ReadText(add_in_brackets(text.text, [words], chinese), text.slots)
    start, end = slots[0].start, slots[0].end
    for slot in slots[1:]:
        end = slot.end if slot.start - end <= RUN_CHARS else end
    moved = len(words) - (end - start)
    others = tuple(
        slot if slot.end <= start else Slot(slot.kind, slot.start + moved, slot.end + moved, slot.text, slot.value)
        for slot in text.slots
        if slot.end <= start or slot.start >= end
    )
    return ReadText(text.text[:start] + words + text.text[end:], others)


def move_period(question: ReadText, references: Sequence[Reference], turns: Sequence[Turn]) -> str:
    """Return the last question at another period, for "And the year after?"; "" when the follow-up says more."""
    blanked = list(question.text)
    for one in references:
        blanked[one.start : one.end] = " " * (one.end - one.start)
    if list_rest(ReadText("".join(blanked), question.slots)):
        return ""
    last = turns[-1].question
    periods, chinese = find_frame(question, turns, references).periods, language_of(last.text) == "zh"
    steps = {NEXT: 1, PREVIOUS: -1, SAME: 0}[references[0].kind]
    words = shift_period(periods[0].value, steps, chinese) if periods else ""
    if not words:
        return ""
    text = replace_slots(last, PERIOD, words, chinese)
    for slot in question.of(TOPIC):
        text = replace_slots(text, TOPIC, slot.text, chinese)
    return text.text


def resolve_references(question: ReadText, references: Sequence[Reference], frame: Frame) -> Completed:
    """Replace referring words and add what the question lacks."""
    chinese = language_of(question.text) == "zh"
    wanted = [one for one in references if one.kind in (ONE, SEVERAL, FORMER, LATTER)]
    if not wanted and not has_tie(question, references, frame):
        return Completed(question.text)
    choices = [frame.entities]
    unresolved = next((one for one in wanted if not can_resolve(one, frame.entities)), None)
    if unresolved is not None:
        choices = [(name,) for name in frame.entities] if unresolved.kind == ONE else []
    texts = [write(question, references, frame, names, chinese) for names in choices]
    if unresolved is None:
        return Completed(texts[0])
    # The guess, for a conversation in which nothing is asked back any more.
    guess = write(question, references, frame, frame.entities, chinese)
    return Completed(guess, unresolved.text, tuple(texts))


def can_resolve(reference: Reference, entities: Sequence[str]) -> bool:
    """Return whether the entities leave one reading of the words."""
    if reference.kind == ONE:
        return len(entities) == 1
    return len(entities) >= 2


def has_tie(question: ReadText, references: Sequence[Reference], frame: Frame) -> bool:
    """Return whether the question leans on earlier turns without a pronoun."""
    if any(one.kind != COMPARED for one in references):
        return True
    if references:
        return len(question.of(ENTITY)) == 1 and not question.of(PERIOD)
    same_topic = bool(frame.values & {slot.value for slot in question.of(TOPIC)})
    if question.of(ENTITY):
        same_name = {slot.text.lower() for slot in question.of(ENTITY)} <= {name.lower() for name in frame.entities}
        return (same_topic or (same_name and bool(question.of(TOPIC)))) and not question.of(PERIOD)
    if question.of(TOPIC):
        return not question.of(PERIOD)
    return not question.of(PERIOD) and len(question.text) <= BARE_CHARS


def write(
    question: ReadText, references: Sequence[Reference], frame: Frame, entities: Sequence[str], chinese: bool
) -> str:
    """Return the question with names for referring words, and the slots that it lacks in brackets."""
    text, has_statement, has_period = question.text, frame.is_quoted, bool(question.of(PERIOD))
    joined = ("和" if chinese else " and ").join(entities)
    words = {ONE: joined, SEVERAL: joined, FORMER: joined, LATTER: joined, STATEMENT: ""}
    if len(entities) >= 2:
        words |= {FORMER: entities[0], LATTER: entities[1]}
    if frame.periods:
        first = frame.periods[0]
        words[SAME] = first.text if chinese or first.text.lower().startswith(("in ", "from ")) else f"in {first.text}"
        words[NEXT] = shift_period(first.value, 1, chinese)
        words[PREVIOUS] = shift_period(first.value, -1, chinese)
    # "Compare with gold": the other side of the comparison is what was talked about.
    compared = any(one.kind == COMPARED for one in references) and len(question.of(ENTITY)) == 1
    named = bool(question.of(ENTITY)) and not compared
    for one in reversed(references):
        new = words.get(one.kind, "")
        has_statement |= one.kind == STATEMENT
        if not new:
            continue
        has_period |= one.kind in (SAME, NEXT, PREVIOUS)
        named |= one.kind in (ONE, SEVERAL, FORMER, LATTER)
        text = text[: one.start] + new + ("'s" if one.is_genitive else "") + text[one.end :]
    bare = not question.slots or all(slot.kind == UNKNOWN for slot in question.slots)
    lacking = []
    if not named and entities:
        lacking.append(joined)
    if (has_statement or bare or not question.of(TOPIC)) and frame.topics:
        lacking += [slot.text for slot in frame.topics[:2] if slot.text.lower() not in text.lower()]
    if not has_period and frame.periods:
        lacking.append(frame.periods[0].text)
    if (has_statement or bare) and frame.figure and frame.figure not in text:
        lacking.append(frame.figure)
    return add_in_brackets(text, lacking, chinese)


def add_in_brackets(text: str, parts: Sequence[str], chinese: bool) -> str:
    """Return the text with the parts in brackets before its closing mark."""
    if not parts:
        return text
    end = END.search(text)
    place = end.start() if end else len(text)
    body, mark = text[:place], text[place:].strip()
    if chinese:
        return f"{body}（{'，'.join(parts)}）{mark or '？'}"
    return f"{body} ({', '.join(parts)}){mark or '?'}"
