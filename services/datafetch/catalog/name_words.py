"""Index of names by their words: which names say all of some words, in any order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from fathom.services.datafetch.catalog.matching import grams
from fathom.services.datafetch.catalog.text import CJK

# Letters by which forms of a word are one: "expect", "expectations".
STEM = 5


class NameWords:
    """Names of indicators by their words."""

    def __init__(self, names: Iterable[tuple[str, str]]) -> None:
        """Index pairs of a name and an id, the more important first."""
        self._names = [(frozenset(grams(name)), ident) for name, ident in names]
        self._places: dict[str, set[int]] = defaultdict(set)
        for place, (words, _) in enumerate(self._names):
            for word in words:
                self._places[word].add(place)

    def find(self, words: Collection[str], beside: Collection[str]) -> list[str]:
        """Return the ids whose names have all the words, and no other one that is not ``beside`` them in another form.

        The shortest names come first.
        """
        places = [self._places.get(word, set()) for word in words]
        common = sorted(set.intersection(*places), key=lambda at: (len(self._names[at][0]), at)) if places else []
        stems = {word[:STEM] for word in beside}
        fitting = [
            self._names[at][1]
            for at in common
            # Pairs of characters run over the limits of words; the characters alone are compared.
            if all(CJK.match(word) or word in words or word[:STEM] in stems for word in self._names[at][0])
        ]
        return list(dict.fromkeys(fitting))
