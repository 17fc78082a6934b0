"""Superlatives: whether a period or an entity is the first, or has a rank, among those of its kind.

Reasons are "" where a superlative holds, and None where nothing decides it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fathom.domain.text.numerals import ONE_TO_TEN
from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.comparison.extremes import (
    LOCAL,
    choose_candidate,
    has_candidate,
    is_extreme,
    is_reached,
    widen,
    year_of,
)
from fathom.services.planner.answering.verification.comparison.measuring import (
    ANY,
    CHANGE,
    LEVEL,
    MEAN,
    Tables,
    measure_period,
)
from fathom.services.planner.answering.verification.comparison.parts import PART, Clause, cut, find_scopes
from fathom.services.planner.answering.verification.comparison.readings import (
    FALL,
    choose_statistic,
    drop_differences,
    is_decline,
    is_of_period,
    is_opposite,
)
from fathom.services.planner.answering.verification.comparison.relations import LEVEL as BY_LEVEL
from fathom.services.planner.answering.verification.comparison.relations import Relation
from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.evidence import Series
from fathom.services.planner.answering.verification.lookup import find_mentions
from fathom.services.planner.answering.verification.units import PERCENT, find_kind

# "in these eleven years", "of the table", 样本中: all periods that there are.
WHOLE = re.compile(
    r"\b(?:of|in) (?:the|this) (?:table|sample|series|data)\b|\bon record\b|"
    rf"(?:[两这{ONE_TO_TEN}]|(?<!\d)\d{{1,2}})年(?:中|里|间|来|以来)|样本[中里内]|有记录以来",
    re.IGNORECASE,
)
# Before and behind "any other": the periods that a superlative compares with.
ANY_LATER = re.compile(r"\bany (?:later|following|subsequent)\b", re.IGNORECASE)
ANY_EARLIER = re.compile(r"\bany (?:earlier|previous|preceding|prior)\b", re.IGNORECASE)


class SuperlativeCheck:
    """Check of superlatives and ranks against some tables."""

    def __init__(self, tables: Tables, known: Mapping[str, tuple[str, ...]]) -> None:
        """Create the check; ``known`` has the names of all entities of the run."""
        self._tables, self._known = tables, dict(known)

    def judge(self, clause: Clause, relation: Relation, among: bool, sentence: Sentence) -> str | None:
        """Return why what is called the highest or lowest is not."""
        place = clause.start + relation.start
        part = next((one for one in cut(clause, PART) if one.start <= place < one.start + len(one.text)), clause)
        # "A -45%, B -21%, of which B fell most": the part of the superlative says whom it is of.
        named = list(find_mentions(part.text, self._known) or find_mentions(clause.text, self._known))
        scopes = find_scopes(clause) or find_scopes(Clause(0, sentence.text, sentence.moments, ()))
        pool = list(dict.fromkeys([*self._tables.entities]))
        is_listed = len(find_mentions(clause.text, self._known)) > 2
        among = among or relation.is_rank or is_listed or is_of_period(clause, relation)
        if len(named) == 1 and named[0] in pool and len(pool) > 1 and (among or not has_candidate(scopes)):
            return self._judge_entity(clause, relation, named[0], pool, scopes)
        dated = [one for one in scopes if one.first and one.last]
        if not has_candidate(scopes):
            return None
        return self.judge_period(clause, relation, choose_candidate(dated, relation), scopes, sentence.text)

    def judge_period(
        self, clause: Clause, relation: Relation, candidate: Moment, scopes: Sequence[Moment], context: str
    ) -> str | None:
        """Return why a period is not the highest or lowest one of its kind, or has another rank among them."""
        series = self._tables.find_series(clause.text) or self._tables.find_series(context) or self._tables.series
        # The extreme of a spread is none of the columns that it is made of.
        if self._tables.has_difference(series, candidate.text):
            return None
        if self._tables.has_extreme(clause.numbers, candidate.text, relation.sign):
            return ""
        readings: list[Moment | None] = [one for one in scopes if one is not candidate and one.days > candidate.days]
        readings = readings or [year_of(candidate), None]
        if WHOLE.search(clause.text):
            readings = [None]
        elif ANY_LATER.search(clause.text):
            readings = [replace(candidate, last=None)]
        elif ANY_EARLIER.search(clause.text):
            readings = [replace(candidate, first=None)]
        # "It peaked in May" may speak of one peak among several.
        if clause.text[relation.start : relation.end].lower().startswith(LOCAL):
            readings.append(widen(candidate))
        statistic = choose_statistic(clause, relation, context)
        # A drawdown runs through periods and is none of their values.
        if statistic not in (LEVEL, CHANGE, MEAN, ANY):
            return None
        # "the steepest fall came in May and the second steepest in June": the fall is named once.
        falling, numbers = is_decline(clause, relation) or FALL.search(context) is not None, clause.numbers
        # "Output shrank … to its low in June": the low is one of the level, whatever else the clause tells.
        is_open = relation.dimension == BY_LEVEL and statistic == CHANGE
        outcomes = [
            is_extreme(
                one,
                candidate,
                scope,
                relation,
                ANY if is_open or is_rate(one, statistic) else statistic,
                falling,
                numbers,
            )
            for one in series
            for scope in readings
        ]
        decided = [one for one in outcomes if one is not None]
        # "the highest close of 2018 was 55.64": the extreme inside of the period, no period among others.
        if relation.rank == 1 and any(is_reached(one, candidate, relation, clause.numbers) for one in series):
            return ""
        if not decided:
            return None
        return "" if any(decided) else f"the tables have another one than {candidate.text}"

    def _judge_entity(
        self, clause: Clause, relation: Relation, name: str, pool: Sequence[str], scopes: Sequence[Moment]
    ) -> str | None:
        """Return why an entity is not the first of several by a statistic."""
        statistic = choose_statistic(clause, relation)
        period = scopes[-1] if scopes else None
        values = {}
        for entity in pool:
            columns = [one for one in self._tables.series if one.entity == entity]
            printed = self._tables.find_printed(entity, statistic) if period is None else {}
            values[entity] = printed or (measure_period(columns[0], period, statistic) if len(columns) == 1 else {})
        columns = [one for one in self._tables.series if one.entity in pool]
        if PERCENT not in {find_kind(one.unit) for one in columns}:
            values = {entity: drop_differences(held) for entity, held in values.items()}
        falling, mine = is_decline(clause, relation), values[name]
        others = {entity: value for entity, value in values.items() if entity != name}
        above = [entity for entity, value in others.items() if is_opposite(mine, value, relation, falling)]
        below = [entity for entity, value in others.items() if is_opposite(value, mine, relation, falling)]
        if len(above) < relation.rank <= len(pool) - len(below):
            return "" if all(mine.keys() & value.keys() for value in others.values()) else None
        return f"the tables say so of {above[0]}" if above else f"the tables have {name} in another place"


def is_rate(series: Series, statistic: str) -> bool:
    """Return whether a change is what a column itself holds: CPI同比涨幅 is a level of the rate of inflation."""
    return statistic == CHANGE and find_kind(series.unit) == PERCENT and not series.is_adverse
