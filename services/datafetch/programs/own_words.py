"""Names of a user's own tables in the words of a question: whose, what is measured, and how a period adds up.

The reader has learnt on series that have one name each. In a table of several things a value has two, which stand apart
in a question ("the 2025 revenue of the Porto plant"), and "which plant" means all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, reduce

from fathom.domain.periods.period import measure_months
from fathom.domain.programs.language import OWN_GROUP, Call, Node, Number, Quote, map_calls, walk
from fathom.domain.text.terms import list_words
from fathom.services.datafetch.parser import lexicon, periods
from fathom.services.datafetch.programs.own import OwnSeries, list_names

Terms = tuple[str, ...]
# Functions of several values, of which each is one of a period.
OF_VALUES = frozenset({"minus", "plus", "times", "over", "share", "pct", "top", "bottom", "rank", "each"})
EXTREMES = {"maximum": "top", "top": "top", "minimum": "bottom", "bottom": "bottom"}


def split_terms(text: str) -> Terms:
    """Return the words of a name as they are compared."""
    return tuple(list_words(text))


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
        """Return the columns by what they measure, of those that say of whom."""
        return self._index(lambda one: one.names)

    @cached_property
    def labels(self) -> dict[Terms, list[str]]:
        """Return the columns by whose they are."""
        return self._index(lambda one: (one.label,))

    @cached_property
    def kinds(self) -> dict[Terms, list[str]]:
        """Return the columns by what those are called whose they are: "plant"."""
        return self._index(lambda one: (one.kind,))

    def _index(self, list_texts: Callable[[OwnSeries], Iterable[str]]) -> dict[Terms, list[str]]:
        found: dict[Terms, list[str]] = {}
        for ident, one in self.own.items():
            for text in list_texts(one) if one.label else ():
                if terms := split_terms(text):
                    found.setdefault(terms, []).append(ident)
        return found

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """Return the columns of one measure of several things, by the group's id in programs."""
        distinct = list(dict.fromkeys(tuple(idents) for idents in self.measures.values() if len(idents) > 1))
        return {f"{OWN_GROUP}{number}": list(idents) for number, idents in enumerate(distinct, 1)}

    def find(self, words: str, question: str) -> tuple[str, str] | None:
        """Return the id of a column or a group that words mean, and the question's further words for it.

        None where they are not the table's, and where the question leaves open which of its columns they mean.
        """
        said, asked = split_terms(strip_asking(words)), split_terms(question)
        labels, measures = find_longest(said, self.labels), find_longest(said, self.measures)
        kinds = find_longest(said, self.kinds)
        # A word that no name of the table has is a name of something else: "Apple's revenue".
        known = {term for name in (*labels, *measures, *kinds) for term in name}
        if not known or not {*said} <= known | lexicon.list_words("function_words"):
            return None
        labels = labels or find_longest(asked, self.labels)
        measures = measures or find_longest(asked, self.measures)
        if len(labels) == 1 and not measures and len(named := self.labels[labels[0]]) == 1:
            # The rows of an income statement say what is measured, and only its file's name stands above them.
            return (named[0], name_more(said, asked, labels)) if self.own[named[0]].is_of_file else None
        columns = {tuple(self.measures[name]) for name in measures}
        if len(columns) != 1 or len(labels) > 1:
            return None
        (idents,) = columns
        more = name_more(said, asked, (*labels, *measures))
        if labels:
            both = [ident for ident in idents if ident in self.labels[labels[0]]]
            return (both[0], more) if len(both) == 1 else None
        if len(idents) == 1:
            return idents[0], more
        return next(group for group, members in self.groups.items() if members == list(idents)), more

    def name_member(self, ident: str) -> Call:
        """Return a column as a series of a program, called as it is."""
        return Call("series", (Quote(next(iter(list_names(self.own[ident].column)))),), ident)


def name_more(said: Terms, asked: Terms, names: Iterable[Terms]) -> str:
    """Return the names that stand in the question and not in the words of a program."""
    return " ".join(" ".join(name) for name in names if not holds(said, name) and holds(asked, name))


def choose_lengths(own: Sequence[OwnSeries], questions: Sequence[str], today: date) -> list[OwnSeries]:
    """Return the columns; of those of one measure for quarters and for years, say, the ones that a question is about.

    These are of the longest periods that are no longer than the shortest one that it names, or that an earlier question
    has named, and of the shortest ones without any.
    """
    lengths: dict[tuple[str, ...], set[int]] = {}
    for one in own:
        lengths.setdefault(identify(one), set()).add(one.months)
    if all(len(found) == 1 for found in lengths.values()):
        return list(own)
    asked = find_length(questions, today)
    fitting = {key: max((one for one in found if one <= asked), default=min(found)) for key, found in lengths.items()}
    return [one for one in own if one.months == fitting[identify(one)]]


