"""Mentions: words of a question with what they mean, and the choice between overlapping ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby

from fathom.services.datafetch.query.model import Match


class MentionKind(StrEnum):
    """The kinds of the contract's ``MentionKind``, by the names of its values without their prefix."""

    ENTITY = "ENTITY"
    INDICATOR = "INDICATOR"
    PERIOD = "PERIOD"
    FREQUENCY = "FREQUENCY"
    MEASURE = "MEASURE"
    CONDITION = "CONDITION"
    PARAMETER = "PARAMETER"
    OUTPUT = "OUTPUT"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Mention:
    """Words of a question: ``start`` and ``end`` are character positions, ``value`` is the canonical meaning.

    ``confidence`` is 1 for words that leave no choice, less for likeness, and 0 for unknown words. ``how`` says how a
    name was found: ``exact``, ``short`` (no legal form), ``sound`` (pinyin or homophones), ``typo``, ``near``,
    ``ngram``, ``words`` (of a name, apart or some of them) or ``group`` (a member of it); ``others`` are the further
    meanings of an ambiguous name. ``meaning`` is the parsed form of a condition, grouping or ranking.
    """

    kind: MentionKind
    start: int
    end: int
    value: str
    confidence: float = 1.0
    how: str = field(default="exact", compare=False)
    others: tuple[str, ...] = field(default=(), compare=False)
    meaning: object = field(default=None, compare=False)

    @property
    def ids(self) -> tuple[str, ...]:
        """Return all meanings of a name, the chosen one first."""
        return (self.value, *self.others)

    @property
    def span(self) -> tuple[int, int]:
        """Return the positions of the first character and behind the last one."""
        return self.start, self.end


def select(mentions: Iterable[Mention], *kinds: MentionKind) -> list[Mention]:
    """Return the mentions of some kinds."""
    return [item for item in mentions if item.kind in kinds]


def is_free(mention: Mention, others: Iterable[Mention]) -> bool:
    """Return whether a mention overlaps none of the others."""
    return all(mention.end <= other.start or mention.start >= other.end for other in others)


def overlap(span: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two stretches of a text have a character in common."""
    return span[0] < other[1] and other[0] < span[1]


def list_matches(text: str, mentions: Iterable[Mention]) -> list[Match]:
    """Return how each name of a question was read."""
    return [
        Match(text[item.start : item.end], item.value, item.confidence, item.how, item.others[:5])
        for item in mentions
        if item.kind in (MentionKind.ENTITY, MentionKind.INDICATOR) and item.end
    ]


def resolve_overlaps(mentions: Iterable[Mention]) -> list[Mention]:
    """Return the mentions in their order, of overlapping ones the longest, then the most confident, then the first.

    Several mentions of exactly the same words are all returned: "worst month" is a measure and a frequency.
    """
    taken: list[Mention] = []
    spans: list[tuple[int, int]] = []
    ranked = sorted(enumerate(mentions), key=lambda item: (item[1].start - item[1].end, -item[1].confidence, item[0]))
    for _, mention in ranked:
        span = mention.span
        same = [other for other in taken if other.span == span]
        if span in spans:
            grouped = mention.how == "group" and all(other.value != mention.value for other in same)
            if (grouped or all(other.kind != mention.kind for other in same)) and mention.confidence >= same[
                0
            ].confidence:
                taken.append(mention)
        elif all(span[1] <= start or span[0] >= end for start, end in spans):
            taken.append(mention)
            spans.append(span)
    return sorted(taken, key=lambda item: (item.start, item.end))


def move_positions(mentions: Iterable[Mention], read: str, question: str) -> list[Mention]:
    """Return mentions of the text ``read`` with the positions of the same words in the question it was made from."""
    from rapidfuzz.distance import Levenshtein

    if read == question:
        return list(mentions)
    starts, ends = list(range(len(read) + 1)), list(range(len(read) + 1))
    blocks = [(one.tag, one.src_start, one.src_end, one.dest_start) for one in Levenshtein.opcodes(read, question)]
    # "10" for "Ten" is an insertion and a replacement: neighbours that differ are one changed stretch.
    runs = [list(run) for _, run in groupby(blocks, key=lambda one: one[0] == "equal")]
    limits = [*(run[0][3] for run in runs[1:]), len(question)]
    for run, dest_end in zip(runs, limits, strict=True):
        (tag, start, _, dest_start), end = run[0], run[-1][2]
        for at in range(start, end):
            # A changed stretch is mapped as a whole: its single characters have no counterparts.
            equal = tag == "equal" or end - start == dest_end - dest_start
            shift = dest_start - start
            starts[at] = at + shift if equal else dest_start
            ends[at + 1] = at + 1 + shift if equal else dest_end
    return [replace(item, start=starts[item.start], end=ends[item.end]) for item in mentions]
