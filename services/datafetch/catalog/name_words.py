"""Index of names by their words: whose names hold some words, and how much else the closest of them says."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fathom.services.datafetch.catalog.matching import STOP
from fathom.services.datafetch.catalog.text import CJK, normal

WORD, CHINESE = re.compile(r"[a-z]+\d*|\d+"), re.compile(rf"(?:{CJK.pattern})+")
PARTICLES = dict.fromkeys(map(ord, "的之"))
# Plurals, and further endings by which forms of a word are one.
PLURAL, ENDING = re.compile(r"(?<=[sxz])es$|(?<=[cs]h)es$|(?<![sui])s$"), re.compile(r"(?<=\w{5})(?:ing|ed|ment|ion)$")
# What a total is of says nothing more: "All Grades", "Total Nonfarm". A note in capitals is no name.
TOTAL = re.compile(r"\b(?:all|total)\b:?(?: \w+)?|\([A-Z]{6,}\)", re.I)
# Share of the weight of a name that several words must hold, and a single one that narrows a name, and by how much the
# next name must say more: below, they are as likely of another series. Chosen on 40 phrases of macro series. A single
# word by itself is too little: "worked" is no hours worked.
SHARE, NARROWS, LEAD = 0.5, 0.58, 1.0
# The same share for words that make another series of one that is named by itself: "typical" of unemployment.
REPLACES = 0.7


@dataclass(frozen=True)
class Holder:
    """Something whose names hold all words asked for; ``excess`` is the weight of what its closest name says more."""

    id: str
    share: float
    excess: float
    name: str


def list_roots(text: str) -> frozenset[str]:
    """Return the words of a text without their endings, and the pairs of its Chinese characters.

    Single letters are left out, and particles in Chinese.
    """
    plainly = normal(text)
    words = (word for word in WORD.findall(plainly) if word not in STOP and (len(word) > 1 or word.isdigit()))
    roots = [ENDING.sub("", PLURAL.sub("", word) if len(word) > 3 else word) for word in words]
    for run in CHINESE.findall(plainly.translate(PARTICLES)):
        roots += [run[at : at + 2] for at in range(len(run) - 1)] or [run]
    return frozenset(roots)


class NameWords:
    """Names of indicators or entities by their words."""

    def __init__(self, names: Iterable[tuple[str, str]]) -> None:
        """Index pairs of a name and an id, the more important first."""
        self._names: dict[str, dict[frozenset[str], str]] = defaultdict(dict)
        for name, ident in names:
            if name != ident:
                self._names[ident].setdefault(list_roots(TOTAL.sub(" ", name)), name)
        self._words = {
            ident: frozenset[str]().union(*own, *map(list_roots, own.values())) for ident, own in self._names.items()
        }
        self._places: dict[str, set[str]] = defaultdict(set)
        self._order = {ident: at for at, ident in enumerate(self._names)}
        for ident, words in self._words.items():
            for word in words:
                self._places[word].add(ident)
        counts = Counter(word for words in self._words.values() for word in words)
        self._weights = {word: math.log(1 + len(self._words) / count) for word, count in counts.items()}

    def has(self, word: str) -> bool:
        """Return whether a name has a word as ``list_roots`` gives it."""
        return word in self._places

    def get_words(self, ident: str) -> frozenset[str]:
        """Return the words of all names of an id."""
        return self._words.get(ident, frozenset())

    def find(self, words: Collection[str], given: Collection[str] = ()) -> list[Holder]:
        """Return those whose names hold all the words, first the one that says least beside them and what is given."""
        places = [self._places.get(word, set()) for word in words]
        common = set.intersection(*places) if places else set()
        asked = self._weigh(words)
        known = {*words, *given}
        found = []
        for ident in common:
            closest = min(self._names[ident], key=lambda name: self._weigh(name - known))
            excess = self._weigh(closest - known)
            found.append(Holder(ident, asked / ((asked + excess) or 1.0), excess, self._names[ident][closest]))
        return sorted(found, key=lambda one: (round(one.excess, 6), self._order[one.id]))

    def choose(self, words: Collection[str], given: Collection[str] = (), least: float = 0.0) -> str:
        """Return the id that the words clearly mean, given what is named already; "" if none is, or several are.

        ``least`` is the share of the weight of its name that they must hold, if more than usual. Of series with one
        name, which differ by adjustment or frequency, the first is meant.
        """
        found = self.find(words, given)
        single = len(words) == 1
        if not found or (single and not given) or found[0].share < max(least, NARROWS if single else SHARE):
            return ""
        meant = list_roots(found[0].name)
        rivals = (one for one in found if one.excess - found[0].excess < LEAD and list_roots(one.name) != meant)
        return found[0].id if next(rivals, None) is None else ""

    def narrows(self, ident: str, other: str, said: str) -> bool:
        """Return whether an id has all words of one name of the other, and the numbers by which that was named."""
        numbers = {root for root in list_roots(said) if root.isdecimal()}
        return numbers <= self._words[ident] and any(name <= self._words[ident] for name in self._names[other] if name)

    def _weigh(self, words: Iterable[str]) -> float:
        return sum(self._weights.get(word, 0.0) for word in words)
