"""Comparison of two views: whether they are of one thing, and whether both can be true."""

from __future__ import annotations

from enum import StrEnum

from fathom.services.planner.model.memory import View
from fathom.services.planner.model.slots import parse_day

# Units of views that have no number of their own: a rise or fall, and the time of an event as a number of days, which
# is told to the day, the month or the year, with half of its length in days.
DIRECTION = "direction"
TIMES = {"date": 0.0, "month": 15.5, "year": 183.0}
# A year may be told from its first day or its first trading day, up to a week later.
WINDOW_DAYS = 7
# Two roundings of one value, or two ways to annualise it, differ by less.
RELATIVE = 0.02
# Changes that are next to nothing have no direction; "about unchanged" excludes those beyond the second.
FLAT, NOTICEABLE = 0.5, 5.0
PERCENT, YEAR_DAYS = "%", 365.25


class Statistic(StrEnum):
    """Statistic of a quantity in its period that a view gives."""

    READING = "reading"
    """The value on a day, or of the period as a whole."""
    MEAN = "mean"
    HIGHEST = "highest"
    LOWEST = "lowest"
    YEARLY = "yearly"
    """A total over years as a rate per year."""
    COUNT = "count"
    DATE = "date"
    GAP = "gap"
    """The first entity's value minus the second's, in the order of their ids."""


# datafetch's names of computations that are statistics of a reading.
COMPUTED = {
    "max": Statistic.HIGHEST,
    "maximum": Statistic.HIGHEST,
    "min": Statistic.LOWEST,
    "minimum": Statistic.LOWEST,
    "mean": Statistic.MEAN,
    "last": Statistic.READING,
    "": Statistic.READING,
}
RETURN, RATE = "return", "cagr"
EXTREMES = {Statistic.HIGHEST: 1.0, Statistic.LOWEST: -1.0}
BOUNDED = frozenset({Statistic.READING, Statistic.MEAN, *EXTREMES})


def split_measure(measure: str) -> tuple[str, Statistic]:
    """Return the quantity of a measure, with what it rests on, and its statistic.

    A measure is "quantity/statistic", or "indicator/computation;basis" as datafetch reads it.
    """
    body, mark, basis = measure.partition(";")
    head, _, how = body.partition("/")
    tail = f"{mark}{basis}"
    if how in [*Statistic]:
        return f"{head}{tail}", Statistic(how)
    if how in COMPUTED:
        return f"{head}{tail}", COMPUTED[how]
    # A rate per year tells the same return as its total.
    if how == RATE:
        return f"{head}/{RETURN}{tail}", Statistic.YEARLY
    return measure, Statistic.READING


def is_same_thing(left: View, right: View) -> bool:
    """Return whether two views are of one measure of one entity in one period, in comparable units."""
    # Another measure of the same company is another thing, however near the numbers.
    if (left.entity, left.measure) != (right.entity, right.measure):
        return False
    if {left.unit, right.unit} <= TIMES.keys():
        return all(is_time_within(*pair) for pair in ((left, right), (right, left)))
    return is_same_window(left, right) and (has_same_unit(left, right) or DIRECTION in (left.unit, right.unit))


def has_same_unit(left: View, right: View) -> bool:
    """Return whether the values of two views are in one unit: two currencies would take a rate and a day."""
    return left.unit.casefold() == right.unit.casefold() or {left.unit, right.unit} <= TIMES.keys()


def excludes(left: View, right: View) -> bool:
    """Return whether two views cannot both be true."""
    if is_same_thing(left, right):
        return differs(left, right)
    if left.entity != right.entity or not has_same_unit(left, right) or left.unit in (DIRECTION, *TIMES):
        return False
    (one, how), (other, by) = split_measure(left.measure), split_measure(right.measure)
    if one != other:
        return False
    if {how, by} == {Statistic.YEARLY, Statistic.READING}:
        total, rate = (left, right) if by is Statistic.YEARLY else (right, left)
        return is_same_window(left, right) and differs_from_rate(total, rate)
    return is_beyond(left, right) or is_beyond(right, left)


