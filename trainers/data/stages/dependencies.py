"""Lint of a plan's first round: sub-questions that need the result of another one before they can be asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

import yaml

from fathom.trainers.data.stages.record import SubQuery

# The tool that looks up figures by name, as plans call it.
DATA = "data"


@dataclass(frozen=True)
class Dependent:
    """A sub-question that is asked too early: its place in the plan, and the words whose meaning is not known yet."""

    place: int
    words: str


def find_dependent(queries: Sequence[SubQuery]) -> list[Dependent]:
    """Return the sub-questions whose subject is an unresolved reference.

    A look-up of figures needs names: "Apple's competitors" are none, whoever they are. A search may ask who they are,
    but no sub-question is understood by itself when it points to the result of another ("their margins"). It does not
    matter whether the plan also asks who they are: all of a round is sent at once.
    """
    found = []
    for place, query in enumerate(queries):
        words = find_words(query.subquery, "pointers")
        if not words and query.tool == DATA:
            words = find_words(query.subquery, "relations")
        if words:
            found.append(Dependent(place, words))
    return found


def find_words(text: str, kind: str) -> str:
    """Return the first words of a kind in the text; "" without any."""
    match = load_patterns()[kind].search(text)
    return match.group() if match else ""


@cache
def load_patterns() -> Mapping[str, re.Pattern[str]]:
    """Return a pattern per kind of words; English ones match whole words in singular and plural."""
    file = resources.files("fathom.trainers.data.stages").joinpath("relations.yaml")
    words = yaml.safe_load(file.read_text(encoding="utf-8"))
    return MappingProxyType(
        {
            kind: re.compile(
                # Chinese words have no boundaries to look for: they count wherever they stand.
                "|".join([*(rf"\b{inflect(word)}\b" for word in both["en"]), *map(re.escape, both["zh"])]),
                re.IGNORECASE,
            )
            for kind, both in words.items()
        }
    )


def inflect(word: str) -> str:
    """Return a pattern of an English noun and its plural."""
    stem, last = re.escape(word[:-1]), word[-1]
    return rf"{stem}(?:y|ies)" if last == "y" else rf"{stem}{re.escape(last)}(?:e?s)?"
