"""Conditions and exclusions that a question has and its program has not, or has the other way round."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType

from fathom.domain.chat.negation import find_exclusions
from fathom.domain.programs.language import Call, Node, Quote, Word, walk
from fathom.services.datafetch.parser import periods
from fathom.services.datafetch.parser.mention import Mention, MentionKind, select
from fathom.services.datafetch.programs.completing.question import (
    UNITS,
    Asked,
    KnownSeries,
    Program,
    list_calls,
    make_series,
    rewrite,
    rewrite_program,
)
from fathom.services.datafetch.programs.numbers import read_number
from fathom.services.datafetch.programs.resolve import GapReason
from fathom.services.datafetch.query.model import Frequency

OPERATORS = MappingProxyType({">": "above", ">=": "at_least", "<": "below", "<=": "at_most"})
COMPARING = frozenset({"count_if", "share_if", "first_if", "last_if", "longest"})
STATISTICS = MappingProxyType(
    {"mean": "mean", "median": "median", "max": "maximum", "min": "minimum", "sum": "total", "count": "count"}
)
# What is computed of each value by itself, so that values between others may be left out.
BY_VALUE = frozenset({*STATISTICS.values(), *(COMPARING - {"longest"}), "std", "top", "bottom"})
WINDOWS = frozenset({"within", "between", "after", "before", "recent"})
AMOUNT = re.compile(r"\d[\d,]*(?:\.\d+)?\s*(?:%|per ?cent)?")
# What may stand between an exclusion and the period that it means: 不算疫情那年（2020年）.
BRACKETS = ("(", "（")


def complete_directions(asked: Asked) -> Program:
    """Return the program whose comparisons go as the question's: "not above 2 percent" is at most."""
    unused = asked.select_unused(MentionKind.CONDITION, GapReason.UNUSED_NUMBER)

    def change(call: Call) -> Node | None:
        if call.name not in COMPARING | {"where"} or not isinstance(call.arguments[-1], Quote):
            return None
        words = call.arguments[-1].text
        found = [item for item in unused if words in asked.get_text(item) and item.value in OPERATORS]
        if len(found) != 1 or find_owner(asked, found[0]) is not None:
            return None
        return replace(call, arguments=(*call.arguments[:-2], Word(OPERATORS[found[0].value]), call.arguments[-1]))

    return rewrite_program(asked.program, change) if unused else asked.program


def complete_conditions(asked: Asked) -> Program:
    """Return the program over the days on which a series that no step has meets the one condition of the question."""
    unused = asked.select_unused(MentionKind.CONDITION, GapReason.UNUSED_NUMBER)
    condition = unused[0] if len(unused) == 1 else None
    owner = find_owner(asked, condition) if condition is not None else None
    amount = AMOUNT.search(asked.get_text(condition)) if condition is not None else None
    if condition is None or owner is None or amount is None or condition.value not in OPERATORS:
        return asked.program
    level = amount[0].strip()
    series = find_series(asked, owner)
    if series is None or read_number(level) is None or not has_common_days(asked, series):
        return asked.program
    other = make_series(asked.get_text(owner), series)
    chosen = [STATISTICS[one.value] for one in select(asked.mentions, MentionKind.MEASURE) if one.value in STATISTICS]

    def change(step: Call) -> Node | None:
        # Who asks for a mean in the months of a condition has it counted by no other name.
        name = chosen[0] if step.name in COMPARING and len(set(chosen)) == 1 else step.name
        cut = step.arguments[0] if step.arguments else None
        if name not in STATISTICS.values() or not isinstance(cut, Call) or cut.name not in WINDOWS:
            return None
        given = (cut.arguments[0], other, Word(OPERATORS[condition.value]), Quote(level))
        return Call(name, (replace(cut, arguments=(Call("where", given), *cut.arguments[1:])),))

    steps = tuple(change(step) for step in asked.program)
    found = tuple(step for step in steps if isinstance(step, Call))
    return found if len(found) == len(asked.program) else asked.program


