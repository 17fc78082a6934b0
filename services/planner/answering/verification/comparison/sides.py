"""The two sides of a comparison: the columns and periods that they name, and whether these contradict the words.

Reasons are "" where a comparison holds, and None where nothing decides it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fathom.services.planner.answering.verification.comparison.measuring import (
    ANY,
    CHANGE,
    LEVEL,
    Tables,
    Values,
    measure_all,
    measure_period,
)
from fathom.services.planner.answering.verification.comparison.parts import (
    Clause,
    find_scopes,
    is_stated,
)
from fathom.services.planner.answering.verification.comparison.readings import (
    choose_statistic,
    drop_differences,
    is_decline,
    is_opposite,
    measure_stated,
    pick_number,
    pick_values,
)
from fathom.services.planner.answering.verification.comparison.relations import LEVEL as BY_LEVEL
from fathom.services.planner.answering.verification.comparison.relations import Relation
from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.evidence import Series
from fathom.services.planner.answering.verification.lookup import find_mentions
from fathom.services.planner.answering.verification.units import PERCENT, find_kind, has_unit

# "at the end of 2018", 2018年底: the last value and no mean.
AT_END = re.compile(r"\bend(?:-|\s+)(?:of|\w+\b)|\byear-?end\b|[年季月]底|[年季月]末|期末", re.IGNORECASE)
# The comparison must hold at every value of the period, not only between its ends.
ALWAYS = re.compile(
    r"\bthroughout\b|\balways\b|\bat all times\b|\ball (?:year|through)\b|始终|一直|全年都", re.IGNORECASE
)
# "higher than it had opened the year": compared with the beginning of the same period.
BEGINNING = re.compile(r"\b(?:open(?:s|ed)|start(?:s|ed)|beg[aiu]n|begins)\b|年初|期初|开盘时", re.IGNORECASE)
# "than the one before", 比上月: each period is compared with the period before it.
ONE_BEFORE = re.compile(
    r"^\s*(?:in |of |at )?(?:the |its )?(?:(?:one|month|quarter|year|day) before|previous|preceding|last\b)|^[上前]",
    re.IGNORECASE,
)
# "a mark that April 2020 surpassed": the head of a relative clause is the object of its verb.
RELATIVE_CLAUSE = re.compile(r"\b(?:that|which)\s+", re.IGNORECASE)


class SideCheck:
    """Check of comparisons that have two sides, or a bound, against some tables."""

    def __init__(self, tables: Tables, known: Mapping[str, tuple[str, ...]]) -> None:
        """Create the check; ``known`` has the names of all entities of the run."""
        self._tables, self._known = tables, dict(known)

    def turn_relative(self, clause: Clause, left: Clause, right: Clause, relation: Relation) -> tuple[Clause, Clause]:
        """Return the sides with what a relative clause says of its head turned: "a mark that April surpassed"."""
        found = list(RELATIVE_CLAUSE.finditer(left.text))
        is_verb = not relation.needs_than and not relation.is_superlative
        if not found or not is_verb or not clause.text[: relation.end].isascii():
            return left, right
        subject = clause.inside((found[-1].end(), relation.start))
        # "which exceeded 5%" has no subject of its own, and "that April surpassed it" an object.
        if not find_scopes(subject) and not find_mentions(subject.text, self._known):
            return left, right
        if not re.match(r"\s*(?:with|by|at|in|on|,|$)", right.text):
            return left, right
        own = clause.inside((found[-1].end(), len(clause.text)))
        return own, clause.inside((0, found[-1].start()))

    def compare(self, clause: Clause, left: Clause, right: Clause, relation: Relation) -> str | None:
        """Return why the tables contradict a comparison of two entities, measures or periods."""
        sides = self.find(left, right)
        if sides is None:
            return None
        one, other = sides
        periods = find_scopes(left), find_scopes(right)
        if one is other and not (periods[0] and periods[1]):
            return None
        # A date on one side is of both, unless the other one has its own; "in 2018 and in 2019" is true of both years.
        before, after = periods[0] or periods[1], periods[1] or periods[0]
        if all(periods):
            before, after = before[-1:], after[-1:]
        scopes: list[tuple[Moment | None, Moment | None]] = [*zip(before, after, strict=True)] or [(None, None)]
        if one is other and any(start == end for start, end in scopes):
            return None
        statistic = choose_statistic(clause, relation)
        falling, is_decided = is_decline(clause, relation), True
        for start, end in scopes:
            mine, theirs = self.measure((one, start, left), (other, end, right), statistic)
            if statistic in (LEVEL, ANY) and AT_END.search(clause.text):
                mine, theirs = ({name: side[name] for name in side if name == "last"} for side in (mine, theirs))
            if is_opposite(mine, theirs, relation, falling):
                return "the tables say the opposite for the period"
            is_decided = is_decided and bool(mine.keys() & theirs.keys())
        return "" if is_decided else None

    def measure(
        self,
        one: tuple[Series, Moment | None, Clause],
        other: tuple[Series, Moment | None, Clause],
        statistic: str,
    ) -> tuple[Values, Values]:
        """Return the values of both sides, in the reading that a number beside one of them gives."""
        told = [measure_stated(column, period, pick_values(side)) for column, period, side in (one, other)]
        names = told[0].keys() & told[1].keys() or told[0].keys() or told[1].keys()
        mine: Values
        theirs: Values
        if names:
            found = [measure_all(column, period) for column, period, _ in (one, other)]
            mine, theirs = ({name: value for name, value in side.items() if name in names} for side in found)
        else:
            mine, theirs = measure_period(*one[:2], statistic), measure_period(*other[:2], statistic)
        if one[0] is not other[0] and PERCENT not in (find_kind(one[0].unit), find_kind(other[0].unit)):
            # Differences of two prices say nothing of which rose more.
            mine, theirs = drop_differences(mine), drop_differences(theirs)
        if not one[1] and not other[1] and one[0].entity and other[0].entity:
            printed = [self._tables.find_printed(column.entity, statistic) for column, _, _ in (one, other)]
            mine, theirs = (printed[0], printed[1]) if all(printed) else (mine, theirs)
        return mine, theirs

    def judge_bound(self, clause: Clause, left: Clause, right: Clause, relation: Relation) -> str | None:
        """Return why a column never passes the bound that a clause names: "fell below 4.4% in 2007"."""
        scopes = find_scopes(clause)
        named = [one for one in right.numbers if is_stated(one) and not one.is_difference]
        if relation.dimension != BY_LEVEL or len(named) != 1 or len(scopes) != 1 or pick_number(left, clause, relation):
            return self._judge_beginning(left, right, relation, scopes)
        behind = clause.text[relation.end : named[0].start - clause.start]
        series = [one for one in self._tables.find_series(left.text) if has_unit(named[0], one.unit)]
        # The number is the bound only right behind the words of comparison.
        if len(series) != 1 or any(char.isalnum() for char in re.sub(r"\b(?:than|the|level|of)\b", "", behind)):
            return None
        days, bound = series[0].days or (), named[0].value / (series[0].scale if named[0].scaled else 1.0)
        inside = [float(value) for day, value in zip(days, series[0].values, strict=True) if scopes[0].covers(day)]
        passed = [relation.sign * (value - bound) > 0 for value in inside]
        if not inside:
            return None
        is_true = all(passed) if ALWAYS.search(clause.text) else any(passed)
        return "" if is_true else f"{series[0].name} is not in {scopes[0].text}"

    def _judge_beginning(self, left: Clause, right: Clause, relation: Relation, scopes: Sequence[Moment]) -> str | None:
        """Return why a column did not end a period higher, or lower, than it began it."""
        series = self._tables.find_series(left.text) or self._tables.series
        if not BEGINNING.search(right.text) or right.numbers or len(scopes) != 1 or len(series) != 1:
            return None
        changes = measure_period(series[0], scopes[0], CHANGE)
        if not changes:
            return None
        is_false = all(relation.sign * value < 0 for value in changes.values())
        return f"{series[0].name} went the other way in {scopes[0].text}" if is_false else ""

    def find(self, left: Clause, right: Clause) -> tuple[Series, Series] | None:
        """Return the column of each side; None unless each has exactly one, of one unit where they differ."""
        first, second = self._tables.find_series(left.text), self._tables.find_series(right.text)
        if len(first) > 1 and second and len({one.entity for one in self._tables.series}) > 1:
            first = [one for one in first if one not in second] or first
        if not first and not second and len(self._tables.series) == 1:
            first = self._tables.series
        # "three times its close of 2015": of whom the other side speaks.
        if len(first) == 1 and first[0] in second and not find_mentions(right.text, self._known):
            second = first
        # "Apple returned more in every year": more than the other one of two.
        if not second and not find_scopes(right) and len(first) == 1:
            same = [
                one for one in self._tables.series if one.name.rpartition(".")[2] == first[0].name.rpartition(".")[2]
            ]
            second = [one for one in same if one.entity != first[0].entity]
        first, second = first or second, second or first
        if len(first) != 1 or len(second) != 1 or first[0].unit.split(" (")[0] != second[0].unit.split(" (")[0]:
            return None
        return first[0], second[0]


def cut_statement(side: Clause) -> Clause:
    """Return the side of a comparison without a further statement behind a comma that has a date of its own."""
    for border in re.finditer(r"[,，;；]", side.text):
        if any(moment.start >= border.end() for moment in side.moments):
            return side.inside((0, border.start())) if side.text[: border.start()].strip() else side
    return side


def list_ratios(series: Series, start: Moment, end: Moment) -> list[float]:
    """Return the ratios of a column's levels in two periods, from any reading of the first to any of the second."""
    first, last = (
        [value for name, value in measure_all(series, period).items() if name in ("last", "mean", "top", "bottom")]
        for period in (start, end)
    )
    return [after / before for before in first for after in last if before]
