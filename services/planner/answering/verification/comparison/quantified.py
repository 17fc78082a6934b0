"""Statements about several periods or entities: of all, none, most or so many of them, of one alone, and the first one.

Each is read as a quantifier, what it counts, and a condition, and computed from the columns in every reading that the
words allow. Reasons are "" where a statement holds, and None where nothing decides it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fathom.services.planner.answering.verification.comparison.conditions import Conditions, Subject
from fathom.services.planner.answering.verification.comparison.courses import drop_wider
from fathom.services.planner.answering.verification.comparison.extremes import find_kind_of
from fathom.services.planner.answering.verification.comparison.measuring import Tables
from fathom.services.planner.answering.verification.comparison.parts import (
    LENGTHS,
    Clause,
    find_scopes,
    list_relations,
)
from fathom.services.planner.answering.verification.comparison.quantifiers import Quantifier, Quantity
from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.elliptical import MONTHS_OF, add_months, compute_month_end
from fathom.services.planner.answering.verification.events import DIRECTIONS
from fathom.services.planner.answering.verification.evidence import Series
from fathom.services.planner.answering.verification.lookup import find_mentions
from fathom.services.planner.answering.verification.typed.programs import Programs, write_span

# "In every month but December": a contrast that says nothing else is an exception.
EXCEPT = re.compile(r"\W*but\b", re.IGNORECASE)
# Characters between "only" and the name that it is about, as in "only the".
NEXT_TO = 4


class QuantifiedCheck:
    """Check of quantified statements against some tables."""

    def __init__(self, tables: Tables, programs: Programs, known: Mapping[str, tuple[str, ...]]) -> None:
        """Create the check; ``known`` has the names of all entities of the run."""
        self._tables, self._programs, self._known = tables, programs, dict(known)
        self._conditions = Conditions(tables, programs)

    def judge(self, clause: Clause, quantity: Quantity, context: Clause) -> str | None:
        """Return why a quantified statement is false; ``context`` is the sentence around its clause."""
        behind = context.inside((clause.start + len(clause.text), len(context.text)))
        if EXCEPT.match(behind.text) and not has_condition(behind):
            return None
        rest = replace(clause, text=quantity.hide(clause.text))
        subject = self._conditions.read(rest)
        if subject is None:
            return None
        scopes = find_scopes(clause) or find_scopes(context)
        if quantity.unit or quantity.quantifier is Quantifier.FIRST:
            readings = self._list_over_periods(rest, quantity, subject, scopes)
        else:
            readings = self._list_over_entities(rest, quantity, subject, scopes)
        outcome = self._programs.judge(readings)
        return None if outcome is None else "" if outcome else "the tables say otherwise"

    def _list_over_periods(
        self, rest: Clause, quantity: Quantity, subject: Subject, scopes: Sequence[Moment]
    ) -> Iterator[str]:
        """Yield the readings of a statement about the periods of a unit, or about the first one of a kind."""
        dated = [one for one in scopes if one.first and one.last]
        if quantity.quantifier is Quantifier.FIRST:
            if not dated:
                return
            kind = min(find_kind_of(one) for one in dated)
            named = [one for one in dated if find_kind_of(one) == kind]
            if kind >= len(LENGTHS) or len(named) != 1:
                return
            unit = LENGTHS[kind][1]
        else:
            unit = quantity.unit
            longest = next((length for length, name in LENGTHS if name == unit), 0)
            named = [one for one in dated if one.days <= longest]
        if subject.right is not None and find_scopes(subject.right) and find_scopes(subject.left):
            # The other side's periods are what is compared with, and no members.
            named, scopes = [], find_scopes(subject.left)
            if quantity.quantifier is Quantifier.FIRST:
                return
        wider = drop_wider([one for one in scopes if one not in named])
        if len(wider) > 1 or (quantity.edge and not wider):
            return
        wider = [narrow(one, quantity) for one in wider]
        is_joint = quantity.quantifier is Quantifier.ALL
        for condition in self._conditions.write(subject, unit, rest, is_joint):
            inside = f"within({condition}, {write_span(wider[0])})" if wider else condition
            if quantity.quantifier is Quantifier.FIRST:
                yield f"in_period(first_day({inside}), {write_span(named[0])})"
            elif (whole := write_count(quantity, inside)) and len(named) not in (0, quantity.count):
                continue
            elif whole:
                members = [f"all({condition}, {write_span(one)})" for one in named]
                yield " and ".join([whole, *members])

    def _list_over_entities(
        self, rest: Clause, quantity: Quantity, subject: Subject, scopes: Sequence[Moment]
    ) -> Iterator[str]:
        """Yield the readings of a statement about several entities."""
        mentioned = find_mentions(rest.text, self._known)
        pool = self._find_pool(rest.text, mentioned)
        if len(pool) < 2 or quantity.size not in (0, len(pool)):
            return
        named = [one for one in pool if mentioned.get(one.entity, -1) >= quantity.end]
        nearest = min((mentioned[one.entity] for one in named), default=len(rest.text))
        is_only = quantity.quantifier is Quantifier.ONLY
        if is_only and nearest > quantity.end + NEXT_TO:
            return
        for of_each in self._conditions.write_each(subject, pool, scopes):
            if is_only:
                pairs = zip(pool, of_each, strict=True)
                yield " and ".join(said if one in named else f"not ({said})" for one, said in pairs)
            elif whole := write_count(quantity, f"[{', '.join(of_each)}]", len(pool)):
                yield whole

    def _find_pool(self, text: str, mentioned: Mapping[str, int]) -> list[Series]:
        """Return the columns of one measure, by entity; of several measures those that a text names."""
        columns = [one for one in self._tables.series if one.entity]
        if len({one.entity for one in columns}) < len(columns):
            named = self._tables.find_series(text)
            columns = [one for one in named if one.entity]
        if len({one.entity for one in columns}) < len(columns) or len({one.unit for one in columns}) > 1:
            return []
        listed = [one for one in columns if one.entity in mentioned]
        return listed if len(listed) > 2 else columns


def write_count(quantity: Quantity, condition: str, size: int = 0) -> str:
    """Return the formula that a condition, or each of a list, holds so often; "" for a quantifier that counts none."""
    if quantity.quantifier is Quantifier.ALL:
        return f"all({condition})"
    if quantity.quantifier is Quantifier.NONE:
        return f"not any({condition})"
    if quantity.quantifier is Quantifier.COUNT and quantity.count:
        return f"count({condition}) == {quantity.count}"
    if quantity.quantifier is Quantifier.MOST:
        return f"count({condition}) > {size / 2}" if size else f"count({condition}) > count(not {condition})"
    return ""


def narrow(scope: Moment, quantity: Quantity) -> Moment:
    """Return the first or the last so many units of a period, where a quantifier is about those only."""
    months = quantity.size * MONTHS_OF.get(quantity.unit, 0)
    if not (quantity.edge and months and scope.first and scope.last):
        return scope
    if quantity.edge == "first":
        end = add_months(scope.first, months - 1)
        return replace(scope, last=compute_month_end(end.year, end.month))
    return replace(scope, first=add_months(scope.last, 1 - months))


def has_condition(clause: Clause) -> bool:
    """Return whether a clause compares, or tells a rise or a fall."""
    return bool(list_relations(clause)) or any(pattern.search(clause.text) for pattern in DIRECTIONS)