def is_beyond(bound: View, other: View) -> bool:
    """Return whether a view has a value outside of an extreme of a period that contains its own."""
    how, by = split_measure(bound.measure)[1], split_measure(other.measure)[1]
    if how not in EXTREMES or by not in BOUNDED or not is_within(other, bound):
        return False
    # The extreme of a part is no more than the extreme of the whole, and may be less.
    excess = EXTREMES[how] * (other.value - bound.value)
    return excess > find_slack(bound, other)


def is_within(inner: View, outer: View) -> bool:
    """Return whether the period of a view lies in that of another; open ends of the other are far away."""
    first, last = parse_day(inner.first), parse_day(inner.last)
    begin, end = parse_day(outer.first), parse_day(outer.last)
    # Something without a period may be of any time.
    if begin is None and end is None:
        return False
    is_after = begin is None or (first is not None and (begin - first).days <= WINDOW_DAYS)
    is_before = end is None or (last is not None and (last - end).days <= WINDOW_DAYS)
    return is_after and is_before


def is_time_within(time: View, other: View) -> bool:
    """Return whether the time of an event lies in the period of another view of it, whose open ends are far away.

    An extreme of a longer period may lie outside of the shorter one; within both it is one day.
    """
    first, last = parse_day(other.first), parse_day(other.last)
    is_after = first is None or time.value >= first.toordinal() - TIMES[time.unit]
    return is_after and (last is None or time.value <= last.toordinal() + TIMES[time.unit])


def is_same_window(left: View, right: View) -> bool:
    """Return whether two views are of the same period."""
    return all(is_near(*pair) for pair in ((left.first, right.first), (left.last, right.last)))


def is_near(left: str, right: str) -> bool:
    first, second = parse_day(left), parse_day(right)
    # An open end equals only an open end: "so far" moves on with the data.
    if first is None or second is None:
        return first is second
    return abs((first - second).days) <= WINDOW_DAYS


def differs(left: View, right: View) -> bool:
    """Return whether two values of one thing exclude each other: by their signs, or beyond their roundings."""
    if left.unit == right.unit == DIRECTION:
        return left.value * right.value < 0
    if DIRECTION in (left.unit, right.unit):
        direction, told = (left, right) if left.unit == DIRECTION else (right, left)
        # Of a direction and a value only the signs can exclude each other; "unchanged" excludes a large change.
        if not direction.value:
            return told.unit == PERCENT and abs(told.value) > NOTICEABLE
        return abs(told.value) >= FLAT and direction.value * told.value < 0
    return abs(left.value - right.value) > find_slack(left, right)


def find_slack(left: View, right: View) -> float:
    """Return by how much two values may differ and be roundings of one."""
    # Days have no relative error: in 2 per cent of all days since the year 1 lie forty years.
    if left.unit in TIMES:
        return TIMES[left.unit] + TIMES[right.unit]
    return RELATIVE * max(abs(left.value), abs(right.value)) + left.tolerance + right.tolerance


def differs_from_rate(total: View, rate: View) -> bool:
    """Return whether a total change cannot be a rate per year over the same period; both in per cent."""
    first, last = parse_day(total.first), parse_day(total.last)
    if total.unit != PERCENT or first is None or last is None or total.value <= -100:
        return False
    years = ((last - first).days + 1) / YEAR_DAYS
    rates = [((1 + value / 100) ** (1 / years) - 1) * 100 for value in widen(total)]
    slack = rate.tolerance + RELATIVE * max(abs(rate.value), *map(abs, rates))
    return not min(rates) - slack <= rate.value <= max(rates) + slack


def widen(view: View) -> tuple[float, float]:
    """Return the lowest and highest value that a rounded one may stand for, in per cent above a whole loss."""
    return max(view.value - view.tolerance, -99.99), view.value + view.tolerance
