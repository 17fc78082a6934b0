"""Words of a follow-up that refer to earlier turns, from the closed class in ``references.yaml``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from fathom.domain.text.scripts import HAN
from fathom.services.planner.questions.slots import UNKNOWN, ReadText

FILE = Path(__file__).parent / "references.yaml"
ONE, SEVERAL, FORMER, LATTER, STATEMENT = "one", "several", "former", "latter", "statement"
COMPARED = "compared"
SAME, NEXT, PREVIOUS, AROUND = "same_period", "next_period", "previous_period", "around"
KINDS = (ONE, SEVERAL, FORMER, LATTER, STATEMENT, COMPARED, SAME, NEXT, PREVIOUS)
# "its margin", 它的毛利率: what follows tells that the name must be in the genitive.
GENITIVE = frozenset({"its", "their", "his", "her"})
WORD = re.compile(rf"[a-z0-9]+|[{HAN}]+", re.IGNORECASE)


@dataclass(frozen=True)
class Reference:
    """Referring words of a text from ``start`` to ``end``."""

    kind: str
    start: int
    end: int
    text: str

    @property
    def is_genitive(self) -> bool:
        """Return whether the words are an English possessive."""
        return self.text.lower() in GENITIVE


@cache
def load_words() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the words by kind and language."""
    data: Mapping[str, Mapping[str, Sequence[str]]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return data


@cache
def compile_kind(kind: str) -> re.Pattern[str]:
    """Return a pattern of the words of a kind, the longest first."""
    words = load_words()[kind]
    english = "|".join(re.escape(word) for word in sorted(words["en"], key=len, reverse=True))
    chinese = "|".join(re.escape(word) for word in sorted(words["zh"], key=len, reverse=True))
    return re.compile(rf"\b(?:{english})\b|(?:{chinese})", re.IGNORECASE)


def find_references(question: ReadText) -> list[Reference]:
    """Return the referring words in order, none inside a slot; of overlapping ones the longest."""
    taken = [(slot.start, slot.end) for slot in question.slots if slot.kind != UNKNOWN]
    found = [
        Reference(kind, match.start(), match.end(), match.group())
        for kind in KINDS
        for match in compile_kind(kind).finditer(question.text)
    ]
    kept: list[Reference] = []
    for one in sorted(found, key=lambda one: (one.start - one.end, one.start)):
        if all(one.end <= start or one.start >= end for start, end in taken):
            kept.append(one)
            taken.append((one.start, one.end))
    return sorted(kept, key=lambda one: one.start)


def list_rest(question: ReadText) -> list[str]:
    """Return the words that neither belong to a slot nor stand around the new part of a follow-up."""
    text = list(question.text)
    for slot in question.slots:
        if slot.kind != UNKNOWN:
            text[slot.start : slot.end] = " " * (slot.end - slot.start)
    plain = "".join(text)
    plain = compile_kind(AROUND).sub(" ", plain)
    return WORD.findall(plain)
