"""Completion of a follow-up by the program of the conversation, which says what it takes from earlier questions.

A program that asks the same of other things exchanges their words in the last question; one that asks something else is
put into words. Where it lacks something that the follow-up says, or takes part of what it could, it is not used.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from fathom.domain.programs.language import Word
from fathom.domain.programs.resolved import CALCULATION
from fathom.domain.text.scripts import HAN
from fathom.services.planner.coverage.cells import METHODS
from fathom.services.planner.model.programs import Program, ReadProgram
from fathom.services.planner.model.slots import ENTITY, PERIOD, TOPIC, UNKNOWN, ReadText, Slot
from fathom.services.planner.questions.exchanging import is_as_long, is_placed_alike
from fathom.services.planner.questions.leaning import (
    ADDING,
    COMPARING,
    REFERRING,
    REMOVING,
    is_around,
    list_leaning,
    list_rest,
)
from fathom.services.planner.questions.periods import parse_period
from fathom.services.planner.questions.phrasing import replace_span
from fathom.services.planner.questions.wording import GENITIVE, list_phrases, put_in_place, write_question

# Below it, programs of four seen sets were mostly wrong even where a second reading agreed.
CONFIDENCE, LINK_CONFIDENCE = 0.8, 0.5
# Words that no series bears are a name, too; a period or a number that cannot be read is none.
UNREADABLE = frozenset({"PERIOD", "NUMBER"})
# Functions that say nothing of what is computed.
SILENT = frozenset({"within", "at", "each", "between", "summary"})
# Functions that find a time.
FINDING = frozenset({"maximum", "minimum", "top", "bottom", "drawdown", "rise", "first_if", "last_if", "longest"})
# Functions that shift a time, and the measure that such words are also read as.
SHIFTS, GROWTH = frozenset({"earlier", "later"}), "yoy"
HAN_WORD = re.compile(rf"[{HAN}]")
DIGITS = re.compile(r"\d+(?:\.\d+)?")


def is_supported(
    asked: ReadProgram, former: ReadProgram, leaning: Collection[str], quantities: Collection[str] = ()
) -> bool:
    """Return whether a program has all that its follow-up says, and leaves no choice of what that takes over.

    ``asked`` is the follow-up with its certain names, read behind the earlier questions, ``former`` the last question,
    itself whole, ``leaning`` the kinds of words by which the follow-up leans on it, and ``quantities`` what a
    classifier reads that it asks for.
    """
    program, before, names = asked.program, former.program, asked.text
    if program is None or before is None or {program.kind, before.kind} != {CALCULATION}:
        return False
    # What is left out of several things is not in the program, nor is what the words leave of them.
    if REMOVING in leaning or has_unreadable(program, before) or program.meaning == before.meaning:
        return False
    if program.left_out or is_ignored(asked, former, quantities) or not covers(program, before, names):
        return False
    pairs = pair_words(program, before) if program.shape == before.shape else {}
    if not (are_placed_alike(pairs, names, former.text) and are_times_alike(pairs, names, former.text)):
        return False
    is_open = is_partial(program, before, names) or may_choose(program, before, names, leaning)
    return not (is_open or loses_side(program, before, leaning) or is_nested(program, before))


def has_unreadable(program: Program, former: Program) -> bool:
    """Return whether a time or a number of a program cannot be read, and is not that of the last question.

    Whatever "in 13" was in the last question, another name in it leaves it as it was.
    """
    if not program.gaps & UNREADABLE:
        return False
    return not {words for words in program.words if DIGITS.search(words)} <= set(former.words)


def is_ignored(read: ReadProgram, last: ReadProgram, quantities: Collection[str]) -> bool:
    """Return whether a program may ignore what unread words of the follow-up ask for.

    Most only stand around what is new: "oops", "sorry for the typo", 打错了. They do where the follow-up names
    something new that the program has, or the program's new functions compute all ``quantities`` that a classifier has
    read in the follow-up. Words that point to earlier turns or that may be a name never do, and beside
    fewer names than before or a part of the last question's time they may say that something is added or left out.
    """
    program, former, asked = read.program, last.program, read.text
    unread = list_unread(program) if program is not None else []
    if program is None or former is None or not unread:
        return False
    if len(program.names) < len(former.names) or has_part(asked, last.text):
        return True
    pointing = " ".join(list_leaning(asked)).casefold()
    if program.gaps or any(one.casefold() in pointing or is_name_like(one, asked.text) for one in unread):
        return True
    has_new_functions = bool(program.functions - former.functions - SILENT)
    if has_new_functions and not set(quantities) <= list_measures(program):
        return True
    text = asked.text.casefold()
    has_new_words = any(words.casefold() in text for words in program.words if words not in former.words)
    return not (has_new_words or (has_new_functions and quantities))


def has_part(asked: ReadText, last: ReadText) -> bool:
    """Return whether a time of the follow-up is a part of one of the last question's."""
    new, old = ([span for slot in one.of(PERIOD) if (span := parse_period(slot.value))] for one in (asked, last))
    return any(one != span and span[0] <= one[0] and one[1] <= span[1] for one in new for span in old)


