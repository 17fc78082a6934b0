"""Values that follow from a column of the material: changes, averages, drawdowns, volatility, annual rates.

They support a number as its cells do, in whichever words it is told, but only over the periods that its sentence names
and over the whole column: the more values are derived, the more numbers equal one of them by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.evidence import Series, Source
from fathom.services.planner.answering.verification.lookup import (
    Match,
    express_in,
    find_entity,
    is_stateable,
    list_scales,
)
from fathom.services.planner.answering.verification.numbers import CURRENCIES, CURRENCY_IN_UNIT, Number, is_close
from fathom.services.planner.answering.verification.units import PERCENT, find_kind, may_share_denominator, name_kind

DAYS_A_YEAR = 365.25
# Observations a year of daily, weekly, monthly, quarterly and annual data; markets are open on about 252 days.
FREQUENCIES = (252, 52, 12, 4, 1)
STEPS = {252: "day", 52: "week", 12: "month", 4: "quarter"}
# Among the pairs of many columns some difference equals any number.
MOST_COLUMNS = 6
# A year of months; daily values are not added.
MOST_ADDED = 12
# Units of time by the days that a change over one has, at most.
SPANS = {"day": 4, "week": 9, "month": 35, "quarter": 100, "year": 380}
# Fewer changes give no standard deviation worth the name.
FEWEST = 3


class Window(NamedTuple):
    """Rows ``low`` to ``high`` of a column; ``is_period`` unless its first row is the base of a change only."""

    low: int
    high: int
    is_period: bool


class Measure(NamedTuple):
    """A derived value; the sign of a change is its direction, that of any other measure is none.

    ``per`` is the time that it is a rate of.
    """

    value: float
    is_change: bool = False
    per: str = ""


def find_derived(
    number: Number,
    source: Source,
    times: Sequence[Moment],
    columns: Sequence[Series] = (),
    named: Sequence[Series] = (),
) -> Iterator[Match]:
    """Yield the columns of a source, of the given ones if any, from which a value follows that a number states.

    Two columns together give one where the text has ``named`` both, or they are of one entity.
    """
    # "over 252 days": the length of a table is stated often and stands in no cell.
    if not number.kind and number.decimals == 0 and number.value == source.rows:
        yield Match(source.number, derived=True)
    yield from compare_columns(number, source, times, named)
    chosen = [one for one in source.series if any(one is other for other in columns)] or source.series
    for series in [*chosen, *(one for series in chosen if (one := invert_rate(series)) is not None)]:
        # A change of prices may be a percentage; an amount of money follows from no column of percentages.
        if (number.time or name_kind(number) not in ("", PERCENT)) and not is_stateable(number, series):
            continue
        # A change in percent may be one a year, an amount is counted per what its column is.
        if not number.kind and not may_share_denominator(number.per, series.per):
            continue
        in_percent = find_kind(series.unit) == PERCENT
        scales = list_scales(number, series)
        windows = list_windows(series, times)
        measures = [measure for one in windows for measure in compute_measures(series, one, number, in_percent)]
        measures += compare_periods(series, windows, number, in_percent)
        # A rise and a fall of the same size both support a number; its words say which is meant.
        for part in ([one for one in measures if one.value >= 0], [one for one in measures if one.value < 0]):
            if (hit := find_measure(number, part, scales, in_percent)) is not None:
                value, is_change, _ = hit
                opposite = is_change and value * number.value < 0
                key = "change" if is_change else ""
                yield Match(source.number, (), find_entity(series), opposite, None, key, True, value)


def invert_rate(series: Series) -> Series | None:
    """Return an exchange rate told the other way round, as euros per pound for pounds per euro; None for the rest."""
    held = CURRENCY_IN_UNIT.match(series.unit)
    if held is None or series.per not in CURRENCIES.values() or not (series.values > 0).all():
        return None
    own = CURRENCIES[held.group(1).lower()]
    return replace(series, unit=f"{series.per} per {own}", per=own, values=1 / series.values)


def has_count(number: Number, bounds: Sequence[Number], source: Source, times: Sequence[Moment]) -> bool:
    """Return whether a column has that many values above or below a bound in some period, or as many rises or falls."""
    for series in source.series:
        for low, high, _ in list_windows(series, times):
            part = series.values[low:high]
            tests = [part - bound.value / scale for bound in bounds for scale in list_scales(bound, series)]
            tests.append(np.diff(series.values[max(0, low - 1) : high]))
            if any(number.value in (int((one > 0).sum()), int((one < 0).sum())) for one in tests):
                return True
    return False


def compare_columns(
    number: Number, source: Source, times: Sequence[Moment], named: Sequence[Series]
) -> Iterator[Match]:
    """Yield the ratios, differences and sums of two columns of one unit on the last named days that a number states.

    Columns of two entities are compared only where both are named.
    """
    chosen = {id(one) for one in named}
    columns = [one for one in source.series if one.days][:MOST_COLUMNS]
    yield from find_share_of_all(number, source, columns, times)
    for left, right in permutations(columns, 2):
        # Of two columns the one can only be compared with the other.
        is_apart = left.entity != right.entity and not {id(left), id(right)} <= chosen and len(columns) > 2
        if is_apart or (left.unit != right.unit and len(columns) > 2):
            continue
        if (value := compare_courses(number, left, right, times)) is not None:
            yield Match(source.number, (), find_entity(left), False, None, "", True, value)
        if left.unit != right.unit:
            ratios = [
                Measure(one * left.scale / (other * right.scale))
                for one, other in pair_levels(left, right, times)
                if other
            ]
            if not number.kind and find_measure(number, ratios, {1.0}, False) is not None:
                yield Match(source.number, (), find_entity(left), False, None, "", True, number.value)
            continue
        in_percent = find_kind(left.unit) == PERCENT
        for one, other in pair_levels(left, right, times):
            # Rates in percent differ by percentage points, and their ratio is no percentage.
            factor = 100 if number.kind == "%" else 1
            has_ratio = other and not number.is_difference and not (number.kind and in_percent)
            measures = [Measure(one / other * factor)] if has_ratio else []
            if not number.kind or (in_percent and number.is_difference):
                measures += [Measure(one - other), Measure(one + other)]
            if (hit := find_measure(number, measures, list_scales(number, left), in_percent)) is not None:
                yield Match(source.number, (), find_entity(left), False, None, "", True, hit.value)


def find_share_of_all(
    number: Number, source: Source, columns: Sequence[Series], times: Sequence[Moment]
) -> Iterator[Match]:
    """Yield the column whose share in the sum of all columns of a source a percentage states, on a named day."""
    is_sum = len(columns) > 2 and len({one.unit for one in columns}) == 1 and find_kind(columns[0].unit) != PERCENT
    if number.kind != "%" or number.is_difference or not is_sum:
        return
    for moment in dict.fromkeys(times):
        held = [
            [float(value) for day, value in zip(one.days or (), one.values, strict=True) if moment.covers(day)][-1:]
            for one in columns
        ]
        total = sum(one[0] for one in held if one)
        for series, own in zip(columns, held, strict=True):
            if all(held) and total > 0 and is_close(own[0] / total * 100, [(number.value, number.tolerance)]):
                yield Match(source.number, (), find_entity(series), False, None, "", True, number.value)


def pair_courses(left: Series, right: Series, times: Sequence[Moment]) -> Iterator[tuple[Measure, Measure]]:
    """Yield the relative changes, in per cent, and the sums of two columns over each named period."""
    for moment in dict.fromkeys(times):
        windows = [[place for place, day in enumerate(one.days or ()) if moment.covers(day)] for one in (left, right)]
        if not all(windows):
            continue
        held = list(zip((left, right), windows, strict=True))
        parts = [one.values[max(0, places[0] - 1) : places[-1] + 1] for one, places in held]
        if all(len(part) > 1 and part[0] > 0 for part in parts):
            one, other = (float(part[-1] / part[0] - 1) * 100 for part in parts)
            yield Measure(one, True), Measure(other, True)
        if len(windows[0]) == len(windows[1]) <= MOST_ADDED and left.unit == right.unit:
            one, other = (float(side.values[places].sum()) for side, places in held)
            yield Measure(one), Measure(other)


def compare_courses(number: Number, left: Series, right: Series, times: Sequence[Moment]) -> float | None:
    """Return the difference of two columns' changes or sums that a number states; None where it states none."""
    in_percent = find_kind(left.unit) == PERCENT
    for one, other in pair_courses(left, right, times):
        # Changes in per cent differ by percentage points, sums by an amount.
        if (
            one.is_change != number.is_difference
            or (in_percent and one.is_change)
            or (number.kind and not one.is_change)
        ):
            continue
        scales = {1.0} if one.is_change else list_scales(number, left)
        made = [Measure(one.value - other.value)]
        if (hit := find_measure(number, made, scales, one.is_change)) is not None:
            return hit.value
    return None


