"""Completion of a follow-up by the program of the conversation, which says what it takes from earlier questions.

A program that asks the same of other things exchanges their words in the last question; one that asks something else is
put into words. Where it lacks something that the follow-up says, or takes part of what it could, it is not used.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from fathom.services.planner.coverage.cells import METHODS
from fathom.services.planner.model.programs import CALCULATION, Call, Node, Program, Quote, ReadProgram
from fathom.services.planner.model.slots import ENTITY, PERIOD, TOPIC, UNKNOWN, Kinds, ReadText, Slot, SlotKind
from fathom.services.planner.questions.frames import Turn
from fathom.services.planner.questions.phrasing import add_in_brackets, replace_span
from fathom.services.planner.questions.references import ADD, COMPARED, REMOVE, list_rest
from fathom.services.planner.questions.wording import GENITIVE, fill_places, write_question

# The reference policy computes programs from these on; on 150 questions new to the reader 71 % of them were right.
CONFIDENCE, LINK_CONFIDENCE = 0.84, 0.5
# Words that no series bears are a name, too; a period or a number that cannot be read is none.
UNREADABLE = frozenset({"PERIOD", "NUMBER"})
MEASURES: Kinds = (SlotKind.MEASURE,)
# Functions that find a time, those whose value it is, and those that say nothing of what is computed.
FINDING = frozenset({"maximum", "minimum", "top", "bottom", "drawdown", "rise", "first_if", "last_if", "longest"})
DATING = frozenset({"maximum", "minimum", "first_if", "last_if"})
SILENT = frozenset({"within", "at", "each", "between", "summary"})
DIGITS = re.compile(r"\d+(?:\.\d+)?")


def carry(
    asked: ReadProgram,
    former: ReadProgram,
    last: Turn,
    chinese: bool,
    words: Collection[str] = (),
    is_drawn: bool = False,
) -> str:
    """Return the follow-up as a whole question; "" where its program does not say so surely.

    ``asked`` is the follow-up without referring words and with its certain names, read behind the earlier questions.
    ``former`` is the last question, itself whole. ``words`` are the kinds of words by which the follow-up refers to
    it, and ``is_drawn`` says that it asks for a chart, of which programs know nothing.
    """
    program, before, names = asked.program, former.program, asked.text
    if before is not None and is_dated(before, names, last) and is_named(names):
        # The answer found when; what was asked before is not asked again.
        return names.text
    if program is None or before is None or not is_sure(program) or before.kind != CALCULATION or is_drawn:
        return ""
    if (program.shape, program.words) == (before.shape, before.words) or loses_side(program, before, words):
        return ""
    named = leave_out(names, program, before) if REMOVE in words else names
    if not covers(program, named) or stands_alone(program, before, names) or is_partial(program, before, named):
        return ""
    text = write_whole(asked, former, last, chinese, COMPARED in words)
    lacking = [slot.text for slot in names.of(MEASURES) if slot.text.casefold() not in text.casefold()]
    return add_in_brackets(text, lacking, chinese) if text else ""


def write_whole(asked: ReadProgram, former: ReadProgram, last: Turn, chinese: bool, is_compared: bool) -> str:
    """Return the question of a program: the last one with other words in it, or one of our own; "" for neither."""
    program, before, names = asked.program, former.program, asked.text
    if program is None or before is None:
        return ""
    periods = {slot.text: slot.value for read in (last.answer, former.text, names) for slot in read.of(PERIOD)}
    if program.shape != before.shape:
        # What was asked before is answered.
        new = program if is_compared else place_answered(program, before, last)
        return write_question(new, chinese, periods)
    pairs = pair_words(program, before)
    text = exchange_words(pairs, names, former.text) if pairs else ""
    return text or write_question(program, chinese, periods)


def loses_side(program: Program, former: Program, words: Collection[str]) -> bool:
    """Return whether a program lacks what the follow-up compares with something or adds something to."""
    has_names = set(former.names) <= set(program.names)
    if ADD in words or COMPARED in words:
        return not has_names or (COMPARED in words and not set(former.words) <= set(program.words))
    return False


def leave_out(asked: ReadText, program: Program, former: Program) -> ReadText:
    """Return a follow-up without the names of the last question that it says to leave out."""
    gone = [name.casefold() for name in former.names if name not in program.names]
    kept = [slot for slot in asked.slots if not any(slot.text.casefold() in one for one in gone)]
    return replace(asked, slots=tuple(kept))


def is_dated(former: Program, asked: ReadText, last: Turn) -> bool:
    """Return whether the follow-up is about a time that the answer has found."""
    found = last.moment.value if last.moment else ""
    return bool(former.functions & FINDING) and any(slot.value == found for slot in asked.of(PERIOD))


def place_answered(program: Program, former: Program, last: Turn) -> Program:
    """Return the program without the steps of the last question, and other steps in the place of their numbers.

    Where a step of the last question is meant as a time, it is the one that the answer has found.
    """
    values: list[Node] = []
    for step in program.steps:
        whole = fill_places(step, values)
        is_found = isinstance(whole, Call) and whole in former.steps and whole.name in DATING
        values.append(Quote(last.moment.text) if is_found and last.moment else whole)
    new = [value for value, step in zip(values, program.steps, strict=True) if step not in former.steps]
    return replace(program, steps=tuple(one for one in new if isinstance(one, Call)))


def is_named(asked: ReadText) -> bool:
    """Return whether the follow-up says of what something is asked."""
    return bool(asked.of(ENTITY) or any(not slot.is_measure for slot in asked.of(TOPIC)))


def stands_alone(program: Program, former: Program, asked: ReadText) -> bool:
    """Return whether the follow-up says of what something is asked, and its program takes nothing from before."""
    text = asked.text.casefold()
    is_own = all(words.casefold() in text for words in program.words) and is_named(asked)
    return is_own and (bool(asked.of(TOPIC) and asked.of(PERIOD)) or not program.functions & former.functions - SILENT)


def is_sure(program: Program) -> bool:
    """Return whether it is likely enough what is asked, with periods and numbers that can be read."""
    is_likely = program.confidence >= CONFIDENCE and program.link_confidence >= LINK_CONFIDENCE
    return program.kind == CALCULATION and is_likely and not program.gaps & UNREADABLE


def covers(program: Program, asked: ReadText) -> bool:
    """Return whether the program has the names, periods, figures and measures of the follow-up."""
    used = [words.casefold() for words in program.words]
    stated = [slot.text.casefold() for kinds in (ENTITY, PERIOD) for slot in asked.of(kinds)]
    stated += [slot.text.casefold() for slot in asked.of(TOPIC) if not slot.is_measure]
    if not all(any(text in words or words in text for words in used) for text in stated):
        return False
    figures = {figure for words in used for figure in DIGITS.findall(words)}
    if not set(DIGITS.findall(asked.text)) <= figures:
        return False
    answered = {measure for name in program.functions for measure in (name, *METHODS.get(name, ()))}
    return all(is_answered(slot, answered) for slot in asked.of(TOPIC) if slot.is_measure)


def is_answered(slot: Slot, answered: set[str]) -> bool:
    """Return whether a function computes a measure: "max_drawdown" is computed by ``drawdown``, too."""
    return slot.value in answered or any(part in answered for part in slot.value.split("_"))


def is_partial(program: Program, former: Program, asked: ReadText) -> bool:
    """Return whether some of the last question's names are dropped without a word, or the words left may choose."""
    text = asked.text.casefold()
    named = {name for name in former.names if GENITIVE.sub("", name).casefold() in text}
    kept = [name for name in former.names if name in program.names and name not in named]
    dropped = [name for name in former.names if name not in program.names and name not in named]
    if kept and (dropped or named & set(program.names)):
        return True
    return len(kept) > 1 and bool(list_rest(asked))