def is_name_like(words: str, text: str) -> bool:
    """Return whether unread words have a capital that they do not owe to the beginning of a sentence."""
    place = text.find(words)
    begins = place <= 0 or text[:place].rstrip().endswith((".", "!", "?", ":", ";"))
    return any(map(str.isupper, words[1:] if begins else words))


def list_unread(program: Program) -> list[str]:
    """Return the words of the follow-up that nothing accounts for: no step, and no function that is called so."""
    words = {node.text for node in program.nodes if isinstance(node, Word)}
    used = [*program.functions, *words, *list_phrases(program.functions)]
    return [one for one in program.unread if not is_around(one) and not any(is_within(one, text) for text in used)]


def is_within(words: str, text: str) -> bool:
    """Return whether a text has words: whole ones, or Chinese characters anywhere."""
    pattern = re.escape(words)
    return bool(re.search(pattern if HAN_WORD.search(words) else rf"\b{pattern}\b", text, re.IGNORECASE))


def carry(asked: ReadProgram, former: ReadProgram, chinese: bool) -> tuple[str, str]:
    """Return a follow-up with a program as the last question with other words, and as its program in words.

    ``asked`` and ``former`` are as for ``is_supported``. The first is "" for a program of another shape, the second for
    one of several calculations, which mostly repeat what was answered.
    """
    program, before = asked.program, former.program
    if program is None or before is None:
        return "", ""
    periods = {slot.text: slot.value for read in (former.text, asked.text) for slot in read.of(PERIOD)}
    pairs = pair_words(program, before) if program.shape == before.shape else {}
    exchanged = exchange_words(pairs, asked.text, former.text) if pairs else ""
    is_single = bool(pairs) or len(put_in_place(program.steps)) == 1
    return exchanged, write_question(program, chinese, periods) if is_single else ""


def takes_nothing(program: Program, former: Program, asked: ReadText) -> bool:
    """Return whether a follow-up says of what something is asked, and its program takes nothing from before."""
    text = asked.text.casefold()
    is_named = bool(asked.of(ENTITY) or any(not slot.is_measure for slot in asked.of(TOPIC)))
    is_own = is_named and all(words.casefold() in text for words in program.words)
    return is_own and (bool(asked.of(TOPIC) and asked.of(PERIOD)) or not program.functions & former.functions - SILENT)


def loses_side(program: Program, former: Program, leaning: Collection[str]) -> bool:
    """Return whether a program lacks what the follow-up compares with something or adds something to."""
    if not {ADDING, COMPARING} & set(leaning):
        return False
    return not set(former.words) <= set(program.words)


def is_likely(program: Program) -> bool:
    """Return whether a program is likely enough to be put into words."""
    return program.confidence >= CONFIDENCE and program.link_confidence >= LINK_CONFIDENCE