def pair_levels(left: Series, right: Series, times: Sequence[Moment]) -> Iterator[tuple[float, float]]:
    """Yield the last values of two columns in each named period in which both have one."""
    for moment in dict.fromkeys(times):
        ends = [
            [value for day, value in zip(one.days or (), one.values, strict=True) if moment.covers(day)][-1:]
            for one in (left, right)
        ]
        if all(ends):
            yield float(ends[0][0]), float(ends[1][0])


def find_measure(number: Number, measures: Sequence[Measure], scales: set[float], in_percent: bool) -> Measure | None:
    """Return the first measure that the number states, scaled; an unsigned number matches either sign."""
    for value, is_change, per in measures:
        if not may_share_denominator(number.per, per):
            continue
        for scale in scales:
            wanted = [(said / scale, slack / scale) for said, slack in express_in(number, in_percent)[:1]]
            if is_close(value, wanted) or (not number.signed and is_close(-value, wanted)):
                return Measure(value * scale, is_change)
    return None


def list_windows(series: Series, times: Sequence[Moment]) -> list[Window]:
    """Return the windows of a column: all of it, each named period, and the spans between two of them."""
    out = {Window(0, len(series.values), True)}
    if series.days is None:
        return list(out)
    edges = set()
    for moment in dict.fromkeys(times):
        covered = [index for index, day in enumerate(series.days) if moment.covers(day)]
        if covered:
            edges.add((covered[0], covered[-1] + 1))
    for low, high in edges:
        out.add(Window(low, high, True))
        # A change of a month is one since the month before.
        if low:
            out.add(Window(low - 1, high, False))
        for start, end in edges:
            for base in (low - 1, low, high - 1):
                if 0 <= base < end and start > low:
                    out.add(Window(base, end, base == low))
    return sorted(out)


