"""Names of earlier questions in the place of words that point to them: "the former", "their", 后者, 两者.

Of all words that lean on earlier turns only these say by themselves how many names they mean, and by their order which.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.domain.text.language import language_of
from fathom.services.planner.model.slots import ENTITY, PERIOD, ReadText, Slot
from fathom.services.planner.questions.exchanging import INDICATOR
from fathom.services.planner.questions.leaning import compile_kind, load_words
from fathom.services.planner.questions.phrasing import join_names

FIRST, SECOND, ALL = "first_of_two", "second_of_two", "all_names"


def name_referent(asked: ReadText, before: Sequence[ReadText]) -> str:
    """Return the follow-up with the names of earlier questions for the one word that points to them; "" without one.

    ``before`` are the earlier questions, each whole. "" also where it names something itself, and where there are not
    as many names as the word says.
    """
    found = [(kind, match) for kind in (FIRST, SECOND, ALL) for match in compile_kind(kind).finditer(asked.text)]
    if len(found) != 1 or not before:
        return ""
    kind, match = found[0]
    names = list_names(before) if kind != ALL else [slot.text for slot in before[-1].of(ENTITY)]
    # "Both" of two names in two years may be the years.
    if kind == ALL and (asked.of(ENTITY) or len(names) < 2 or len(before[-1].of(PERIOD)) > 1):
        return ""
    if kind != ALL and len(names) != 2:
        return ""
    chosen = {FIRST: names[:1], SECOND: names[1:], ALL: names}[kind]
    words = join_names(chosen, language_of(asked.text) == "zh")
    if match.group().casefold() in load_words()["possessive"]["en"]:
        words += "'s"
    return asked.text[: match.start()] + words + asked.text[match.end() :]


def list_names(before: Sequence[ReadText]) -> list[str]:
    """Return what the last question names, in its order; where that is one thing, with the one of the turn before."""
    here = find_subjects(before[-1])
    if len(here) == 1 and len(before) > 1:
        earlier = find_subjects(before[-2])
        here = (*earlier, *here) if len(earlier) == 1 and earlier[0].value != here[0].value else here
    return [slot.text for slot in here]


def find_subjects(read: ReadText) -> tuple[Slot, ...]:
    """Return what a question is about: its things, or where it names fewer than two of them its indicators."""
    things, indicators = read.of(ENTITY), read.of(INDICATOR)
    return things if len(things) > 1 or not indicators else indicators
