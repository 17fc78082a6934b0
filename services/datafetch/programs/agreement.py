"""Series that the reading by rules finds for words of a question, which make a link of the learned reader surer.

The two readings have nothing in common: where both name the same series, its probability alone says too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.services.datafetch.parser.mention import Mention, MentionKind, select
from fathom.services.datafetch.programs.catalogue import HOME, Entry

# Probability of a link that both readings make. What a name beside the words may mean ("in Texas") is still open.
AGREED = 0.75


@dataclass(frozen=True)
class NamedWords:
    """Words of a question that are exactly the name of one series: whose it is and what it measures."""

    words: str
    entity: str
    indicator: str


def list_named(question: str, mentions: Sequence[Mention]) -> tuple[NamedWords, ...]:
    """Return the words that name a series of the economy and leave no choice."""
    exact = [one for one in select(mentions, MentionKind.INDICATOR) if one.how == "exact" and not one.others]
    return tuple(NamedWords(question[one.start : one.end].casefold(), HOME, one.value) for one in exact)


def find_named(text: str, named: Sequence[NamedWords]) -> NamedWords | None:
    """Return the one series that words of a program's series name; None for none and for several."""
    found = {(one.entity, one.indicator): one for one in named if one.words in text.casefold()}
    return next(iter(found.values())) if len(found) == 1 else None


def is_same(named: NamedWords | None, entry: Entry) -> bool:
    """Return whether an entry is the series that words name."""
    return named is not None and (named.entity, named.indicator) == (entry.entity, entry.indicator)
