"""Mentions: words of a question with what they mean, and the choice between overlapping ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

Span = tuple[int, int]


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
    or ``ngram``, and ``part`` for words that only narrow a period; ``others`` are the further meanings of an ambiguous
    name.
    """

    kind: MentionKind
    start: int
    end: int
    value: str
    confidence: float = 1.0
    how: str = field(default="exact", compare=False)
    others: tuple[str, ...] = field(default=(), compare=False)

    @property
    def ids(self) -> tuple[str, ...]:
        """Return all meanings of a name, the chosen one first."""
        return (self.value, *self.others)

    @property
    def span(self) -> Span:
        """Return the positions of the first character and behind the last one."""
        return self.start, self.end


def select(mentions: Iterable[Mention], *kinds: MentionKind) -> list[Mention]:
    """Return the mentions of some kinds."""
    return [item for item in mentions if item.kind in kinds]


def list_unread(spans: Iterable[Span]) -> list[Mention]:
    """Return mentions of words that have no meaning here."""
    return [Mention(MentionKind.UNKNOWN, *span, "", 0.0) for span in spans]


def overlap(span: Span, other: Span) -> bool:
    """Return whether two stretches of a text have a character in common."""
    return span[0] < other[1] and other[0] < span[1]


def join_spans(spans: Iterable[Span], text: str, joints: str | None = None) -> list[Span]:
    """Return spans, as one those that touch, overlap or have only ``joints`` between them, by default blanks."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and not text[joined[-1][1] : start].strip(joints):
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def is_free(span: Span, others: Iterable[Mention]) -> bool:
    """Return whether a stretch of a text overlaps none of some mentions."""
    return not any(overlap(span, other.span) for other in others)


def resolve_overlaps(mentions: Sequence[Mention]) -> list[Mention]:
    """Return the mentions in their order, of overlapping ones the longest, then the most confident, then the first.

    Several mentions of exactly the same words are all returned: "worst month" is a measure and a frequency.
    """
    taken: list[Mention] = []
    for item in sorted(mentions, key=lambda one: (one.start - one.end, -one.confidence)):
        same = [other for other in taken if other.span == item.span]
        is_other = same and all(other.kind != item.kind for other in same)
        if is_free(item.span, taken) or (is_other and item.confidence >= same[0].confidence):
            taken.append(item)
    return sorted(taken, key=lambda item: item.span)


def move_positions(mentions: Iterable[Mention], read: str, question: str) -> list[Mention]:
    """Return mentions of the text ``read`` with the positions of the same words in the question it was made from."""
    from rapidfuzz.distance import Levenshtein

    starts, ends = list(range(len(read) + 1)), list(range(len(read) + 1))
    at = to = 0
    for block in Levenshtein.editops(read, question).as_matching_blocks():
        # A changed stretch is mapped as a whole: its single characters have no counterparts.
        for place in range(at, block.a):
            starts[place], ends[place + 1] = to, block.b
        for place in range(block.a, block.a + block.size):
            starts[place], ends[place + 1] = place + block.b - block.a, place + block.b - block.a + 1
        at, to = block.a + block.size, block.b + block.size
    return [replace(item, start=starts[item.start], end=ends[item.end]) for item in mentions]
