"""Names that go on from what somebody has typed so far: codes, English and Chinese names, pinyin and its initials."""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left
from collections.abc import Iterator

from fathom.services.datafetch.catalog.layer import Layer, iter_entity_names, list_chinese_names
from fathom.services.datafetch.catalog.pinyin import romanise
from fathom.services.datafetch.catalog.text import normal

# Where a word begins inside a name: "america" finds Bank of America.
LATER_WORD = re.compile(r"(?<=[ .&-])[a-z0-9]")
# Sorts behind every character of a name.
LAST = "\U0010ffff"


class Completion:
    """An index of the beginnings of entity names and of the words within them."""

    def __init__(self, layer: Layer) -> None:
        self._places = {ident: place for place, ident in enumerate(layer.entities)}
        names = dict.fromkeys(self._iter_beginnings(layer))
        self._names = sorted(names)

    @staticmethod
    def _iter_beginnings(layer: Layer) -> Iterator[tuple[str, bool, str]]:
        """Yield each text that may be typed, whether it begins inside a name, and the entity's id."""
        for name, ident in iter_entity_names(layer.entities.values()):
            key = normal(name)
            if key:
                yield key, False, ident
                yield from ((key[word.start() :], True, ident) for word in LATER_WORD.finditer(key))
        for spec in layer.entities.values():
            yield from ((sound, False, spec.id) for name in list_chinese_names(spec) for sound in romanise(name))

    def complete(self, beginning: str, limit: int) -> list[tuple[str, float]]:
        """Return at most ``limit`` ids with scores, 1 for a whole name; empty for an empty beginning.

        Whole names come first, then names that begin so, then names with such a word, the shorter ones first.
        """
        typed = normal(beginning)
        if not typed:
            return []
        first, last = bisect_left(self._names, (typed,)), bisect_left(self._names, (typed + LAST,))
        best: dict[str, tuple[bool, bool, int, int]] = {}
        for name, is_inside, ident in self._names[first:last]:
            rank = (name != typed or is_inside, is_inside, len(name), self._places[ident])
            best[ident] = min(rank, best.get(ident, rank))
        chosen = heapq.nsmallest(limit, best, key=lambda ident: best[ident])
        return [(ident, 0.5 if best[ident][0] else 1.0) for ident in chosen]
