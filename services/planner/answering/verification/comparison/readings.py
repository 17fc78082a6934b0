"""Readings of a comparison: the statistic that is compared, and whether two sides contradict the words.

A month's level may be its last value or its mean, a change may be relative or absolute. A number that stands beside
the words says which of them is meant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fathom.services.planner.answering.verification.comparison.measuring import (
    ANY,
    CHANGE,
    DRAWDOWN,
    LEVEL,
    Values,
    measure_all,
)
from fathom.services.planner.answering.verification.comparison.parts import PART, Clause, is_stated
from fathom.services.planner.answering.verification.comparison.relations import LEVEL as BY_LEVEL
from fathom.services.planner.answering.verification.comparison.relations import MERIT, SIZE, Relation, load_lexicon
from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.events import DIRECTIONS, find_direction
from fathom.services.planner.answering.verification.evidence import Series
from fathom.services.planner.answering.verification.numbers import Number, is_close

# Things whose numbers are given as sizes without a sign: "a loss of 5%" is a change of -5 %.
DECLINE = re.compile(r"\b(?:loss(?:es)?|drawdowns?|downturn|slump|plunge)\b|回撤|跌幅|降幅|亏损|损失", re.IGNORECASE)
# Falls as things with a size: "the decline of October", "its loss", 跌幅.
FALL = re.compile(
    r"\b(?:the|an?|its|their|this|that|\w+'s?)\s+(?:\w+\s+){0,2}(?:decline|drop|fall|decrease|loss|drawdown|slump|slide)\b|"
    r"\bdrawdown\b|回撤|跌幅|降幅|亏损",
    re.IGNORECASE,
)
# "5% against 3%": both values of a comparison, in the order of its sides.
AGAINST = re.compile(r"\b(?:against|versus|vs|compared (?:with|to))\b|[对比]", re.IGNORECASE)
# "up on the year, and its best day was": another statement begins.
NEXT_STATEMENT = re.compile(r",\s+and\b", re.IGNORECASE)
# Readings of a change, which are negative in a fall.
FALLING = ("relative", "difference", "inside", "average", DRAWDOWN)


def drop_differences(values: Values) -> Values:
    """Return the values without absolute changes."""
    return {name: value for name, value in values.items() if name != "difference"}


def contradicts(left: Number, right: Number, relation: Relation, falling: bool) -> bool:
    """Return whether two stated numbers of one kind say the opposite."""
    if left.kind != right.kind or (left.currency and right.currency and left.currency != right.currency):
        return False
    values = {"stated": left.value}, {"stated": right.value}
    # "fell 3 %, worse than 2 %": the signs are in the words.
    if falling and relation.dimension == MERIT and left.value > 0 and right.value > 0:
        values = {"stated": -left.value}, {"stated": -right.value}
    return is_opposite(*values, relation, falling)


def is_decline(clause: Clause, relation: Relation) -> bool:
    """Return whether a clause is about falls, apart from its words of comparison."""
    rest = clause.text[: relation.start] + " " + clause.text[relation.end :]
    return DIRECTIONS[1].search(rest) is not None or DECLINE.search(rest) is not None


def choose_statistic(clause: Clause, relation: Relation, context: str = "") -> str:
    """Return the statistic that a clause compares, or else its context; ``ANY`` where neither says one."""
    rest = clause.text[: relation.start] + " " + clause.text[relation.end :]
    # The adjective may name it: "more volatile".
    if found := load_lexicon().find_statistic(clause.text if relation.dimension == SIZE else rest):
        return found
    if relation.is_superlative and relation.dimension == BY_LEVEL:
        # "peaked on 3 October, then lost ground": what follows is not what peaked.
        rest = PART.split(clause.text[: relation.start])[-1] + " " + PART.split(clause.text[relation.end :])[0]
    is_fall = DECLINE.search(rest) is not None or FALL.search(rest) is not None
    if relation.dimension == MERIT or is_fall or any(pattern.search(rest) for pattern in DIRECTIONS):
        return CHANGE
    if context and (found := load_lexicon().find_statistic(context)):
        return found
    if FALL.search(context):
        return CHANGE
    return LEVEL if relation.dimension == BY_LEVEL else ANY


def is_opposite(left: Values, right: Values, relation: Relation, falling: bool) -> bool:
    """Return whether all readings of both sides contradict a relation; False without a common one."""
    differences = []
    for name in left.keys() & right.keys():
        one, other = left[name], right[name]
        if relation.dimension == SIZE and one < 0 and other < 0:
            one, other = abs(one), abs(other)
        elif relation.dimension == SIZE and falling and name in FALLING:
            one, other = -one, -other
        differences.append(relation.sign * (one - other))
    return bool(differences) and all(one < 0 for one in differences)


def measure_stated(series: Series, period: Moment | None, numbers: Sequence[Number]) -> Values:
    """Return the values of a column in a period, of any statistic, that some number states."""
    stated = [number for number in numbers if is_stated(number) and not number.is_difference]
    found = measure_all(series, period) if stated else {}
    return {name: value for name, value in found.items() if any(states(one, value, series) for one in stated)}


def states(number: Number, value: float, series: Series) -> bool:
    """Return whether a number states a value of a column, in its scale or as a percentage, whatever its sign."""
    wanted = [(abs(said), slack) for said, slack in number.candidates()]
    return any(is_close(abs(value) * scale, wanted) for scale in {1.0, series.scale})


def pick_pair(left: Clause, right: Clause, clause: Clause, relation: Relation) -> tuple[Number | None, Number | None]:
    """Return the values of both sides: "A is above B, 5% against 3%" gives both behind the second side."""
    if joined := NEXT_STATEMENT.search(right.text):
        right = right.inside((0, joined.start()))
    one, other = pick_number(left, clause, relation), pick_number(right, clause, relation)
    if one or other or left.numbers:
        return one, other
    stated = [number for number in right.numbers if is_stated(number) and not number.is_difference]
    if len(stated) != 2:
        return None, None
    between = clause.text[stated[0].end - clause.start : stated[1].start - clause.start]
    return (stated[0], stated[1]) if AGAINST.search(between) else (None, None)


def pick_number(side: Clause, clause: Clause, relation: Relation) -> Number | None:
    """Return the only value of a side; none that says by how much the sides differ."""
    place = clause.start + relation.start, clause.start + relation.end
    values = [
        number
        for number in side.numbers
        if is_stated(number)
        and not number.is_difference
        and not is_amount(number, clause, relation)
        and not (clause.text[relation.start] in "比较" and number.start >= place[1] - 1)
    ]
    return values[0] if len(values) == 1 else None


def sign_change(number: Number, clause: Clause) -> Number:
    """Return a change with the sign of its direction: each side of "gained 34%, ahead of the index, which fell 20%"."""
    way = 0 if number.signed else find_direction(clause.text, number.start - clause.start)
    return replace(number, value=-abs(number.value), signed=True) if way < 0 else number


def is_amount(number: Number, clause: Clause, relation: Relation) -> bool:
    """Return whether a number says by how much: "2.3 % higher than"."""
    between = clause.text[max(0, number.end - clause.start) : relation.start]
    before = number.end - clause.start <= relation.start
    return before and not between.strip() and clause.text[relation.start].isascii()


def is_of_period(clause: Clause, relation: Relation) -> bool:
    """Return whether a superlative stands right before a period, as in "the worst 2020": it is of one of several."""
    return any(one.start == relation.end + 1 for one in clause.moments)


def is_definite(clause: Clause, relation: Relation) -> bool:
    """Return whether a comparative is one of two: "the deeper one"."""
    return relation.needs_than and re.search(r"\bthe $", clause.text[: relation.start], re.IGNORECASE) is not None


def align_merit(relation: Relation, relations: Sequence[Relation]) -> Relation:
    """Return a relation in the order of a superlative before it: the worst month is "ahead of" a better one."""
    first = next((one for one in relations if one.is_superlative and one.start < relation.start), None)
    if relation.dimension != MERIT or first is None or first.sign == 1:
        return relation
    return replace(relation, sign=-relation.sign, dimension=BY_LEVEL)


def pick_values(side: Clause) -> list[Number]:
    """Return the only value of a side of a comparison; [] when there are several, which may be of anything."""
    stated = [number for number in side.numbers if is_stated(number) and not number.is_difference]
    return stated if len(stated) == 1 else []