def correct_conditions(asked: Asked) -> Program:
    """Return the program whose condition is on the series that the question names right before it.

    Of "the days on which the VIX was above 25: the mean return of the S&P 500" the VIX has the condition.
    """
    conditions = select(asked.mentions, MentionKind.CONDITION)
    named = select(asked.mentions, MentionKind.ENTITY, MentionKind.INDICATOR)
    owners = [max((item for item in named if item.end <= one.start), key=lambda item: item.end, default=None)
              for one in conditions]  # fmt: skip
    series = find_series(asked, owners[0]) if len(owners) == 1 and owners[0] is not None else None
    targets = asked.list_targets()
    if series is None or len(targets) != 2 or series.id not in targets:
        return asked.program
    found = {one.target: one for one in list_calls(asked.program) if one.name == "series"}
    mine = found.pop(series.id)
    other = found.popitem()[1]

    def change(call: Call) -> Node | None:
        if call.name != "where" or mine not in walk(call.arguments[0]) or mine in walk(call.arguments[1]):
            return None
        swapped = [exchange(one, mine, other) for one in call.arguments[:2]]
        return replace(call, arguments=(*swapped, *call.arguments[2:]))

    return rewrite_program(asked.program, change)


def exchange(node: Node, one: Call, other: Call) -> Node:
    """Return a node with two series in each other's place."""
    return rewrite(node, lambda call: {one: other, other: one}.get(call))


def find_owner(asked: Asked, condition: Mention) -> Mention | None:
    """Return the name right before a condition if it is a series that no step has."""
    named = select(asked.mentions, MentionKind.ENTITY, MentionKind.INDICATOR)
    before = [item for item in named if item.end <= condition.start]
    owner = max(before, key=lambda item: item.end, default=None)
    series = find_series(asked, owner) if owner is not None else None
    return owner if series is not None and series.id not in asked.list_targets() else None


def find_series(asked: Asked, name: Mention) -> KnownSeries | None:
    """Return the one series that a name means by itself; None for one that leaves a choice."""
    return None if name.others else asked.find(name.value)


def has_common_days(asked: Asked, other: KnownSeries) -> bool:
    """Return whether the program's series have values as often as another one, so that no day is left out."""
    # Of a daily series all days of a month belong to its condition, and "where" has the day of its value alone.
    daily = UNITS[Frequency.DAILY]
    own, its = asked.find_unit(), UNITS.get(other.frequency, "")
    return bool(own and its) and (own == daily) == (its == daily)


def complete_exclusions(asked: Asked) -> tuple[Program, list[str]]:
    """Return the program without the values of the one period that is excluded, and the words that exclude it."""
    found = list(list_excluded(asked))
    if len(found) != 1 or any(one.name == "without" for one in list_calls(asked.program)):
        return asked.program, []
    period, words = found[0]

    def change(step: Call) -> Node | None:
        cut = step.arguments[0] if step.arguments else None
        if step.name not in BY_VALUE or not isinstance(cut, Call) or cut.name not in WINDOWS:
            return None
        line = Call("without", (cut.arguments[0], Quote(period)))
        return replace(step, arguments=(replace(cut, arguments=(line, *cut.arguments[1:])), *step.arguments[1:]))

    steps = tuple(change(step) for step in asked.program)
    changed = tuple(step for step in steps if isinstance(step, Call))
    return (changed, words) if len(changed) == len(asked.program) else (asked.program, [])


def list_excluded(asked: Asked) -> Iterator[tuple[str, list[str]]]:
    """Yield the period of each exclusion, and all its words: "leaving out 2008", 不算疫情那年（2020年）."""
    dated = select(asked.mentions, MentionKind.PERIOD)
    for start, end in find_exclusions(asked.question):
        phrase = asked.question[start:end]
        read = periods.read(phrase, asked.today, asked.today)
        behind = [item for item in dated if item.start > end and asked.question[end : item.start].strip() in BRACKETS]
        # The days in brackets say which ones the words before them mean.
        if behind:
            yield asked.get_text(behind[0]), [phrase, asked.get_text(behind[0])]
        elif len(read.periods) == 1 and not read.impossible:
            yield phrase, [phrase]
