"""Other ways to write a question: look-alike characters, words as people speak, terms of the other language.

Names in Latin script, that is words with a capital letter or a digit, and numbers are never changed.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

import yaml

Operator = Callable[[str, float, random.Random], str]
# A word of small letters alone: names have capitals, tickers and quarters have capitals or digits.
PLAIN_WORD = re.compile(r"(?<![A-Za-z0-9])[a-z]{3,}(?![A-Za-z0-9])")


@cache
def load_variants() -> Mapping[str, Any]:
    """Return the groups of shapes, the pairs of letters, the spoken forms and the terms in both languages."""
    text = resources.files("fathom.trainers.data.queries").joinpath("variants.yaml").read_text("utf-8")
    loaded: Mapping[str, Any] = yaml.safe_load(text)
    return loaded


@cache
def list_shapes() -> Mapping[str, str]:
    """Return the characters that look like each character."""
    others: dict[str, str] = defaultdict(str)
    for group in load_variants()["shapes"]:
        for letter in group:
            others[letter] += group.replace(letter, "")
    return MappingProxyType(others)


@cache
def list_spoken() -> Mapping[str, str]:
    """Return the spoken forms by the written ones, of both languages."""
    spoken = load_variants()["spoken"]
    return MappingProxyType({**spoken["en"], **spoken["zh"]})


@cache
def list_terms() -> Mapping[str, str]:
    """Return the term of the other language by each term."""
    pairs = load_variants()["terms"]
    there, back = ({pair[one]: pair[other] for pair in pairs} for one, other in (("en", "zh"), ("zh", "en")))
    return MappingProxyType({**there, **back})


def look_alike(text: str, rate: float, draws: random.Random) -> str:
    """Replace characters by others of nearly the same shape, as scans and hasty readers do."""
    shapes = list_shapes()
    found = [draws.choice(shapes[letter]) if letter in shapes and draws.random() < rate else letter for letter in text]
    return PLAIN_WORD.sub(lambda word: blur_word(word.group(), rate, draws), "".join(found))


def blur_word(word: str, rate: float, draws: random.Random) -> str:
    """Replace one pair of look-alike letters of a word, or none."""
    fitting = [(one, other) for one, other in load_variants()["letters"] if one in word]
    if not fitting or draws.random() >= rate:
        return word
    one, other = draws.choice(fitting)
    return word.replace(one, other, 1)


def speak(text: str, rate: float, draws: random.Random) -> str:
    """Write words as people say them."""
    return replace_phrases(text, list_spoken(), rate, draws)


def switch_language(text: str, rate: float, draws: random.Random) -> str:
    """Write terms in the other language, as people who work in both do."""
    return replace_phrases(text, list_terms(), rate, draws)


def replace_phrases(text: str, forms: Mapping[str, str], rate: float, draws: random.Random) -> str:
    """Replace whole phrases by their other forms, each with a chance of ``rate``; a capital at its beginning stays."""

    def choose(found: re.Match[str]) -> str:
        form = forms[found.group().lower()]
        if draws.random() >= rate:
            return found.group()
        return form[:1].upper() + form[1:] if found.group()[:1].isupper() else form

    return match_phrases(tuple(forms)).sub(choose, text)


@cache
def match_phrases(phrases: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern of whole phrases, the longest first; Chinese ones may stand within any text."""
    ordered = sorted(phrases, key=len, reverse=True)
    # A boundary where the phrase itself begins or ends with a Latin letter, so that "return" is not found in "returns".
    parts = [
        (r"(?<![A-Za-z0-9])" if one[0].isascii() else "")
        + re.escape(one)
        + (r"(?![A-Za-z0-9])" if one[-1].isascii() else "")
        for one in ordered
    ]
    return re.compile("|".join(parts), re.IGNORECASE)


def change_around(text: str, names: Sequence[str], operator: Operator, rate: float, draws: random.Random) -> str:
    """Return the text with an operator's changes in all of it but the names."""
    if not names:
        return operator(text, rate, draws)
    pieces, at = list[str](), 0
    for found in match_phrases(tuple(names)).finditer(text):
        pieces += [operator(text[at : found.start()], rate, draws), found.group()]
        at = found.end()
    return "".join([*pieces, operator(text[at:], rate, draws)])