def pair_words(program: Program, former: Program) -> dict[str, str]:
    """Return the words of the last question with those that a program of the same shape has instead.

    Returns {} where words have two meanings there: "2018" read both as a year and as a number.
    """
    both = list(zip(former.words, program.words, strict=True))
    pairs = {(old, new) for old, new in both if old.casefold() != new.casefold()}
    kept = {old for old, new in both if old.casefold() == new.casefold()}
    found = {old: new for old, new in both if (old, new) in pairs}
    return {} if len(found) != len(pairs) or kept & found.keys() else found


def exchange_words(pairs: Mapping[str, str], asked: ReadText, last: ReadText) -> str:
    """Return the last question with the follow-up's words for those that its program has instead.

    Returns "" where the words have no one place in it, or are of another kind than those that they would replace.
    """
    if len(set(pairs.values())) != len(pairs):
        return ""
    text = last
    for old, new in pairs.items():
        spans = find_words(old, text.text)
        if len(spans) != 1 or not find_words(new, asked.text):
            return ""
        start, end = narrow(spans[0], text, find_words(new, asked.text)[0], asked)
        if start == end:
            return ""
        text = replace_span(text, start, end, GENITIVE.sub("", new) + genitive(text.text[start:end]))
    return text.text


def find_words(words: str, text: str) -> list[tuple[int, int]]:
    """Return where words stand in a text."""
    return [match.span() for match in re.finditer(re.escape(words), text, re.IGNORECASE)]


def genitive(words: str) -> str:
    """Return the ending of an English possessive; "" for other words."""
    match = GENITIVE.search(words)
    return match.group() if match else ""


def narrow(span: tuple[int, int], last: ReadText, new: tuple[int, int], asked: ReadText) -> tuple[int, int]:
    """Return the part of a span of the last question that new words replace: "Boston" of "Boston house prices".

    The part is empty where they are of another kind than all of it.
    """
    old = [slot for slot in last.slots if span[0] <= slot.start and slot.end <= span[1]]
    kinds = {slot.kind for slot in asked.slots if slot.start < new[1] and new[0] < slot.end}
    rest = [slot for slot in old if slot.kind not in kinds and slot.kind not in UNKNOWN]
    same = [slot for slot in old if slot.kind in kinds]
    if not rest:
        return span
    if not same:
        return span[0], span[0]
    return min(slot.start for slot in same), max(slot.end for slot in same)
