"""Programs about a user's own tables: with the columns that their words mean and the statistics that are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from fathom.domain.programs.language import LOOKING_UP, Call, Node, Number, Quote, map_calls, walk
from fathom.services.datafetch.parser import lexicon
from fathom.services.datafetch.programs.own import OwnSeries
from fathom.services.datafetch.programs.own_words.naming import Named, OwnWords, holds, split_terms
from fathom.services.datafetch.programs.own_words.statistics import (
    MAX,
    MEAN,
    MEDIAN,
    MIN,
    SUM,
    find_statistics,
    list_asking_terms,
)

# Functions of several values, of which each is one of a period.
OF_VALUES = frozenset({"minus", "plus", "times", "over", "share", "pct", "top", "bottom", "rank", "each"})
EXTREMES = {"maximum": "top", "top": "top", "minimum": "bottom", "bottom": "bottom"}
FUNCTIONS = {MEAN: "mean", MEDIAN: "median", MAX: "maximum", MIN: "minimum"}
# Functions that a program of each statistic has beside those of looking up; "" is none.
FORMS = {
    "": frozenset({"total"}),
    MEAN: frozenset({"mean"}),
    MEDIAN: frozenset({"median"}),
    MAX: frozenset({"maximum", "top"}),
    MIN: frozenset({"minimum", "bottom"}),
    SUM: frozenset({"total", "plus"}),
}
# Functions of the course of values, of which nobody asks for a sum: the reader hears "drawn" as a fall.
FALLS = frozenset({"drawdown", "rise", "recovery", "vol"})
# Functions of the values of a period that have one result.
OF_WINDOWS = frozenset({"mean", "median"})


@dataclass(frozen=True)
class Settled:
    """A program with the columns that its words mean.

    ``is_sure`` says that the question names all of them, ``is_whole`` that it has no other words than these names, a
    period and a statistic, which the program is of; ``contradicts`` that the program is of another statistic. ``alike``
    are words that are only spelt like a column, each with its name.
    """

    program: tuple[Call, ...]
    is_sure: bool = False
    is_whole: bool = False
    contradicts: bool = False
    alike: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Asked:
    """A question about own tables: their names, what it asks for outside of names, and the months of its period."""

    words: OwnWords
    question: str
    statistic: str = ""
    months: int = 0
    has_kind: bool = False

    def has_single_values(self, group: str) -> bool:
        """Return whether each column of a group has one value in the period of the question."""
        return {self.words.own[ident].months for ident in self.words.groups[group]} == {self.months} != {0}


def settle(program: Sequence[Call], own: Mapping[str, OwnSeries], question: str, months: int = 0) -> Settled:
    """Return a program with the columns that its words mean and the statistics that the question asks for.

    ``months`` are those of the question's shortest period, 0 without any.
    """
    if not own:
        return Settled(tuple(program))
    words = OwnWords(own)
    series = [node for step in program for node in walk(step) if isinstance(node, Call) and node.name == "series"]
    found = {node: words.find(node.words, question) for node in series}
    names = frozenset(term for one in found.values() if one for term in one.terms)
    statistics = find_statistics(question, names)
    statistic = next(iter(statistics)) if len(statistics) == 1 else ""
    asked = Asked(words, question, statistic, months, has_kind(words, question))
    steps = tuple(add_up(ask(name_series(step, found), asked), asked) for step in program)
    is_sure, other = bool(series) and all(found.values()), find_other_forms(steps, statistic)
    is_single = len(program) == 1 and len(statistics) < 2
    has_other_form = any(other & form for form in FORMS.values()) or (statistic == SUM and bool(other & FALLS))
    return Settled(
        steps,
        is_sure,
        is_sure and is_single and not other and not list_other_terms(program, question, names),
        is_sure and is_single and has_other_form,
        list_alike(found),
    )


def list_alike(found: Mapping[Call, Named | None]) -> tuple[tuple[str, str], ...]:
    """Return the words that are only spelt like a column, each with the column's name."""
    near = [(join_words(node.words, one.more), one.alike) for node, one in found.items() if one and one.alike]
    return tuple(dict.fromkeys(near))


