"""Near duplicates by Jaccard similarity of shingles, found exactly by prefix filtering.

Bayardo, Ma and Srikant (2007), "Scaling up all pairs similarity search": two sets whose similarity is at least t share
one of their rarest ``n - ceil(t n) + 1`` elements, so that only sets with such an element in common are compared. No
pair is missed, other than with hashing, and most are never looked at.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from fathom.core.errors import InvalidField
from fathom.domain.text.shingles import Shingle, make_shingles, measure_jaccard

# Pairs of words, and pairs of Chinese characters.
LENGTH = 2
THRESHOLD = 0.8
# 0.7 * 10 is above 7 in floating point, which would pass over a pair.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Duplicate:
    """A text by its place, the earlier one that it nearly is, and their similarity."""

    place: int
    of: int
    similarity: float


def find_duplicates(texts: Sequence[str], threshold: float = THRESHOLD, length: int = LENGTH) -> list[Duplicate]:
    """Return each text that is at least as similar to an earlier one that stays; the first of several stays.

    Raises ``InvalidField`` for a threshold outside of (0, 1].
    """
    if not 0.0 < threshold <= 1.0:
        raise InvalidField("threshold", "must be above 0 and at most 1")
    sets = [make_shingles(text, length) for text in texts]
    counts = Counter(shingle for own in sets for shingle in own)
    staying: dict[Shingle, list[int]] = defaultdict(list)
    found: list[Duplicate] = []
    for place, own in enumerate(sets):
        ordered = sorted(own, key=lambda shingle: (counts[shingle], shingle))
        prefix = ordered[: len(ordered) - math.ceil(threshold * len(ordered) - ROUNDING) + 1]
        others = {other for shingle in prefix for other in staying.get(shingle, ())}
        best = max(
            ((measure_jaccard(own, sets[other]), -other) for other in others if is_near(own, sets[other], threshold)),
            default=None,
        )
        if best is not None and best[0] >= threshold:
            found.append(Duplicate(place, -best[1], best[0]))
            continue
        for shingle in prefix:
            staying[shingle].append(place)
    return found


def is_near(one: frozenset[Shingle], other: frozenset[Shingle], threshold: float) -> bool:
    """Return whether the sizes of two sets allow a similarity of the threshold."""
    return min(len(one), len(other)) >= threshold * max(len(one), len(other)) - ROUNDING