def identify(one: OwnSeries) -> tuple[str, ...]:
    """Return what columns share that differ in the periods of their values alone; a plain column shares nothing."""
    return (one.sheet_id, one.label, one.names[0]) if one.names else (one.sheet_id, "", one.column)


def find_length(questions: Sequence[str], today: date) -> int:
    """Return the months of the shortest period that the last question names, else the one before; 0 without any."""
    for text in reversed(questions):
        found = [one for one in periods.read(text, today).periods if one.start and one.end]
        if found:
            return min(measure_months(one.start, one.end) for one in found if one.start and one.end)
    return 0


def strip_asking(text: str) -> str:
    """Return words without those that ask for a sum, which are none of a name: "total revenue"."""
    return lexicon.cue("statistics.sum").sub(" ", text)


def asks_for_sum(question: str) -> bool:
    """Return whether a question asks for a sum."""
    return lexicon.says("statistics.sum", question)


def settle(program: Sequence[Call], own: Mapping[str, OwnSeries], question: str) -> tuple[tuple[Call, ...], bool]:
    """Return a program with the columns that its words mean and the sums that they ask for; True if all are sure."""
    if not own:
        return tuple(program), False
    words = OwnWords(own)
    series = [node for step in program for node in walk(step) if isinstance(node, Call) and node.name == "series"]
    found = {node: words.find(node.words, question) for node in series}
    named = [name_series(step, found) for step in program]
    is_sum = asks_for_sum(question)
    return tuple(add_up(step, words, is_sum) for step in named), bool(series) and all(found.values())


def name_series(node: Call, found: Mapping[Call, tuple[str, str] | None]) -> Call:
    """Return a call with the series that were found in place of those that the reader has linked."""
    if one := found.get(node):
        ident, more = one
        return replace(node, arguments=(*node.arguments, *([Quote(more)] if more else [])), target=ident)
    return map_calls(node, lambda one: name_series(one, found))


def add_up(step: Call, words: OwnWords, is_sum: bool) -> Call:
    """Return a step in which amounts of a period are added up, and members of a group compared by their values."""
    target = find_target(step)
    if target in words.groups and is_sum and step.name in ("at", "within", "total") and len(step.arguments) <= 2:
        # The sum over all things, where "total" is no word of a name.
        members = [replace_series(step, words.name_member(ident)) for ident in words.groups[target]]
        return reduce(lambda left, right: Call("plus", (left, right)), (take_value(one, words) for one in members))
    if step.name in ("at", "within") and target in words.own and (is_sum or words.own[target].is_amount):
        return total(step)
    return take_values(step, words)


def take_values(node: Call, words: OwnWords) -> Call:
    """Return a call whose arguments that stand for one value of a period are one."""
    group = find_target(node) if node.name in EXTREMES else ""
    if group in words.groups and isinstance(inner := node.arguments[0], Call) and inner.name in ("within", "at"):
        # Which of them, and not when.
        count: tuple[Node, ...] = node.arguments[1:] or (Number(1),)
        return Call(EXTREMES[node.name], (take_value(inner, words), *count))
    if node.name in OF_VALUES or node.name == "at":
        node = take_value(node, words)
    return map_calls(node, lambda one: take_values(one, words))


def take_value(node: Call, words: OwnWords) -> Call:
    """Return the value of a period: the sum of amounts, else the last one."""
    if node.name not in ("at", "within"):
        return node
    target = find_target(node)
    members = words.groups.get(target, [target])
    if all(ident in words.own and words.own[ident].is_amount for ident in members):
        return total(node)
    return replace(node, name="at")


def total(node: Call) -> Call:
    """Return the sum over the period of a call that names one."""
    return Call("total", (replace(node, name="within"),))


def find_target(node: Call) -> str:
    """Return the series that a call is of, where it is one; "" for several."""
    targets = {one.target for one in walk(node) if isinstance(one, Call) and one.name == "series"}
    return targets.pop() if len(targets) == 1 else ""


def replace_series(node: Call, series: Call) -> Call:
    """Return a call of another series."""
    if node.name == "series":
        return series
    return map_calls(node, lambda one: replace_series(one, series))
