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
from fathom.domain.text.terms import is_chinese, list_words
from fathom.services.datafetch.parser import lexicon
from fathom.services.datafetch.programs.own import OwnSeries, list_names
from fathom.services.datafetch.programs.own_words.statistics import list_asking_terms

Terms = tuple[str, ...]
# What is left of plurals without their "s": "branche", "countrie".
PLURAL_E, PLURAL_Y = re.compile(r"(?<=ch|sh|ss)e$|(?<=x)e$"), re.compile(r"ie$")
ENDS = ".,;:?!'\"()"
# Between the parts of a file's name; what is shorter than two characters names nobody.
TITLE_JOINTS, SHORTEST_OWNER = re.compile(r"[_.\s]+"), 2
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


def stands_in(words: Terms, name: Terms) -> bool:
    """Return whether a name stands in some words, one of several terms also apart: "gas oil … at Brannock"."""
    return holds(words, name) or (len({*name}) > 1 and {*name} <= {*words})


def find_scattered(words: Terms, names: Iterable[Terms]) -> list[Terms]:
    """Return the names of several terms that all stand in some words, without those that are a part of a longer one."""
    found = [name for name in dict.fromkeys(names) if len({*name}) > 1 and {*name} <= {*words}]
    return [name for name in found if not any({*name} < {*other} for other in found)]


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
        """Return the columns of one measure of the things of one table, by the group's id in programs.

        A row that adds up the others is none of the things: it would be the largest of them.
        """
        members = map(self._leave_out_totals, self.measures.values())
        parts = [part for idents in members for part in self._part(idents) if len(part) > 1]
        distinct = list(dict.fromkeys(map(tuple, parts)))
        return {f"{OWN_GROUP}{number}": list(idents) for number, idents in enumerate(distinct, 1)}

    def _leave_out_totals(self, idents: Iterable[str]) -> list[str]:
        return [ident for ident in idents if not self.own[ident].is_total]

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
            # A part of a name that stands in the question: "zinc" of "the zinc price".
            wholes = find_longest(asked, self.measures)
            wider = [name for name in (*wholes, *find_scattered(asked, self.measures)) if left <= {*name}]
            if not wider:
                return self._find_owned(words, asked) or self._find_alike(said, asked) or self._find_only(said, asked)
            measures = wider[:1]
        elif not (known or asking):
            return self._find_owned(words, asked)
        # Which plant is meant is said by its name, or "which plant" by what plants are called.
        kinds = kinds or find_longest(asked, self.kinds)
        return self._choose(
            said,
            asked,
            labels or find_longest(asked, self.labels) or find_scattered(asked, self.labels),
            measures or find_longest(asked, self.measures),
            kinds,
        )

    def _find_owned(self, words: str, asked: Terms) -> Named | None:
        """Return the column that the question names where the words only say whose table it is, by its title.

        A table of one thing does not repeat in its columns whose it is: "Orchard Fund" of orchard-fund_prices.csv.
        """
        plain = ((ident, one) for ident, one in self.own.items() if not one.label)
        named = {ident: one for ident, one in plain if is_owner(words, list_title_names(one.title))}
        measures = find_longest(asked, OwnWords(named).measures) if named else []
        found = {ident for name in measures for ident in self.measures[name] if ident in named}
        if len(found) != 1:
            return None
        terms = frozenset(term for name in measures for term in name)
        return Named(found.pop(), name_more(split_terms(words), asked, measures), terms)

    def _find_only(self, said: Terms, asked: Terms) -> Named | None:
        """Return the columns of the things that a question names by their kind, where one measure is all they have.

        The words for it are other ones than the table's: "which bank has the least money" of a table of balances.
        """
        kinds = find_longest(asked, self.kinds)
        if len(kinds) != 1 or find_longest(asked, self.measures):
            return None
        idents = self._leave_out_totals(self.kinds[kinds[0]])
        group = next((group for group, members in self.groups.items() if members == idents), None)
        if group is None:
            return None
        measure = next(iter(self.own[idents[0]].names), self.own[idents[0]].column)
        return Named(group, name_more(said, asked, kinds), frozenset(kinds[0]), measure)

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
        if not labels and len(idents) > 1:
            idents = self._leave_out_totals(idents)
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
    return " ".join(write_name(name) for name in names if not holds(said, name) and stands_in(asked, name))


def write_name(name: Terms) -> str:
    """Return the words of a name; pairs of Chinese characters that overlap are one word."""
    text = ""
    for term in name:
        is_next = is_chinese(term) and len(term) > 1 and text.endswith(term[:-1])
        text = text + term[-1] if is_next else f"{text} {term}".strip()
    return text


def list_title_names(title: str) -> list[str]:
    """Return the parts of a table's title that may be a name: "orchard-fund_prices.csv" has two."""
    return [part for part in TITLE_JOINTS.split(title.rpartition(".")[0] or title) if len(part) >= SHORTEST_OWNER]


def is_owner(words: str, names: Sequence[str]) -> bool:
    """Return whether words are a name of a title, or begin with a Chinese one: 宁岭合资公司 of 宁岭_销售.csv."""
    plain = "".join(split_terms(words))
    for name in names:
        if plain and (plain == "".join(split_terms(name)) or (is_chinese(name) and words.startswith(name))):
            return True
    return False
