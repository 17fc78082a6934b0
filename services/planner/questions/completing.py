"""A follow-up as a whole question without a language model, and whether that is sure or one of several guesses."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fathom.domain.programs.resolved import CALCULATION
from fathom.domain.text.language import language_of
from fathom.services.planner.model.programs import Program, ReadProgram
from fathom.services.planner.model.slots import ENTITY, PERIOD, TOPIC, UNKNOWN, ReadText
from fathom.services.planner.questions.carrying import carry, is_likely, is_supported, list_unread, takes_nothing
from fathom.services.planner.questions.exchanging import Exchange, exchange_meaning, exchange_slots, is_as_long
from fathom.services.planner.questions.leaning import find_leaning
from fathom.services.planner.questions.periods import resolve_shifts
from fathom.services.planner.questions.phrasing import add_in_brackets, join_names
from fathom.services.planner.questions.wording import write_question

SLOTS, PROGRAM = "slots", "program"
# Several candidates are worth a choice, a long list of them is not.
MAX_OPTIONS = 4


@dataclass(frozen=True)
class Completed:
    """A question made whole by ``method``, "" for one that is whole as it stands.

    Without ``is_sure`` it is a guess, ``options`` are the questions that may be meant, and ``unclear`` the words that
    were not understood, "" for the whole of it.
    """

    text: str
    method: str = ""
    is_sure: bool = True
    options: tuple[str, ...] = ()
    unclear: str = ""


@dataclass(frozen=True)
class FollowUp:
    """A follow-up as it was read, behind the last question, which is whole.

    ``program`` is that of the follow-up read behind the earlier questions and ``former`` that of the last one by
    itself, None where they cannot be read. ``is_drawn`` says that a chart is asked for, of which programs know nothing,
    ``is_own`` that the follow-up sounds like one to the assistant itself, and ``quantities`` are what a classifier
    reads that it asks for.
    """

    asked: ReadText
    last: ReadText
    program: ReadProgram | None = None
    former: ReadProgram | None = None
    is_drawn: bool = False
    is_own: bool = False
    quantities: tuple[str, ...] = ()

    @property
    def own_program(self) -> Program | None:
        """Return the program of the follow-up, None without one."""
        return self.program.program if self.program is not None else None

    @property
    def former_program(self) -> Program | None:
        """Return the program of the last question, None without one."""
        return self.former.program if self.former is not None else None

    @property
    def is_chinese(self) -> bool:
        """Return whether the follow-up or the last question is Chinese."""
        return "zh" in (language_of(self.asked.text), language_of(self.last.text))


@dataclass(frozen=True)
class Candidate:
    """A question that a follow-up may mean, by an exchange of slots or, without one, by its program."""

    text: str
    method: str
    exchange: Exchange | None = None


def is_complete(asked: ReadText) -> bool:
    """Return whether a question says of what, what and when, and leans on nothing."""
    is_named = bool(asked.of(ENTITY)) or any(not slot.is_measure for slot in asked.of(TOPIC))
    return is_named and bool(asked.of(TOPIC) and asked.of(PERIOD)) and not find_leaning(asked)


def stands_alone(read: FollowUp) -> bool:
    """Return whether a follow-up is meant as it stands: it is said to the assistant, or takes nothing from before."""
    asked, meant = read.asked, read.own_program
    if read.is_own and not read.is_drawn and not asked.of(ENTITY + TOPIC):
        # A calculation may be read into small talk, but one with something of its own is none.
        return meant is None or meant.kind != CALCULATION or not (asks_anew(read) or asked.slots)
    before = read.former_program
    return bool(meant and before and not find_leaning(asked) and takes_nothing(meant, before, asked))


def asks_anew(read: FollowUp) -> bool:
    """Return whether the program of a follow-up computes something else than the last question did."""
    before = read.former_program
    return read.own_program is not None and (before is None or read.own_program.meaning != before.meaning)


def list_candidates(read: FollowUp) -> tuple[Candidate, ...]:
    """Return the questions that a follow-up may mean, those in the words of the user first."""
    exchanged = exchange_slots(read.asked, read.last)
    found = [Candidate(exchanged.text, SLOTS, exchanged)] if exchanged is not None else []
    if read.program is not None and read.former is not None and is_supported_by(read):
        by_program, in_words = carry(replace(read.program, text=read.asked), read.former, read.is_chinese)
        found += [Candidate(by_program, PROGRAM), Candidate(in_words, PROGRAM)]
        found.append(Candidate(list_options(read.asked, read.last, None, read.is_chinese)[0], SLOTS))
    return tuple(one for one in found if one.text and one.text != read.asked.text)


def is_supported_by(read: FollowUp) -> bool:
    """Return whether the program of a follow-up says surely what it takes from the last question."""
    if read.program is None or read.former is None or read.is_drawn:
        return False
    return is_supported(replace(read.program, text=read.asked), read.former, find_leaning(read.asked), read.quantities)


def is_confirmed(candidate: Candidate, read: FollowUp, alone: ReadProgram | None) -> bool:
    """Return whether a candidate, read by itself as ``alone``, asks for what the follow-up surely asks for.

    It computes what the follow-up computes behind the earlier questions, and says of what as the last question did. An
    exchange of two names that both are said, or one by a follow-up whose program says nothing of it, has to compute
    what the last question did, of the other thing.
    """
    meant, made, exchange = read.own_program, alone.program if alone is not None else None, candidate.exchange
    if exchange is not None and (exchange.is_explicit or not speaks_of(exchange, read)):
        before = read.former_program
        if before is None:
            # Nothing computes the last question either, so that its words are all there is.
            return not find_leaning(read.asked)
        expected = exchange_meaning(before.resolved, exchange.pairs)
        return made is not None and bool(expected) and made.resolved == expected
    if meant is None or alone is None or made is None or made.kind != CALCULATION:
        return False
    # "A year after 2020" and 2021 are the same.
    if [*map(resolve_shifts, made.meaning)] != [*map(resolve_shifts, meant.meaning)]:
        return False
    if not is_supported_by(read):
        return False
    is_whole = candidate.method == PROGRAM or not made.left_out
    return exchange is not None or (is_likely(meant) and is_whole and keeps_topics(read, alone))


def speaks_of(exchange: Exchange, read: FollowUp) -> bool:
    """Return whether the follow-up's program computes anything with what is exchanged."""
    if read.own_program is None or read.own_program.kind != CALCULATION or not asks_anew(read):
        return False
    return not any(new.text in words for _, new in exchange.pairs for words in read.own_program.left_out)


def keeps_topics(read: FollowUp, alone: ReadProgram) -> bool:
    """Return whether a candidate that repeats the last calculation also says of what, as the last question did."""
    before = read.former_program
    if read.own_program is None or before is None or read.own_program.functions != before.functions:
        return True
    if read.asked.of(TOPIC) or read.asked.of(UNKNOWN):
        return True
    return {slot.value for slot in read.last.of(TOPIC)} <= {slot.value for slot in alone.text.of(TOPIC)}


def guess(read: FollowUp) -> Completed:
    """Return the likeliest of the questions that a follow-up may mean, with all of them."""
    best, *others = list_options(read.asked, read.last, read.program, read.is_chinese)
    # The follow-up as it stands is no choice.
    options = tuple(text for text in (best, *others) if text != read.asked.text)
    unclear = [*list_unread(read.own_program), *read.own_program.left_out] if read.own_program is not None else []
    said = [words for words in unclear if words in read.asked.text]
    return Completed(best, SLOTS, is_sure=False, options=options, unclear=", ".join(dict.fromkeys(said)))


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
