"""Statistics that a question asks of a user's own tables: the mean, the median, the sum, the highest or the lowest."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fathom.domain.text.terms import list_words
from fathom.services.datafetch.parser import lexicon

MEAN, MEDIAN, SUM, MAX, MIN, EXTREME = "mean", "median", "sum", "max", "min", "extreme"
CUED = (MEAN, SUM, MAX, MIN)


def list_asked(text: str) -> Iterator[tuple[str, str]]:
    """Yield the statistics that words of a text ask for, each with its words."""
    for name in CUED:
        yield from ((name, found[0]) for found in lexicon.cues("statistics")[name].finditer(text))
    for one in lexicon.find_terms(text.lower()):
        words = text[one.start : one.end]
        if one.value == MEDIAN:
            yield MEDIAN, words
        elif one.value == EXTREME:
            yield MIN if lexicon.says("lowest", words) else MAX, words


def list_asking_terms(text: str) -> frozenset[str]:
    """Return the terms of a text that ask for a statistic."""
    return frozenset(term for _, words in list_asked(text) for term in list_words(words))


def find_statistics(question: str, names: Collection[str]) -> frozenset[str]:
    """Return the statistics that a question asks for outside names of columns.

    ``names`` are the terms of those names: an "average salary" asks for no mean.
    """
    return frozenset(name for name, words in list_asked(question) if not set(list_words(words) or [words]) <= {*names})
