"""Columns of a user's own tables by the words of a question: by whose they are, and by what they measure.

The reader has learnt on series that have one name each. In a table of several things a value has two, which stand apart
in a question ("the 2025 revenue of the Porto plant"), and "which plant" means all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fathom.domain.programs.language import OWN_GROUP, Call, Quote
from fathom.domain.text.terms import list_words
from fathom.services.datafetch.parser import lexicon
from fathom.services.datafetch.programs.own import OwnSeries, list_names
from fathom.services.datafetch.programs.own_words.statistics import list_asking_terms

Terms = tuple[str, ...]
# What is left of plurals without their "s": "branche", "countrie".
PLURAL_E, PLURAL_Y = re.compile(r"(?<=ch|sh|ss)e$|(?<=x)e$"), re.compile(r"ie$")
ENDS = ".,;:?!'\"()"
# Letters of the shortest name that is found by its spelling alone, and how many of them one edit is allowed for.
SHORTEST_ALIKE, LETTERS_PER_EDIT = 7, 4


@dataclass(frozen=True)
class Named:
    """Meaning of words of a question: a column or a group of them.

    ``more`` are the question's further words for it, ``terms`` all of them as they are compared. ``alike`` is the
    column's own name where the words are only spelt like it.
    """

    target: str
    more: str = ""
    terms: frozenset[str] = frozenset()
    alike: str = ""


def split_terms(text: str) -> Terms:
    """Return the words of a name or a question as they are compared, without endings of plurals.

    A stop word in capitals is a name: "US", "IT".
    """
    found: list[str] = []
    for token in text.split():
        bare = token.strip(ENDS)
        words = list_words(token) or ([bare.lower()] if len(bare) > 1 and bare.isupper() else [])
        found += [PLURAL_Y.sub("y", PLURAL_E.sub("", word)) for word in words]
    return tuple(found)


def holds(words: Terms, name: Terms) -> bool:
    """Return whether a name stands in some words."""
    return bool(name) and any(words[at : at + len(name)] == name for at in range(len(words) - len(name) + 1))


def find_longest(words: Terms, names: Iterable[Terms]) -> list[Terms]:
    """Return the names that stand in some words and in no longer one that does."""
    found = [name for name in dict.fromkeys(names) if holds(words, name)]
    return [name for name in found if not any(name != other and holds(other, name) for other in found)]


@dataclass(frozen=True)
class OwnWords:
    """The names of a user's columns, by their ids in programs."""

    own: Mapping[str, OwnSeries]

    @cached_property
    def measures(self) -> dict[Terms, list[str]]:
        """Return the columns by what they measure."""
        return self._index(lambda one: one.names if one.label else (*one.names, *list_names(one.column)))

    @cached_property
    def labels(self) -> dict[Terms, list[str]]:
        """Return the columns by whose they are."""
        return self._index(lambda one: (one.label,))

    @cached_property
    def kinds(self) -> dict[Terms, list[str]]:
        """Return the columns by what those are called whose they are: "plant"."""
        return self._index(lambda one: (one.kind,) if one.label else ())

    def _index(self, list_texts: Callable[[OwnSeries], Iterable[str]]) -> dict[Terms, list[str]]:
        found: dict[Terms, list[str]] = {}
        for ident, one in self.own.items():
            for terms in dict.fromkeys(map(split_terms, list_texts(one))):
                if terms:
                    found.setdefault(terms, []).append(ident)
        return found

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """Return the columns of one measure of the things of one table, by the group's id in programs."""
        parts = [part for idents in self.measures.values() for part in self._part(idents) if len(part) > 1]
        distinct = list(dict.fromkeys(map(tuple, parts)))
        return {f"{OWN_GROUP}{number}": list(idents) for number, idents in enumerate(distinct, 1)}

    def _part(self, idents: Iterable[str]) -> list[list[str]]:
        """Return columns by their tables."""
        parts: dict[str, list[str]] = {}
        for ident in idents:
            parts.setdefault(self.own[ident].sheet_id, []).append(ident)
        return list(parts.values())

    def find(self, words: str, question: str) -> Named | None:
        """Return the column or the group that words mean.

        None where they are not the tables', and where the question leaves open which of their columns they mean.
        """
        said, asked = split_terms(words), split_terms(question)
        labels, measures = find_longest(said, self.labels), find_longest(said, self.measures)
        kinds = find_longest(said, self.kinds)
        # Beside names there may be function words, and those that ask for a statistic.
        asking = list_asking_terms(words)
        idle = lexicon.list_words("function_words") | asking
        known = {term for name in (*labels, *measures, *kinds) for term in name}
        # A word that no name of the tables has is a name of something else: "Apple's revenue".
        if left := {*said} - known - idle:
            # A part of a name that stands whole in the question: "zinc" of "the zinc price".
            wider = [name for name in find_longest(asked, self.measures) if left <= {*name}]
            if not wider:
                return self._find_alike(said, asked)
            measures = wider
        elif not (known or asking):
            return None
        # Which plant is meant is said by its name, or "which plant" by what plants are called.
        kinds = kinds or find_longest(asked, self.kinds)
        return self._choose(
            said,
            asked,
            labels or find_longest(asked, self.labels),
            measures or find_longest(asked, self.measures),
            kinds,
        )

    def _choose(
        self, said: Terms, asked: Terms, labels: list[Terms], measures: list[Terms], kinds: list[Terms]
    ) -> Named | None:
        """Return the column or the group that has names of all sorts; None for several, and for a measure unsaid."""
        names = (*labels, *measures, *kinds)
        terms, more = frozenset(term for name in names for term in name), name_more(said, asked, (*labels, *measures))
        if len(labels) == 1 and not measures and len(named := self.labels[labels[0]]) == 1:
            # The rows of an income statement say what is measured, and only its file's name stands above them.
            return Named(named[0], more, terms) if self.own[named[0]].is_of_file else None
        columns = {tuple(self.measures[name]) for name in measures}
        if len(columns) != 1 or len(labels) > 1:
            return None
        idents = list(columns.pop())
        if labels:
            idents = [ident for ident in idents if ident in self.labels[labels[0]]]
        if kinds:
            # What is asked of a plant is in the table of plants, where another one has the same measure.
            idents = [ident for ident in idents if ident in self.kinds[kinds[0]]] or idents
        if len(idents) == 1:
            return Named(idents[0], more, terms)
        group = next((group for group, members in self.groups.items() if members == idents), None)
        return Named(group, more, terms) if group and not labels else None

    def _find_alike(self, said: Terms, asked: Terms) -> Named | None:
        """Return the only column that some words of a question, ``said`` among them, are spelt like: "spot price".

        Spreadsheets call things in other languages, as compounds and with slips: "Spotpris", "Spot-Price".
        """
        from rapidfuzz.distance import OSA

        found: dict[tuple[str, ...], Terms] = {}
        for name, idents in self.measures.items():
            for window in list_windows(asked, len(name) + 1):
                one, other = "".join(window), "".join(name)
                most = min(len(one), len(other)) // LETTERS_PER_EDIT
                if len(other) >= SHORTEST_ALIKE and {*said} <= {*window} and OSA.distance(one, other) <= most:
                    found.setdefault(tuple(idents), window)
        if len(found) != 1:
            return None
        ((columns, window),) = found.items()
        if len(columns) > 1:
            return None
        return Named(columns[0], name_more(said, asked, (window,)), frozenset(window), self.own[columns[0]].column)

    def name_member(self, ident: str) -> Call:
        """Return a column as a series of a program, called as it is."""
        return Call("series", (Quote(next(iter(list_names(self.own[ident].column)))),), ident)


def list_windows(terms: Terms, most: int) -> Sequence[Terms]:
    """Return the runs of at most so many terms."""
    return [terms[at : at + size] for size in range(1, most + 1) for at in range(len(terms) - size + 1)]


def name_more(said: Terms, asked: Terms, names: Iterable[Terms]) -> str:
    """Return the names that stand in the question and not in the words of a program."""
    return " ".join(" ".join(name) for name in names if not holds(said, name) and holds(asked, name))
