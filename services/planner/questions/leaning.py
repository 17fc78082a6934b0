"""Words by which a follow-up leans on earlier turns, from the closed classes in ``follow_up_words.yaml``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import yaml

from fathom.domain.text.scripts import HAN
from fathom.services.planner.model.slots import ENTITY, UNKNOWN, Kinds, ReadText

FILE = Path(__file__).parent / "follow_up_words.yaml"
REFERRING, ADDING, COMPARING, REMOVING = "referring", "adding", "comparing", "removing"
LEANING = (REFERRING, ADDING, COMPARING, REMOVING)
NEUTRAL, AROUND, REPLACING = "neutral", "around", "replacing"
WORD = re.compile(rf"[a-z0-9]+|[{HAN}]+", re.IGNORECASE)


@cache
def load_words() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the words by kind and language."""
    data: Mapping[str, Mapping[str, Sequence[str]]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return data


@cache
def compile_kind(kind: str) -> re.Pattern[str]:
    """Return a pattern of the words of a kind, the longest first."""
    english, chinese = (
        "|".join(re.escape(word) for word in sorted(load_words()[kind][language], key=len, reverse=True))
        for language in ("en", "zh")
    )
    return re.compile(rf"\b(?:{english})\b|(?:{chinese})", re.IGNORECASE)


def find_leaning(question: ReadText) -> frozenset[str]:
    """Return the kinds of words by which a question leans on earlier turns, outside of its names."""
    text = compile_kind(NEUTRAL).sub(" ", mask_slots(question, ENTITY))
    return frozenset(kind for kind in LEANING if compile_kind(kind).search(text))


def list_leaning(question: ReadText) -> list[str]:
    """Return the words by which a question leans on earlier turns, outside of its names."""
    text = compile_kind(NEUTRAL).sub(" ", mask_slots(question, ENTITY))
    return [match.group() for kind in LEANING for match in compile_kind(kind).finditer(text)]


def list_rest(question: ReadText) -> list[str]:
    """Return the words that neither belong to a slot nor stand around the new part of a follow-up or replace by it."""
    return WORD.findall(compile_kind(AROUND).sub(" ", compile_kind(REPLACING).sub(" ", mask_slots(question))))


def is_around(words: str) -> bool:
    """Return whether words only stand around the new part of a follow-up: "now" is no last value."""
    return not compile_kind(AROUND).sub("", words).strip()


def mask_slots(question: ReadText, kinds: Kinds = ()) -> str:
    """Return the text with blanks for its slots of some kinds, by default for all that is known."""
    text = list(question.text)
    for slot in question.slots:
        if slot.kind in kinds if kinds else slot.kind not in UNKNOWN:
            text[slot.start : slot.end] = " " * (slot.end - slot.start)
    return "".join(text)
