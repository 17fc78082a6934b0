"""Words of a query that no name has: what they ask for may not be in the catalogue."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.domain.text.stop_words import FUNCTION_WORDS
from fathom.services.datafetch.catalog.matching import STOP, WORD, grams, stem
from fathom.services.datafetch.catalog.text import CJK, normal

# Digits alone are years and counts, which no name need have.
NUMBER = re.compile(r"\d+")


def split_words(text: str) -> list[str]:
    """Return the words of a text that carry meaning: Latin words, and runs of Chinese characters, in order."""
    found: list[str] = []
    for run in WORD.findall(normal(text)):
        if CJK.match(run):
            found += [part for part in re.split(f"[{''.join(c for c in STOP if CJK.match(c))}]", run) if part]
        elif run not in FUNCTION_WORDS and run not in STOP and not NUMBER.fullmatch(run):
            found.append(run)
    return found


def find_unmatched(text: str, rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the words of a query that none of the best rows has in its names; all words without rows.

    ``rows`` holds the names of each row. The best rows are those that have most of the words: one that has only
    "Japanese" does not vouch for a query about Japanese prices when others have the prices.
    """
    words = split_words(text)
    covered = [cover(words, names) for names in rows]
    most = max((sum(found) for found in covered), default=0)
    best = [found for found in covered if sum(found) == most and most]
    kept = [any(found[at] for found in best) for at in range(len(units(words)))]
    return tuple(dict.fromkeys(join_uncovered(words, kept)))


def units(words: Sequence[str]) -> list[tuple[int, str]]:
    """Return what is looked up: Latin words whole, Chinese ones by character, with the number of their word."""
    return [(at, unit) for at, word in enumerate(words) for unit in (word if CJK.match(word) else [word])]


def cover(words: Sequence[str], names: Sequence[str]) -> list[bool]:
    """Return for each unit whether a name has it: a Latin word by its stem, a character within a pair of the word."""
    known = {gram for name in names for gram in grams(name)}
    found: list[bool] = []
    for word in words:
        if not CJK.match(word):
            # The stem of "prices" is cut shorter than that of "price".
            found.append(stem(word) in known or stem(word.removesuffix("s")) in known)
            continue
        # A single character is in too many names; two in a row are not.
        pairs = [word[at : at + 2] in known for at in range(len(word) - 1)] or [f"c{word}" in known]
        found += [any(pairs[max(at - 1, 0) : at + 1]) for at in range(len(word))]
    return found


def join_uncovered(words: Sequence[str], kept: Sequence[bool]) -> list[str]:
    """Return the words, and the parts of Chinese words, that are not covered."""
    found: list[str] = []
    last = -1
    for at, (word, unit) in enumerate(units(words)):
        if kept[at]:
            last = -1
        elif last == word and CJK.match(unit):
            found[-1] += unit
        else:
            found.append(unit)
            last = word
    # A character that is left over between two names says nothing by itself.
    return [word for word in found if len(word) > 1 or not CJK.match(word)]
