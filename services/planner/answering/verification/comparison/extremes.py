"""Extremes and ranks: whether a period is the highest, the lowest, or the second one of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np

from fathom.services.planner.answering.verification.comparison.measuring import (
    ANY,
    LEVEL,
    Values,
    measure_period,
    name_period,
    split_periods,
)
from fathom.services.planner.answering.verification.comparison.parts import LENGTHS, is_stated
from fathom.services.planner.answering.verification.comparison.readings import FALLING, measure_stated
from fathom.services.planner.answering.verification.comparison.relations import SIZE, Relation
from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.evidence import Series
from fathom.services.planner.answering.verification.numbers import Number, is_close

# Verbs and nouns of an extreme that may be one of several, and the periods around it above which it must stand.
LOCAL, NEIGHBOURS, FEWEST_DAYS = ("peak", "trough", "bottom", "top", "见", "触", "探"), 4, 45


# Characters by which a date behind words of an extreme is nearer to them than one before them.
BEHIND = 15


def has_candidate(scopes: Sequence[Moment]) -> bool:
    """Return whether some period is short enough to be one of several."""
    return any(moment.first and moment.last and moment.days <= LENGTHS[-1][0] for moment in scopes)


def choose_candidate(scopes: Sequence[Moment], relation: Relation) -> Moment:
    """Return the period that is called extreme: of the shortest kind in the text, the nearest to the words."""
    kinds = {moment: find_kind_of(moment) for moment in scopes}
    shortest = min(kinds.values())
    alike = [moment for moment in scopes if kinds[moment] == shortest]
    # "three months after its low in January": a date behind the words is rather theirs than one before them.
    return min(alike, key=lambda moment: max(moment.start - relation.end, relation.start - moment.stop + BEHIND))


def find_kind_of(moment: Moment) -> int:
    """Return the place of a period's length among those of days, months, quarters and years."""
    return next((place for place, (length, _) in enumerate(LENGTHS) if moment.days <= length), len(LENGTHS))


def year_of(moment: Moment) -> Moment:
    """Return the year around a period."""
    first, last = moment.first or date.min, moment.last or date.max
    return Moment(moment.start, moment.stop, moment.text, date(first.year, 1, 1), date(last.year, 12, 31))


def widen(period: Moment) -> Moment:
    """Return a period with several of its length before and behind it."""
    first, last = period.first or date.min, period.last or date.max
    around = timedelta(days=max(NEIGHBOURS * period.days, FEWEST_DAYS))
    return Moment(period.start, period.stop, period.text, first - around, last + around)


def is_reached(series: Series, period: Moment, relation: Relation, numbers: Sequence[Number]) -> bool:
    """Return whether one of some numbers is the extreme value of a column inside a period of several values."""
    days = series.days or ()
    inside = [float(value) for day, value in zip(days, series.values, strict=True) if period.covers(day)]
    if len(inside) < 2:
        return False
    values = np.array(inside)
    # "the largest daily rise of 2018 was 6.8%": an extreme of the changes.
    steps = [np.diff(values), values[1:] / values[:-1] - 1] if (values > 0).all() else [np.diff(values)]
    extremes = [values.max() if relation.sign > 0 else values.min()]
    if relation.dimension == SIZE:
        extremes += [abs(end) for one in steps for end in (one.max(), one.min())]
    candidates = [pair for number in numbers if is_stated(number) for pair in number.candidates()]
    return any(is_close(float(one) * scale, candidates) for one in extremes for scale in (1.0, series.scale))


def is_extreme(
    series: Series,
    candidate: Moment,
    scope: Moment | None,
    relation: Relation,
    statistic: str,
    falling: bool,
    numbers: Sequence[Number] = (),
) -> bool | None:
    """Return whether a period has its rank among those of its kind within a scope, in some reading; None if unknown."""
    unit = next(unit for length, unit in LENGTHS if candidate.days <= length)
    periods = list(split_periods(series, scope, unit))
    mine = [one for one in periods if candidate.covers(one.first or date.min)]
    names = {name_period(day, unit) for day in (candidate.first, candidate.last) if day}
    if len(names) != 1 or len(mine) != 1 or len(periods) < 2:
        return None
    # A number beside the words says which reading is meant.
    stated = measure_stated(series, mine[0], numbers)
    values = {one.text: measure_with_extremes(series, one, ANY if stated else statistic) for one in periods}
    held = values.pop(mine[0].text)
    held = {name: value for name, value in held.items() if name in stated} or held
    outcomes = []
    for name, value in held.items():
        # A fall is the larger the lower its change is.
        is_turned = relation.dimension == SIZE and falling and name in FALLING
        sign = -relation.sign if is_turned else relation.sign
        differences = [sign * (other[name] - value) for other in values.values() if name in other]
        if differences:
            above, level = sum(one > 0 for one in differences), sum(one == 0 for one in differences)
            outcomes.append(above < relation.rank <= above + level + 1)
    return any(outcomes) if outcomes else None


def measure_with_extremes(series: Series, period: Moment, statistic: str) -> Values:
    """Return the values of a statistic in a period; of levels with the highest and the lowest one."""
    found = measure_period(series, period, statistic)
    if statistic not in (LEVEL, ANY):
        return found
    inside = [float(value) for day, value in zip(series.days or (), series.values, strict=True) if period.covers(day)]
    return {**found, "top": max(inside), "bottom": min(inside)}