def join_words(words: str, more: str) -> str:
    """Return the words of a program with further ones of the question, which may repeat them."""
    return more if {*split_terms(words)} <= {*split_terms(more)} else f"{words} {more}".strip()


def find_other_forms(steps: Sequence[Call], statistic: str) -> frozenset[str]:
    """Return the functions of a program that are not those of looking up, nor of a statistic."""
    functions = {node.name for step in steps for node in walk(step) if isinstance(node, Call)}
    return frozenset(functions - LOOKING_UP - FORMS[statistic] - (FORMS[""] if statistic else frozenset()))


def has_kind(words: OwnWords, question: str) -> bool:
    """Return whether a question names what the things of a table are called: "which plant"."""
    terms = split_terms(question)
    return any(holds(terms, kind) for kind in words.kinds)


def list_other_terms(program: Sequence[Call], question: str, names: frozenset[str]) -> set[str]:
    """Return the words of a question that are in no name, ask for no statistic, and are quoted by no period."""
    if says_otherwise(question):
        return {question}
    quoted = [one.text for step in program for one in walk(step) if isinstance(one, Quote)]
    idle = {*lexicon.list_words("function_words"), *list_asking_terms(question), *names}
    return {*split_terms(question)} - idle - {term for text in quoted for term in split_terms(text)}


def says_otherwise(question: str) -> bool:
    """Return whether a question denies something or asks for each thing by itself."""
    denying = lexicon.list_words("function_words", "negation")
    return lexicon.says("severally", question) or not denying.isdisjoint(question.lower().split())


def name_series(node: Call, found: Mapping[Call, Named | None]) -> Call:
    """Return a call with the series that were found in place of those that the reader has linked."""
    if one := found.get(node):
        return replace(node, arguments=(*node.arguments, *([Quote(one.more)] if one.more else [])), target=one.target)
    return map_calls(node, lambda one: name_series(one, found))


def ask(step: Call, asked: Asked) -> Call:
    """Return a step that only looks up values with the statistic that the question asks for.

    The reader takes the words for a statistic for a part of a name where it does not know that.
    """
    target, function = find_target(step), FUNCTIONS.get(asked.statistic, "")
    functions = {node.name for node in walk(step) if isinstance(node, Call)}
    if not function or not functions <= LOOKING_UP or not (target in asked.words.own or target in asked.words.groups):
        return step
    while step.name == "last" and isinstance(step.arguments[0], Call):
        step = step.arguments[0]
    return Call(function, (replace(step, name="within") if step.name == "at" else step,))


def add_up(step: Call, asked: Asked) -> Call:
    """Return a step in which amounts of a period are added up, and members of a group compared by their values."""
    words, target = asked.words, find_target(step)
    is_sum = asked.statistic == SUM
    if target in words.groups and is_sum and step.name in ("at", "within", "total") and len(step.arguments) <= 2:
        # The sum over all things, where "total" is no word of a name.
        members = [replace_series(step, words.name_member(ident)) for ident in words.groups[target]]
        return reduce(lambda left, right: Call("plus", (left, right)), (take_value(one, words) for one in members))
    if step.name in ("at", "within") and target in words.own and (is_sum or words.own[target].is_amount):
        return total(step)
    if step.name in OF_WINDOWS and target in words.groups and asked.has_single_values(target):
        # A window of one value has no mean: it is that of the things.
        inner = step.arguments[0]
        return replace(step, arguments=(take_value(inner, words) if isinstance(inner, Call) else inner,))
    return take_values(step, asked)


def take_values(node: Call, asked: Asked) -> Call:
    """Return a call whose arguments that stand for one value of a period are one."""
    words, group = asked.words, find_target(node) if node.name in EXTREMES else ""
    if group in words.groups and isinstance(inner := node.arguments[0], Call):
        # Which of them, and not when.
        count: tuple[Node, ...] = node.arguments[1:] or (Number(1),)
        if inner.name in ("within", "at"):
            return Call(EXTREMES[node.name], (take_value(inner, words), *count))
        if inner.name == "series" and asked.has_kind:
            return Call(EXTREMES[node.name], (Call("last", (inner,)), *count))
    if node.name in OF_VALUES or node.name == "at":
        node = take_value(node, words)
    return map_calls(node, lambda one: take_values(one, asked))


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