def covers(program: Program, former: Program, asked: ReadText) -> bool:
    """Return whether the program has the names, periods, figures and measures of the follow-up."""
    used = [words.casefold() for words in program.words]
    named = [slot for kinds in (ENTITY, PERIOD) for slot in asked.of(kinds)]
    named += [slot for slot in asked.of(TOPIC) if not slot.is_measure]
    lacking = [slot for slot in named if not any(is_part(slot.text.casefold(), words) for words in used)]
    measures = [slot for slot in asked.of(TOPIC) if slot.is_measure and not is_around(slot.text)]
    # The same words may be read as an indicator, which is looked for above, and as a measure.
    spans = {(slot.start, slot.end) for slot in named}
    answered = list_measures(program)
    lacking += [slot for slot in measures if (slot.start, slot.end) not in spans and not is_answered(slot, answered)]
    if lacking and not (len(lacking) == 1 and is_shift(program, former, lacking[0])):
        return False
    figures = {figure for words in used for figure in DIGITS.findall(words)}
    return set(DIGITS.findall(asked.text)) <= figures


def list_measures(program: Program) -> set[str]:
    """Return the functions of a program and the measures that they compute."""
    return {measure for name in program.functions for measure in (name, *METHODS.get(name, ()))}


def is_shift(program: Program, former: Program, slot: Slot) -> bool:
    """Return whether a program for the same names has the words as a shift of a time: "a year earlier", 去年.

    They are none of its words, and may have been read as growth.
    """
    is_shifted = bool(program.functions & SHIFTS) and set(program.names) <= set(former.names)
    return is_shifted and (slot.kind in PERIOD or slot.value == GROWTH)


def is_part(text: str, words: str) -> bool:
    """Return whether one of two texts holds the other."""
    return text in words or words in text


def is_answered(slot: Slot, answered: set[str]) -> bool:
    """Return whether a function computes a measure: "max_drawdown" is computed by ``drawdown``, too."""
    return slot.value in answered or any(part in answered for part in slot.value.split("_"))


def is_partial(program: Program, former: Program, asked: ReadText) -> bool:
    """Return whether some of the last question's names are dropped without a word."""
    text = asked.text.casefold()
    named = {name for name in former.names if GENITIVE.sub("", name).casefold() in text}
    kept = [name for name in former.names if name in program.names and name not in named]
    dropped = [name for name in former.names if name not in program.names and name not in named]
    return bool(kept) and bool(dropped or named & set(program.names))


def may_choose(program: Program, former: Program, asked: ReadText, leaning: Collection[str]) -> bool:
    """Return whether a program takes over several names or times, of which the follow-up's words may mean one."""
    text = asked.text.casefold()
    names = [name for name in former.names if name in program.names and GENITIVE.sub("", name).casefold() not in text]
    others = [words for words in dict.fromkeys(former.words) if words in program.words and DIGITS.search(words)]
    several = len(names) > 1 or len(others) > 1
    return several and (REFERRING in leaning or bool(list_rest(asked)))


def is_nested(program: Program, former: Program) -> bool:
    """Return whether a program asks again for the time that the last answer has found."""
    found = [step for step in former.steps if step.name in FINDING]
    return any(step in found for step in program.steps) or any(node in found for node in program.nodes)


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
        is_time = any(slot.kind in PERIOD for slot in text.slots if slot.start < spans[0][1] and spans[0][0] < slot.end)
        # A figure has no place where there was none: "2%" for the "ratio" of Sharpe's.
        if DIGITS.search(new) and not DIGITS.search(old) and not is_time:
            return ""
        start, end = narrow(spans[0], text, find_words(new, asked.text)[0], asked)
        if start == end:
            return ""
        text = replace_span(text, start, end, GENITIVE.sub("", new) + genitive(text.text[start:end]))
    return text.text


def are_placed_alike(pairs: Mapping[str, str], asked: ReadText, last: ReadText) -> bool:
    """Return whether the words that a program has instead stand behind the same words as those that they replace."""
    for old, new in pairs.items():
        here, there = find_words(new, asked.text), find_words(old, last.text)
        if here and there and not is_placed_alike(here[0][0], asked, there[0][0], last):
            return False
    return True


def are_times_alike(pairs: Mapping[str, str], asked: ReadText, last: ReadText) -> bool:
    """Return whether no part of a year gives way to a whole year: 2020 after "April 2010" may be that April."""
    for old, new in pairs.items():
        before = [slot for slot in last.of(PERIOD) if is_part(slot.text.casefold(), old.casefold())]
        after = [slot for slot in asked.of(PERIOD) if is_part(slot.text.casefold(), new.casefold())]
        if before and after and not is_as_long(after[0], before[0]):
            return False
    return True


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
