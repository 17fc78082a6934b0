"""Index of names: exact lookup, search in texts (longest match first), and fuzzy lookup."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fathom.services.datafetch.catalog.text import fold_case, normal, plain

LATIN = re.compile(r"[a-z0-9]")
# More suggestions than three are no help to a reader.
NEAREST = 3
# Minimum length of a name that is indexed in both singular and plural.
SHORTEST = 7


@dataclass(frozen=True)
class Mention:
    """A name found in a text; an ambiguous name has several ids, the best one first.

    ``how`` says how it was found: ``exact``, ``short`` (no legal form), ``sound`` (pinyin or homophones), ``typo``,
    ``near`` or ``beginning``.
    """

    ids: tuple[str, ...]
    start: int
    end: int
    surface: str
    how: str = "exact"
    confidence: float = 1.0

    @property
    def id(self) -> str:
        return self.ids[0]


class Names:
    """An index of the names of one kind of item.

    Codes in upper case match in upper case only, so that "ge" inside a sentence is not read as a ticker.
    """

    def __init__(self, names: Iterable[tuple[str, str]]) -> None:
        """Index pairs of a name and an id, the more important first."""
        ids: dict[str, list[str]] = defaultdict(list)
        self._spelt: dict[str, str] = {}
        self._codes: set[str] = set()
        mixed: set[str] = set()
        for name, ident in names:
            key = normal(name)
            if not key:
                continue
            if ident not in ids[key]:
                ids[key].append(ident)
            self._spelt.setdefault(key, " ".join(plain(name).split()))
            if not name.isupper():
                mixed.add(key)
            # Only ids count as codes: an ordinary name in capitals may be written in small letters.
            elif name == ident and name.isalnum() and not name.isdecimal():
                self._codes.add(key)
        for key in list(ids):
            # "Nonfarm payroll" and "nonfarm payrolls" are one name.
            if key.isascii() and len(key) >= SHORTEST and key[-1].isalpha() and not key.endswith(("ss", "is", "us")):
                twin = key[:-1] if key.endswith("s") else f"{key}s"
                if twin not in ids:
                    ids[twin] = list(ids[key])
                    self._spelt.setdefault(twin, self._spelt[key])
        self._codes -= mixed
        self._ids = {key: tuple(found) for key, found in ids.items()}
        # The lengths of names by first character, so that a position of a text is looked up a few times and not per
        # name.
        lengths: dict[str, set[int]] = defaultdict(set)
        for key in self._ids:
            lengths[key[0]].add(len(key))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    def keys(self) -> Iterable[str]:
        """Return all names in normalised form."""
        return self._ids.keys()

    def find_exact(self, mention: str) -> str | None:
        """Return the first id of a name, or None."""
        found = self.find_all(mention)
        return found[0] if found else None

    def find_all(self, mention: str) -> tuple[str, ...]:
        """Return all ids of a name."""
        return self._ids.get(normal(mention), ())

    def list_names(self, ident: str) -> list[str]:
        """Return the names of an id in normalised form."""
        return [name for name, ids in self._ids.items() if ident in ids]

    def find(self, text: str) -> list[Mention]:
        """Find names in a text, in its order, the longest first where they overlap.

        Positions refer to ``plain(text)``.
        """
        return self._scan(plain(text))

    def _scan(self, exact: str) -> list[Mention]:
        """Find names in a text that is already plain."""
        lower = fold_case(exact)
        return take_longest(self._iter_matches(exact, lower))

    def _iter_matches(self, exact: str, lower: str) -> Iterator[Mention]:
        """Yield all names in a plain text, overlapping ones too."""
        for start in range(len(lower)):
            for length in self._lengths.get(lower[start], ()):
                end = start + length
                key = lower[start:end]
                if end <= len(lower) and key in self._ids and self._is_valid_match(key, exact, lower, start, end):
                    yield Mention(self._ids[key], start, end, exact[start:end])

    def _is_valid_match(self, key: str, exact: str, lower: str, start: int, end: int) -> bool:
        """Return whether a match is valid: Latin names need word boundaries, codes their exact case."""
        if key in self._codes and exact[start:end] != self._spelt[key]:
            return False
        before, after = lower[start - 1 : start] if start else "", lower[end : end + 1]
        # Chinese has no blanks: only a Latin letter or digit on both sides of an edge cuts a word.
        left = LATIN.match(key[0]) and before and LATIN.match(before)
        right = LATIN.match(key[-1]) and after and LATIN.match(after)
        return not left and not right

    def find_loosely(self, text: str, skipped: Sequence[re.Pattern[str]]) -> list[Mention]:
        """Find names as ``find`` does in the text without what each pattern matches; positions refer to the whole text.

        Of names that the readings of the text find in one place the longest is taken, and of equal ones the first.
        """
        exact = plain(text)
        readings: dict[str, list[int]] = {}
        for pattern in skipped:
            hidden = {place for match in pattern.finditer(exact) for place in range(*match.span())}
            places = [place for place in range(len(exact)) if place not in hidden]
            # Most texts hold none of it, and are read once.
            readings.setdefault("".join(exact[place] for place in places), places)
        found: list[Mention] = []
        for words, places in readings.items():
            ends = ((m.ids, places[m.start], places[m.end - 1] + 1) for m in self._scan(words))
            found += [Mention(ids, start, end, exact[start:end]) for ids, start, end in ends]
        return take_longest(found)

    def find_nearest(self, mention: str, limit: int = NEAREST) -> list[str]:
        """Return names of similar spelling in their original form, one per id, best first."""
        from rapidfuzz import fuzz, process

        key = normal(mention)
        # A low cut-off by letters alone; the beginnings are compared below.
        hits = process.extract(key, self._ids.keys(), scorer=fuzz.ratio, limit=4 * limit, score_cutoff=55)
        hits = [hit for hit in hits if is_similar(key, hit[0])]
        best: dict[str, str] = {}
        for name, _, _ in hits:
            best.setdefault(self._ids[name][0], self._spelt[name])
        return list(best.values())[:limit]


def take_longest(found: Iterable[Mention]) -> list[Mention]:
    """Return mentions in the order of the text, of those that overlap the longest, then the first."""
    taken: list[Mention] = []
    for mention in sorted(found, key=lambda mention: (mention.start - mention.end, mention.start)):
        if all(mention.end <= other.start or mention.start >= other.end for other in taken):
            taken.append(mention)
    return sorted(taken, key=lambda mention: mention.start)


def is_similar(first: str, second: str) -> bool:
    """Return whether two similar names have the same beginning, or differ in at most two letters."""
    from rapidfuzz.distance import OSA

    # By letters "usa" is three fifths of "tesla", but nobody who writes one means the other.
    if min(len(first), len(second)) < 4:
        return first[:1] == second[:1] and OSA.distance(first, second) <= 2
    return first[:2] == second[:2] or OSA.distance(first, second) <= max(2, len(first) // 4)
