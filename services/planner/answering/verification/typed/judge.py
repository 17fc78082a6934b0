"""The judgement of typed claims: comparisons are computed from the columns, causes and events looked up by quotation.

A claim that names what there is not, or whose numbers the columns do not have in this form, is not judged: its writer
may have misread the statement. Only what was computed contradicts a statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fathom.services.planner.answering.verification.evidence import Series, Source
from fathom.services.planner.answering.verification.lookup import express_in, is_stateable, list_scales
from fathom.services.planner.answering.verification.numbers import Number, find_numbers, is_close
from fathom.services.planner.answering.verification.typed.claim import Operand, Relation, Statistic, TypedClaim
from fathom.services.planner.answering.verification.units import PERCENT, find_denominator, find_kind
from fathom.services.planner.model.episode import MaterialKind

# Statistics that are fractions of what they are computed from, and dates.
FRACTIONS = frozenset({Statistic.PERCENT_CHANGE, Statistic.VOLATILITY, Statistic.DRAWDOWN})
DATES = frozenset({Statistic.DATE_OF_HIGHEST, Statistic.DATE_OF_LOWEST})
CHANGES = frozenset({Statistic.CHANGE, Statistic.SIZE_OF_CHANGE})
# "About the same": neither is larger by more than a tenth.
SAME_WITHIN = 0.1
# Days of trading in a year, by which a daily volatility is made annual.
YEAR = 252
FEWEST = 3
# Two words occur in any document.
FEWEST_QUOTED = 4
LETTERS = re.compile(r"\w+")


@dataclass(frozen=True)
class Measured:
    """The value of an operand and the column that it is of."""

    value: float
    series: Series


class ClaimJudge:
    """Judge of the claims of one answer; pure."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = {source.number: source for source in sources}

    def explain(self, claim: TypedClaim, cited: Sequence[int]) -> str:
        """Return why a claim is false; "" for one that holds or cannot be judged. ``cited`` are its sources."""
        if claim.relation is Relation.STATED:
            return self._explain_unstated(claim, cited)
        left = self._measure(claim.left)
        if left is None:
            return ""
        if claim.relation in (Relation.LARGEST, Relation.SMALLEST):
            return self._explain_rank(claim, left)
        right = self._measure(claim.right)
        if claim.relation is Relation.EQUALS or (right is None and claim.relation in (Relation.MORE, Relation.LESS)):
            return explain_number(claim, left)
        return explain_pair(claim, left, right) if right is not None else ""

    def _explain_unstated(self, claim: TypedClaim, cited: Sequence[int]) -> str:
        """Return why no cited document gives a cause or event."""
        documents = [one for number in cited if (one := self._sources.get(number)) and one.kind is MaterialKind.PASSAGE]
        if not documents:
            return "a table or a calculation cannot show a cause: cite a document that gives it, or leave it out"
        words = fold(claim.quote)
        if len(words) >= FEWEST_QUOTED and any(words in fold(one.text) for one in documents):
            return ""
        return "a second model finds no words for it in the cited document"

    def _explain_rank(self, claim: TypedClaim, left: Measured) -> str:
        """Return why an operand has another place among some."""
        others = [self._measure(one) for one in claim.among if one != claim.left]
        values = [one.value for one in others if one is not None]
        if len(values) < len(others) or not values:
            return ""
        sign = 1 if claim.relation is Relation.LARGEST else -1
        ahead = sum(sign * value > sign * left.value for value in values)
        tied = sum(value == left.value for value in values)
        if ahead <= claim.rank - 1 <= ahead + tied:
            return ""
        return f"by the tables it is number {ahead + 1} of {len(values) + 1}"

    def _measure(self, operand: Operand | None) -> Measured | None:
        """Return the value of an operand; None where the material has none."""
        source = self._sources.get(operand.source) if operand else None
        if operand is None or source is None:
            return None
        found = [one for one in source.series if one.name == operand.column and one.days]
        value = compute(found[0], operand) if len(found) == 1 else None
        return None if value is None or not np.isfinite(value) else Measured(value, found[0])


def compute(series: Series, operand: Operand) -> float | None:
    """Return a statistic of a column in a period; None where it has too few values."""
    days = series.days or ()
    inside = [place for place, day in enumerate(days) if operand.first <= day <= operand.last]
    if not inside:
        return None
    part = np.asarray(series.values, float)[inside]
    before = [place for place, day in enumerate(days) if day < operand.first]
    simple: Mapping[Statistic, float] = {
        Statistic.LAST: part[-1],
        Statistic.FIRST: part[0],
        Statistic.MEAN: part.mean(),
        Statistic.SUM: part.sum(),
        Statistic.HIGHEST: part.max(),
        Statistic.LOWEST: part.min(),
        Statistic.DATE_OF_HIGHEST: days[inside[int(part.argmax())]].toordinal(),
        Statistic.DATE_OF_LOWEST: days[inside[int(part.argmin())]].toordinal(),
    }
    if operand.statistic in simple:
        return float(simple[operand.statistic])
    course = np.concatenate([np.asarray(series.values, float)[before[-1:]], part])
    return compute_course(course, operand.statistic)


