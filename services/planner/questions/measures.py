"""Measures that the clauses of a question ask for, by the classifier over its typed reading."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.services.planner.classification.classifier import Classifier
from fathom.services.planner.classification.examples import MEASURE, PREMISE, QUANTITY

LETTERS = {
    pb.MENTION_KIND_ENTITY: "X",
    pb.MENTION_KIND_INDICATOR: "Y",
    pb.MENTION_KIND_PERIOD: "P",
    pb.MENTION_KIND_PARAMETER: "N",
}
# Names in a list are one name: what is asked of them is asked once.
LIST = re.compile(r"(?<![A-Za-z])([XYPN])(?:\s*(?:,|、|，|/|&|and|or|和|与|及)+\s*\1)+(?![a-z])")
# Where one thing asked ends: punctuation, a full stop that is no decimal point, and conjunctions outside lists.
CLAUSE = re.compile(r"[,;:?!。，；：？！、()（）]+|\.(?=\s|$)|\s-\s|\s+(?:and|plus)\s+|以及|并且|和(?![XYPN])")
NO_MEASURE = "none"
# Verdicts that name no quantity of a calculation: none that is sure, another one, and a value as it stands.
UNCOMPUTED = frozenset({"", "other", "level"})
# As many as one request of vectors takes with room for others.
MAX_CLAUSES = 16


class AskedMeasure(NamedTuple):
    """Quantity that one clause asks for: ``measure`` is a quantity, "" where the classifier is unsure.

    ``premise`` is "rise" or "fall" where the clause surely takes one for granted.
    """

    measure: str
    words: str
    premise: str = ""


Span = tuple[str, int, int]
"""A letter, and the place in the question that it stands for."""


def mask(question: str, mentions: Sequence[pb.Mention]) -> list[Span]:
    """Return the question with letters for its names, indicators, periods and numbers; one for a list of names."""
    spans: list[Span] = []
    end = 0
    for one in sorted(mentions, key=lambda mention: (mention.start, -mention.end)):
        if one.kind in LETTERS and one.start >= end:
            spans += [(question[place], place, place + 1) for place in range(end, one.start)]
            spans.append((LETTERS[one.kind], one.start, one.end))
            end = one.end
    spans += [(question[place], place, place + 1) for place in range(end, len(question))]
    for match in reversed(list(LIST.finditer(join(spans)))):
        spans[match.start() : match.end()] = [(match[1], spans[match.start()][1], spans[match.end() - 1][2])]
    return spans


def join(spans: Sequence[Span]) -> str:
    return "".join(letter for letter, _, _ in spans)


def split_clauses(spans: Sequence[Span]) -> list[list[Span]]:
    """Return the clauses of a masked question."""
    marks = [(match.start(), match.end()) for match in CLAUSE.finditer(join(spans))]
    starts, ends = [0, *(end for _, end in marks)], [*(start for start, _ in marks), len(spans)]
    parts = [list(spans[start:end]) for start, end in zip(starts, ends, strict=True)]
    return [part for part in parts if join(part).strip()][:MAX_CLAUSES]


async def read_measures(question: str, mentions: Sequence[pb.Mention], classifier: Classifier) -> list[AskedMeasure]:
    """Return the measures in their order, without the clauses that surely ask for none."""
    parts = split_clauses(mask(question, mentions))
    clauses = [join(part).strip() for part in parts]
    words = [question[part[0][1] : part[-1][2]].strip() for part in parts]
    quantities = await classifier.classify(MEASURE, clauses, QUANTITY)
    premises = await classifier.classify(MEASURE, clauses, PREMISE)
    found = [
        AskedMeasure(quantity.label if quantity.is_sure else "", text, premise.label if premise.is_sure else "")
        for text, quantity, premise in zip(words, quantities, premises, strict=True)
        # Without an encoder nothing is known, not even that it is unsure.
        if quantity.label
    ]
    return [one for one in found if one.measure != NO_MEASURE]