def compute_measures(series: Series, window: Window, number: Number, in_percent: bool) -> list[Measure]:
    """Return the measures of a window of a column that a number can state.

    The difference of two percentages is in percentage points, their relative change in percent.
    """
    part = series.values[window.low : window.high]
    if not len(part):
        return []
    first, last = float(part[0]), float(part[-1])
    percent = number.kind == "%"
    factor = 100 if percent else 1
    differences = [Measure(last - first, True)]
    relative = [Measure((last / first - 1) * factor, True, name_span(series, window))] if first else []
    # "2.8 times what it had been".
    levels = [Measure(last / first)] if first and not number.kind else []
    if window.is_period:
        levels.append(Measure(float(part.mean())))
        # A year of months, or of quarters, adds up.
        if 1 < len(part) <= MOST_ADDED and len(part) < len(series.values) + 1:
            levels.append(Measure(float(part.sum())))
        differences.append(Measure(float(part.max() - part.min())))
        differences += [Measure(one, True) for one in find_extremes(np.diff(part))]
    # Rates in percent have changes, but neither drawdowns nor annual rates of growth.
    if not in_percent and (part > 0).all():
        relative += compute_risk(series, window, factor, number.per)
    if not in_percent:
        # Percentage points and basis points are no differences of amounts.
        return ([] if number.is_difference else relative) if number.kind else [*differences, *levels, *relative]
    if number.is_difference:
        return [*differences, *levels] if number.kind == "bp" else differences
    return [*levels, *relative] if percent else [*differences, *levels, *relative]


def name_span(series: Series, window: Window) -> str:
    """Return the unit of time that a change over a window is one of; another word for a longer one, "" without days."""
    if series.days is None:
        return ""
    span = (series.days[window.high - 1] - series.days[window.low]).days
    return next((unit for unit, most in SPANS.items() if span <= most), "several years")


def compute_risk(series: Series, window: Window, factor: float, per: str) -> list[Measure]:
    """Return the largest changes, the drawdown, the volatility and the annual rate of positive values.

    The volatility is one a year; ``per`` its own step it is not annualised.
    """
    part = series.values[window.low : window.high]
    steps = part[1:] / part[:-1] - 1
    out = [Measure(one * factor, True) for one in find_extremes(steps)]
    out.append(Measure(float((part / np.maximum.accumulate(part) - 1).min()) * factor))
    days = series.days[window.low : window.high] if series.days is not None else ()
    years = (days[-1] - days[0]).days / DAYS_A_YEAR if len(days) > FEWEST and days[0] != date.min else 0.0
    if years > 0:
        a_year = min(FREQUENCIES, key=lambda one: abs(np.log(one / (len(steps) / years))))
        spread = float(steps.std(ddof=1)) * factor
        out.append(Measure(spread * a_year**0.5, per="year"))
        out += [Measure(spread, per=per)] if per and per == STEPS.get(a_year) else []
        # A rate of less than a year is not annualised.
        if years >= 1:
            exact, counted = years, len(steps) / a_year
            rates = [((part[-1] / part[0]) ** (1 / span) - 1) * factor for span in (exact, counted)]
            out += [Measure(rate, True, "year") for rate in rates]
    return out


def find_extremes(steps: Any) -> list[float]:
    """Return the largest and the smallest of some changes."""
    return [float(steps.max()), float(steps.min())] if len(steps) else []


def compare_periods(series: Series, windows: Sequence[Window], number: Number, in_percent: bool) -> list[Measure]:
    """Return the changes of means between two named periods, and from the equally long period before each."""
    whole = len(series.values)
    periods = [one for one in windows if one.is_period and one.high - one.low < whole]
    pairs = [(left, right) for left in periods for right in periods if left.high <= right.low]
    for low, high, _ in periods:
        if high - low > 1 and 2 * low - high >= 0:
            pairs.append((Window(2 * low - high, low, True), Window(low, high, True)))
    means = [tuple(float(series.values[one.low : one.high].mean()) for one in pair) for pair in pairs]
    if number.is_difference or (not number.kind and not in_percent):
        return [Measure(after - before, True) for before, after in means] if in_percent or not number.kind else []
    factor = 100 if number.kind == "%" else 1
    return [Measure((after / before - 1) * factor, True) for before, after in means if before]