def compute_course(course: np.ndarray, statistic: Statistic) -> float | None:
    """Return a statistic of values in the order of their dates."""
    if len(course) < 2:
        return None
    if statistic in CHANGES:
        change = float(course[-1] - course[0])
        return abs(change) if statistic is Statistic.SIZE_OF_CHANGE else change
    if (course <= 0).any():
        return None
    if statistic is Statistic.PERCENT_CHANGE:
        return float(course[-1] / course[0] - 1)
    if statistic is Statistic.DRAWDOWN:
        return float((course / np.maximum.accumulate(course) - 1).min())
    moves = course[1:] / course[:-1] - 1
    return float(moves.std(ddof=1) * YEAR**0.5) if len(moves) >= FEWEST else None


def explain_number(claim: TypedClaim, left: Measured) -> str:
    """Return why the left side is not the stated number, or not on the stated side of it."""
    number = read_number(claim.number)
    if number is None or claim.left is None or claim.left.statistic in DATES:
        return ""
    held = express(number, left, claim.left.statistic)
    if not held:
        return f"the table has it in {left.series.unit}, which is another unit"
    if claim.relation is Relation.EQUALS:
        # "Lost 30.2 %": the size of a change is stated without its sign.
        values = [left.value] if number.signed else [left.value, -left.value]
        return "" if any(is_close(value, held) for value in values) else f"by the table it is {left.value:.6g}"
    sign = 1 if claim.relation is Relation.MORE else -1
    return "" if any(sign * (left.value - value) >= -slack for value, slack in held) else "the numbers say the opposite"


def explain_pair(claim: TypedClaim, left: Measured, right: Measured) -> str:
    """Return why two sides are not in the relation of a claim."""
    one, other = left.value, right.value
    if claim.relation in (Relation.MORE, Relation.LESS):
        holds = one > other if claim.relation is Relation.MORE else one < other
        return "" if holds else "the numbers say the opposite"
    if claim.relation is Relation.SAME:
        is_same = abs(one - other) <= SAME_WITHIN * max(abs(one), abs(other))
        return "" if is_same else f"they differ: {one:.6g} and {other:.6g}"
    number = read_number(claim.number)
    if number is None or claim.left is None:
        return ""
    if claim.relation is Relation.RATIO:
        ratio = one / other if other else float("inf")
        factor = number.value / 100 if number.kind == "%" else number.value
        slack = number.tolerance / 100 if number.kind == "%" else number.tolerance
        return "" if abs(ratio - factor) <= slack else f"by the tables the ratio is {ratio:.3g}"
    statistic = Statistic.CHANGE if claim.left.statistic not in FRACTIONS else claim.left.statistic
    held = express(number, left, statistic, is_difference=True)
    if not held:
        return f"the table has it in {left.series.unit}, which is another unit"
    return "" if any(is_close(abs(one - other), [pair]) for pair in held) else f"by the tables it is {one - other:.6g}"


def express(
    number: Number, left: Measured, statistic: Statistic, is_difference: bool = False
) -> list[tuple[float, float]]:
    """Return a stated number with its tolerance in the unit of a statistic; [] where no unit of it can be that."""
    if statistic in FRACTIONS:
        if number.kind == "bp" and not is_difference:
            return []
        if number.kind not in ("%", "bp") or number.is_difference != is_difference:
            return [] if number.currency or number.noun or number.kind else [(number.value, number.tolerance)]
        factor = 1e-4 if number.kind == "bp" else 0.01
        return [(number.value * factor, number.tolerance * factor)]
    in_percent = find_kind(left.series.unit) == PERCENT
    if statistic in CHANGES and in_percent and number.kind == "%" and not number.is_difference:
        return []
    if not is_stateable(number, left.series):
        return []
    return [
        (value / scale, tolerance / scale)
        for value, tolerance in express_in(number, in_percent)
        for scale in list_scales(number, left.series)
    ]


def read_number(text: str) -> Number | None:
    """Return the only number of some words; None for none or several."""
    found = find_numbers(text)
    return replace(found[0], per=find_denominator(text, found[0])) if len(found) == 1 else None


def fold(text: str) -> str:
    """Return the letters and digits of a text alone, so that quotation marks and line breaks count for nothing."""
    return "".join(LETTERS.findall(text.lower()))
