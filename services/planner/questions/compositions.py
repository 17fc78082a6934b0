"""Names that a follow-up gives in part: "headline?" after core CPI, "now the value one" after the momentum ETF.

The part is set before every end of a name of the last question; the phrase that the reader of the data knows is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fathom.domain.text.scripts import HAN_CHARACTER
from fathom.services.planner.model.slots import ENTITY, PERIOD, TOPIC, UNKNOWN, ReadText, Slot
from fathom.services.planner.questions.phrasing import replace_span
from fathom.services.planner.questions.references import find_references, mask_known

# A part of a name is short, and each candidate is read.
PART_CHARS, MAX_PHRASES = 24, 12
ONES = re.compile(r"\bones?\b|的$", re.IGNORECASE)


@dataclass(frozen=True)
class Phrase:
    """A candidate for a name of the last question, ``slot``."""

    text: str
    slot: Slot


def list_phrases(question: ReadText, last: ReadText) -> list[Phrase]:
    """Return the candidates, those that keep most of the name first; [] for a follow-up that says more than a part."""
    part = ONES.sub(" ", mask_known(question, (), PERIOD)).strip(" ,.?!，。？！")
    # "Versus the two-year" keeps the other name.
    is_part = 1 < len(part) <= PART_CHARS and "  " not in part and not find_references(question)
    names = [slot for slot in last.slots if slot.kind in ENTITY + TOPIC and not slot.is_measure]
    is_known = any(slot.kind in ENTITY and slot.text.casefold() == part.casefold() for slot in question.slots)
    if not is_part or is_known:
        return []
    phrases = [Phrase(text, slot) for slot in names for text in put_before(part, slot.text)]
    return sorted(phrases, key=lambda one: -len(one.text))[:MAX_PHRASES]


def put_before(part: str, name: str) -> Iterator[str]:
    """Yield the part before the whole name and before each of its ends."""
    if HAN_CHARACTER.search(name):
        yield from (part + name[start:] for start in range(len(name)))
    else:
        words = name.split()
        yield from (" ".join([part, *words[start:]]) for start in range(len(words)))


def choose_phrase(phrases: Sequence[Phrase], read: Sequence[ReadText | None]) -> Phrase | None:
    """Return the first candidate that names, as a whole, something else of the same kind; None without one."""
    for phrase, text in zip(phrases, read, strict=True):
        if text is None or any(slot.kind in UNKNOWN for slot in text.slots):
            continue
        found = [slot for slot in text.slots if slot.kind is phrase.slot.kind]
        if len(found) == 1 and found[0].value != phrase.slot.value and len(found[0].text) == len(phrase.text):
            return phrase
    return None


def put_in_place(phrase: Phrase, last: ReadText) -> str:
    """Return the last question with the phrase for the name."""
    return replace_span(last, phrase.slot.start, phrase.slot.end, phrase.text).text
