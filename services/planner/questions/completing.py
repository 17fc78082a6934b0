"""A follow-up as a whole question without a language model, and whether that is sure or one of several guesses."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fathom.domain.programs.resolved import CALCULATION
from fathom.domain.text.language import language_of
from fathom.services.planner.model.programs import Program, ReadProgram
from fathom.services.planner.model.slots import ENTITY, PERIOD, TOPIC, UNKNOWN, ReadText
from fathom.services.planner.questions.carrying import carry, takes_nothing
from fathom.services.planner.questions.exchanging import exchange_slots, is_as_long
from fathom.services.planner.questions.leaning import find_leaning
from fathom.services.planner.questions.phrasing import add_in_brackets, join_names
from fathom.services.planner.questions.wording import write_question

SLOTS, PROGRAM = "slots", "program"
# Several candidates are worth a choice, a long list of them is not.
MAX_OPTIONS = 4


@dataclass(frozen=True)
class Completed:
    """A question made whole by ``method``, "" for one that is whole as it stands.

    Without ``is_sure`` it is a guess, and ``options`` are the questions that may be meant.
    """

    text: str
    method: str = ""
    is_sure: bool = True
    options: tuple[str, ...] = ()


def complete_by_slots(asked: ReadText, last: ReadText) -> Completed | None:
    """Return a follow-up that is whole as it stands or only exchanges what ``last`` names; None for any other.

    ``last`` is the question before it, itself whole.
    """
    if find_leaning(asked):
        return None
    if is_whole(asked):
        return Completed(asked.text)
    text = exchange_slots(asked, last)
    return Completed(text, SLOTS) if text else None


def complete_by_program(
    asked: ReadText,
    last: ReadText,
    program: ReadProgram | None,
    former: ReadProgram | None,
    *,
    is_drawn: bool = False,
    is_own: bool = False,
) -> Completed:
    """Return a follow-up as its program says, as it stands where that takes nothing from before, else a guess.

    ``program`` is the follow-up read behind the earlier questions and ``former`` the last one by itself, None where
    they cannot be read. ``is_drawn`` says that a chart is asked for, of which programs know nothing, and ``is_own``
    that the follow-up sounds like one to the assistant itself.
    """
    leaning = find_leaning(asked)
    chinese = "zh" in (language_of(asked.text), language_of(last.text))
    meant, before = (one.program if one is not None else None for one in (program, former))
    is_talk = is_own and not is_drawn and not asked.of(ENTITY + TOPIC) and not takes_words(meant, asked)
    if is_talk or (not leaning and meant and before and takes_nothing(meant, before, asked)):
        return Completed(asked.text)
    if program is not None and former is not None and not is_drawn:
        text = carry(replace(program, text=asked), former, leaning, chinese)
        if text:
            return Completed(text, PROGRAM)
    guess, *others = list_options(asked, last, program, chinese)
    # The follow-up as it stands is no choice.
    options = tuple(text for text in (guess, *others) if text != asked.text)
    return Completed(guess, SLOTS, is_sure=False, options=options)


def complete_names(made: Completed, asked: ReadText, last: ReadText) -> Completed | None:
    """Return a follow-up whose pronoun has been replaced by names as a whole question, None where that is not sure.

    ``made`` is what it is by its slots or its program. Where these are unsure it stands with its own words and with
    what it lacks of the last question, as far as that is one thing: no words that still lean on it, and a time of its
    own or no words that nothing is known of, which might be one.
    """
    if made.is_sure:
        return Completed(made.text, SLOTS)
    topics, periods, own = last.of(TOPIC), last.of(PERIOD), asked.of(PERIOD)
    has_topic = bool(asked.of(TOPIC) or asked.of(UNKNOWN))
    if find_leaning(asked) or len(periods) != 1 or not (own or not asked.of(UNKNOWN)):
        return None
    # A day after a year may be the end of a time that began in it.
    if own and not all(is_as_long(slot, periods[0]) for slot in own):
        return None
    if not has_topic and len(topics) != 1:
        return None
    parts = [*(() if has_topic else (topics[0].text,)), *(() if own else (periods[0].text,))]
    chinese = "zh" in (language_of(asked.text), language_of(last.text))
    return Completed(add_in_brackets(asked.text, parts, chinese), SLOTS)


def takes_words(program: Program | None, asked: ReadText) -> bool:
    """Return whether a program computes something with words of the follow-up: "vegas" behind house prices of Miami."""
    if program is None or program.kind != CALCULATION:
        return False
    return any(words.casefold() in asked.text.casefold() for words in program.words)


def is_whole(asked: ReadText) -> bool:
    """Return whether a question says of what, what and when."""
    is_named = bool(asked.of(ENTITY)) or any(not slot.is_measure for slot in asked.of(TOPIC))
    return is_named and bool(asked.of(TOPIC) and asked.of(PERIOD))


def list_options(asked: ReadText, last: ReadText, program: ReadProgram | None, chinese: bool) -> tuple[str, ...]:
    """Return the questions that a follow-up may mean, the likeliest first.

    These are the follow-up with what it lacks of the last question, for each of its names where there are several, and
    its program in words.
    """
    lacking = [
        join_names([slot.text for slot in last.of(kinds)], chinese) for kinds in (TOPIC, PERIOD) if not asked.of(kinds)
    ]
    names = [] if asked.of(ENTITY) else [slot.text for slot in last.of(ENTITY)]
    subjects = [join_names(names, chinese), *(names if len(names) > 1 else [])]
    texts = [add_in_brackets(asked.text, [part for part in (one, *lacking) if part], chinese) for one in subjects]
    meant = write_question(program.program, chinese) if program is not None and program.program is not None else ""
    return tuple(dict.fromkeys(filter(None, [*texts[:1], meant, *texts[1:]])))[:MAX_OPTIONS]


def has_data(read: ReadText) -> bool:
    """Return whether a text names anything that there are data of, unlike a greeting."""
    return any(slot.kind not in UNKNOWN for slot in read.slots)
