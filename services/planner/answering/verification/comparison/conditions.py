"""Conditions that statements put on columns, as formulas: above a bound, above another column, higher than before.

A condition has several readings: a month's level is its last value or its mean, a rate may itself be the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from fathom.services.planner.answering.verification.comparison.courses import find_way
from fathom.services.planner.answering.verification.comparison.measuring import CHANGE, LEVEL, MEAN, Tables
from fathom.services.planner.answering.verification.comparison.parts import (
    Clause,
    find_scopes,
    is_stated,
    list_relations,
)
from fathom.services.planner.answering.verification.comparison.readings import choose_statistic, is_decline
from fathom.services.planner.answering.verification.comparison.relations import MERIT, SIZE, Relation, split_operands
from fathom.services.planner.answering.verification.comparison.sides import ONE_BEFORE
from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.elliptical import add_months
from fathom.services.planner.answering.verification.events import DIRECTIONS
from fathom.services.planner.answering.verification.evidence import Series
from fathom.services.planner.answering.verification.numbers import Number
from fathom.services.planner.answering.verification.typed.programs import Programs, write_span
from fathom.services.planner.answering.verification.units import PERCENT, find_kind, has_unit

# Values of which only a day's last one, or a period's mean, is spoken of.
HOWS = ("last", "mean")
# Months.
YEAR = 12
EXACT = 1e-6


@dataclass(frozen=True)
class Subject:
    """A comparison or a direction that a clause states of its columns: ``sign`` 1 for more and -1 for less."""

    sign: int
    statistic: str
    left: Clause
    right: Clause | None
    """The other side; None for a direction and for a comparison with the period before."""


class Conditions:
    """Writer of conditions over the columns of some tables."""

    def __init__(self, tables: Tables, programs: Programs) -> None:
        self._tables, self._programs = tables, programs

    def read(self, clause: Clause) -> Subject | None:
        """Return what a clause says of its columns; None unless it has one comparison, or one direction and none."""
        relations = list_relations(clause)
        if not relations:
            ways = [find_way(clause, pattern) for pattern in DIRECTIONS]
            if bool(ways[0]) == bool(ways[1]) or any(is_stated(number) for number in clause.numbers):
                return None
            return Subject(1 if ways[0] else -1, CHANGE, clause, None)
        relation = relations[0]
        spans = split_operands(clause.text, relation)
        if spans is None and relation.needs_than:
            # "Apple returned more in every year": than the other one of two.
            spans = (0, len(clause.text)), (0, 0)
        if len(relations) > 1 or relation.is_superlative or spans is None:
            return None
        left, right = (clause.inside(span) for span in spans)
        falling = relation.dimension == SIZE and is_decline(clause, relation)
        sign = self._orient(clause, relation) * (-1 if falling else 1)
        statistic = choose_statistic(clause, relation)
        return Subject(sign, statistic, left, None if ONE_BEFORE.search(right.text) else right)

    def _orient(self, clause: Clause, relation: Relation) -> int:
        """Return the sign of a relation of values: the worse rate of unemployment is the higher one."""
        named = self._tables.find_series(clause.text) or self._tables.series
        is_adverse = bool(named) and all(one.is_adverse for one in named)
        return -relation.sign if relation.dimension == MERIT and relation.needs_than and is_adverse else relation.sign

    def write(self, subject: Subject, unit: str, clause: Clause, is_joint: bool) -> Iterator[str]:
        """Yield the readings of a condition on the periods of a unit, as truths by date.

        With ``is_joint``, a rise or fall may be one of several entities that the clause names, of each of them.
        """
        named = self._tables.find_series(subject.left.text) or self._tables.find_series(clause.text)
        columns = named or self._tables.series
        sign = ">" if subject.sign > 0 else "<"
        if subject.right is None:
            entities = {one.entity for one in columns}
            is_listed = len(entities) == len(columns) and entities <= set(self._tables.find_entities(clause.text))
            if len(columns) == 1 or (is_joint and is_listed):
                for steps in zip(*(self._list_steps(one, unit) for one in columns), strict=False):
                    yield " and ".join(f"({step} {sign} 0)" for step in steps)
            return
        bound = find_bound(subject.right)
        if bound is not None:
            if len(columns) == 1 and has_unit(bound, columns[0].unit):
                for limit in list_limits(bound, columns[0]):
                    yield from (f"{level} {sign} {limit!r}" for level in self._list_levels(columns[0], unit))
            return
        periods = [find_scopes(side) for side in (subject.left, subject.right)]
        if len(columns) == len(periods[0]) == len(periods[1]) == 1:
            if add_months(periods[0][0].first or date.min, -YEAR) == (periods[1][0].first or date.max):
                yield from (f"changes({level}, 'year') {sign} 0" for level in self._list_levels(columns[0], unit))
            return
        others = [one for one in self._tables.find_series(subject.right.text) if one not in named]
        mine = [one for one in named if one not in others]
        if not others and len(mine) == 1 and len(self._tables.series) == 2:
            others = [one for one in self._tables.series if one is not mine[0]]
        if len(mine) != 1 or len(others) != 1 or all(periods):
            return
        lists = self._list_steps if subject.statistic == CHANGE else self._list_levels
        for one, other in zip(lists(mine[0], unit), lists(others[0], unit), strict=False):
            yield f"{one} {sign} {other}"

    def _list_levels(self, series: Series, unit: str) -> list[str]:
        name = self._programs.name(series)
        return [name] if unit == "day" else [f"per({name}, {unit!r}, {how!r})" for how in HOWS]

    def _list_steps(self, series: Series, unit: str) -> list[str]:
        """Return the readings of the change of a column from one period of a unit to the next."""
        kind = "changes" if find_kind(series.unit) == PERCENT or (series.values <= 0).any() else "growths"
        steps = [f"{kind}({level})" for level in self._list_levels(series, unit)]
        # The column may hold changes itself: "output grew in each quarter" of a rate of growth.
        return [*steps, *self._list_levels(series, unit)] if is_change(series) else steps

    def write_each(self, subject: Subject, pool: Sequence[Series], scopes: Sequence[Moment]) -> Iterator[list[str]]:
        """Yield the readings of a condition on each of some columns."""
        names, sign = [self._programs.name(one) for one in pool], ">" if subject.sign > 0 else "<"
        is_rate = any(find_kind(one.unit) == PERCENT for one in pool)
        scopes = sorted(scopes, key=lambda one: one.first or date.min)
        if subject.right is None:
            if len(scopes) > 2 or not scopes:
                return
            span = ", ".join(write_span(one) for one in scopes)
            yield [f"change({name}, {span}) {sign} 0" for name in names]
            if len(scopes) == 1 and all(has_course(one, scopes[0]) for one in pool):
                yield [f"last({name}, {span}) - first({name}, {span}) {sign} 0" for name in names]
            if all(is_change(one) for one in pool):
                yield [f"last({name}, {write_span(scopes[-1])}) {sign} 0" for name in names]
            return
        periods = [find_scopes(side) for side in (subject.left, subject.right)]
        bound = find_bound(subject.right)
        if bound is None:
            if subject.statistic in (LEVEL, MEAN, "") and len(periods[0]) == len(periods[1]) == 1:
                one, other = (write_span(found[0]) for found in periods)
                for how in HOWS:
                    yield [f"{how}({name}, {one}) {sign} {how}({name}, {other})" for name in names]
            return
        if len(scopes) != 1 or not all(has_unit(bound, one.unit) for one in pool):
            if len(scopes) == 1 and bound.kind and not is_rate:
                yield [f"growth({name}, {write_span(scopes[0])}) {sign} {bound.value!r}" for name in names]
            return
        for limit in list_limits(bound, pool[0]):
            for how in HOWS:
                yield [f"{how}({name}, {write_span(scopes[0])}) {sign} {limit!r}" for name in names]


def list_limits(bound: Number, series: Series) -> tuple[float, float]:
    """Return the values of a column between which a stated bound lies: one with decimals is rounded, "7 %" is not."""
    scale = series.scale if bound.scaled else 1.0
    # What was stored with few digits differs from the same number in the text.
    slack = min(bound.tolerance, 0.5 * 10**-bound.decimals) if bound.decimals else EXACT * abs(bound.value)
    return (bound.value - slack) / scale, (bound.value + slack) / scale


def has_course(series: Series, scope: Moment) -> bool:
    """Return whether a column has several values in a period."""
    return sum(scope.covers(day) for day in series.days or ()) > 1


def is_change(series: Series) -> bool:
    """Return whether a column may hold changes itself: rates of which some are negative."""
    return find_kind(series.unit) == PERCENT and bool((series.values < 0).any())


def find_bound(side: Clause) -> Number | None:
    """Return the only value of a side of a comparison."""
    stated = [one for one in side.numbers if is_stated(one) and not one.is_difference]
    return stated[0] if len(stated) == 1 else None
