"""Points of lines: the value at a day, extremes, means, changes and growth over the window, largest and smallest."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import Any

import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.returns import DAYS_A_YEAR, YEAR_OF_CLOSES, describe_kind
from fathom.services.sandbox.inside.finance.steps.dates import find_day, read_period
from fathom.services.sandbox.inside.finance.steps.transforms import get_difference_unit, measure_ratio
from fathom.services.sandbox.inside.finance.steps.values import (
    MONTHLY,
    Group,
    Line,
    Note,
    Period,
    Point,
    describe_class,
    join_rows,
    map_members,
    measure_gap,
    read_count,
    read_number,
    write_note,
)

# Days by which the last value before a period may lie back: a week of holidays.
MOST_FILLED_DAYS = 7


@map_members
def at(line: Line, p: Any) -> Point:
    """Return the value of a day, or the last one of a month, quarter or year.

    A day without a value has the last one before it; of monthly and coarser series it has that of the period around it.
    Raise ``InvalidArgument`` naming the days that there are for a day behind the last one of a daily series, or a
    period without values; the last day of a period (``end``) may lie up to seven days behind the data.
    """
    wanted, known, gap = read_period(p, "p"), line.values.index, measure_gap(line.values)
    if not len(known):
        return line.make_point(None)
    last = known[-1] if wanted.end is None else wanted.end
    place = int(known.searchsorted(last, side="right")) - 1
    if place < 0:
        raise InvalidArgument("p", describe_lack(line, wanted))
    if wanted.start is None or known[place] >= wanted.start:
        return line.pick(line.values, known[place])
    age, is_coarse = (last - known[place]).days, gap > MONTHLY
    if is_coarse and (wanted.is_day or age > MOST_FILLED_DAYS):
        # The value of a month or quarter is dated by its end, after the day that was asked for.
        if place + 1 == len(known) or (known[place + 1] - last).days >= gap:
            raise InvalidArgument("p", describe_lack(line, wanted))
        return line.pick(line.values, known[place + 1])
    is_behind = place == len(known) - 1 and wanted.is_day and isinstance(p, Period) and not p.is_edge
    if age > MOST_FILLED_DAYS or is_behind:
        raise InvalidArgument("p", describe_lack(line, wanted))
    return line.pick(line.values, known[place])


def describe_lack(line: Line, wanted: Period) -> str:
    """Return that a line has no value for a period, with the days that there are."""
    known = line.values.index
    day = wanted.end if wanted.end is not None else known[-1]
    text = str(day.date()) if wanted.is_day or wanted.start is None else f"{wanted.start.date()} to {day.date()}"
    place = int(known.searchsorted(day, side="right"))
    if place == 0:
        return f"{line.name} has no value for {text}: it begins on {known[0].date()}"
    if place == len(known):
        return f"{line.name} has no value for {text}: it ends on {known[-1].date()}"
    around = f"{known[place - 1].date()} and {known[place].date()}"
    return f"{line.name} has no value for {text}: around it are those of {around}"


def pick_by(line: Line, find: Any) -> Point:
    """Return the value of the day that a function finds in the window; none for a window that a condition emptied."""
    cut = line.window
    return line.make_point(None) if cut.empty else line.pick(cut, find(cut))


@map_members
def first(line: Line) -> Point:
    """Return the first value of the window with its day."""
    return pick_by(line, lambda cut: cut.index[0])


@map_members
def last(line: Line) -> Point:
    """Return the last value of the window with its day."""
    return pick_by(line, lambda cut: cut.index[-1])


@map_members
def maximum(line: Line) -> Point:
    """Return the highest value of the window with its (first) day."""
    return pick_by(line, lambda cut: cut.idxmax())


@map_members
def minimum(line: Line) -> Point:
    """Return the lowest value of the window with its (first) day."""
    return pick_by(line, lambda cut: cut.idxmin())


def pool_points(function: Any) -> Any:
    """Apply a function of a line to the values of a group of points, which are those of as many things."""

    @wraps(function)
    def call(x: Any) -> Any:
        if isinstance(x, Group) and all(isinstance(one, Point) for one in x.members.values()):
            return replace(function(pool(x)), rows=join_rows(*x.members.values()))
        return function(x)

    return call


def pool(group: Group) -> Line:
    """Return the values of a group of points as a line; refuse points without a value, and those of several units."""
    points = list(group.members.values())
    units = sorted({one.unit for one in points})
    if len(units) > 1:
        raise InvalidArgument("group", f"has values in {' and '.join(unit or 'no unit' for unit in units)}")
    values = [read_number(one, "group") for one in points]
    notes = tuple(dict.fromkeys(note for one in points for note in one.notes))
    return Line(pd.Series(values), ", ".join(group.members), units[0], notes=notes)


@pool_points
@map_members
def mean(line: Line) -> Point:
    """Return the mean of the window's values, or of the values of a group of points, in their unit."""
    return line.make_point(line.window.mean())


@pool_points
@map_members
def median(line: Line) -> Point:
    """Return the median of the window's values, or of the values of a group of points, in their unit."""
    return line.make_point(line.window.median())


@map_members
def total(line: Line) -> Point:
    """Return the sum of the window's values, in their unit."""
    cut = line.window
    return line.make_point(None if cut.empty else cut.sum())


@map_members
def std(line: Line) -> Point:
    """Return the sample standard deviation of the window's values, in their unit; none of a single value."""
    return line.make_point(line.window.std())


@map_members
def count(line: Line) -> Point:
    """Return the number of values in the window."""
    return line.make_point(len(line.window), unit="")


def pick_extremes(x: Any, n: Any, is_largest: bool) -> Group:
    """Return the n largest or smallest values of a window by day, or members of a group of points by name."""
    size = read_count(n, "n")
    if isinstance(x, Line):
        cut = x.window.nlargest(size) if is_largest else x.window.nsmallest(size)
        return Group({str(day.date()): x.make_point(value, day) for day, value in cut.items()})
    if not isinstance(x, Group):
        raise InvalidArgument("x", f"must be a line or a group of points, not {describe_class(x)}")
    known = {name: one for name, one in x.members.items() if not (isinstance(one, Point) and one.value is None)}
    by_value = sorted(known, key=lambda name: read_number(known[name], "x"), reverse=is_largest)
    # Members without a value rank last.
    return Group({name: x.members[name] for name in [*by_value, *(x.members.keys() - known.keys())][:size]})


def top(x: Any, n: Any = 3) -> Group:
    """Return the n largest values of a line's window with their days, or the n largest members of a group of points."""
    return pick_extremes(x, n, True)


def bottom(x: Any, n: Any = 3) -> Group:
    """Return the n smallest values of a line's window with their days, or the n smallest of a group of points."""
    return pick_extremes(x, n, False)


def rank(x: Any) -> Group:
    """Return all members of a group of points, largest first; those without a value come last."""
    if not isinstance(x, Group):
        raise InvalidArgument("x", f"must be a group of points, not {describe_class(x)}")
    return pick_extremes(x, len(x.members), True)


def describe_return(line: Line) -> Any:
    """Return whether returns of the line are total or price returns, as far as its sheet says."""
    return describe_kind(line.get_frame())


@map_members
def ret(line: Line) -> Point:
    """Return the % change over the window; of rates and changes the difference, in percentage points for %."""
    cut, base = line.take_held()
    ends = {"day": cut.index[-1], "first": cut.index[0]}
    if not line.has_returns:
        note = write_note("ret of rate", base=base)
        return line.make_point(cut.iloc[-1] - cut.iloc[0], unit=get_difference_unit(line.unit), notes=(note,), **ends)
    value = (measure_ratio(cut.iloc[0], cut.iloc[-1], "line") - 1) * 100
    return line.make_point(value, unit="%", notes=(write_note("ret", kind=describe_return(line), base=base),), **ends)


@map_members
def change(line: Line) -> Point:
    """Return the change over the window in the line's own unit, percentage points for %."""
    cut, _ = line.take_held()
    unit = get_difference_unit(line.unit)
    return line.make_point(cut.iloc[-1] - cut.iloc[0], cut.index[-1], unit=unit, first=cut.index[0])


@map_members
def cagr(line: Line) -> Point:
    """Return compound growth over the window in % a year, over days/365.25 years; refuse rates."""
    check_returns(line)
    cut, base = line.take_held()
    ratio, length = measure_ratio(cut.iloc[0], cut.iloc[-1], "line"), (cut.index[-1] - cut.index[0]).days / DAYS_A_YEAR
    if cut.iloc[0] < 0 or ratio < 0:
        raise InvalidArgument("line", f"{line.name} is not always above 0, and has no compound growth")
    is_short = length < YEAR_OF_CLOSES
    short = ("; less than a year, projected to one", "；不足一年，按年推算") if is_short else ("", "")
    note: Note = write_note("cagr", years=f"{length:.2f}", base=base, short=short)
    ends = {"day": cut.index[-1], "first": cut.index[0]}
    return line.make_point((ratio ** (1 / length) - 1) * 100, unit="%", notes=(note,), **ends)


def check_returns(line: Line) -> None:
    """Raise ``InvalidArgument`` for a rate or a change, which has no return in %."""
    if not line.has_returns:
        raise InvalidArgument("line", f"{line.name} is a rate or a change, and has no return in %: use ret or change")


@map_members
def recovery(line: Line) -> Point:
    """Return the day on which the window's high was met again after a fall, and the days from the high.

    The day may lie behind the window; none where the high was not regained. ``finance.recovery`` asks for a value
    above the high instead.
    """
    cut = line.window
    if cut.empty:
        return line.make_point(None, unit="days")
    high = cut.idxmax()
    later = line.values[line.values.index > high]
    fallen = later.index[later < cut[high]]
    again = later.index[(later >= cut[high]) & (later.index > fallen[0])] if len(fallen) else later.index[:0]
    notes = (write_note("recovery"),)
    if not len(again):
        return line.make_point(None, unit="days", name=f"{line.name} not regained", first=high, notes=notes)
    return line.make_point((again[0] - high).days, again[0], unit="days", first=high, notes=notes)


@map_members
def percentile(line: Line, x: Any) -> Point:
    """Return the share in % of the window's values that are at or below a number."""
    return line.make_point((line.window <= read_number(x, "x")).mean() * 100, unit="%")


@map_members
def ahead(line: Line, a: Any, n: Any) -> Point:
    """Return the n-th observation after a day or point, below 0 before it; refuse one outside the data."""
    day, place = find_day(a, "a"), read_number(n, "n")
    if place == 0 or place != int(place):
        raise InvalidArgument("n", f"must be a whole number other than 0, not {place:g}")
    known = line.values.index
    found = known[known > day] if place > 0 else known[known < day][::-1]
    if len(found) < abs(place):
        side = "after" if place > 0 else "before"
        raise InvalidArgument("n", f"is {place:g}, and {line.name} has {len(found)} values {side} {day.date()}")
    return line.pick(line.values, found[abs(int(place)) - 1])


def size(group: Any) -> Point:
    """Return the number of members."""
    if not isinstance(group, Group):
        raise InvalidArgument("group", f"must be a group, not {describe_class(group)}")
    return Point(float(len(group.members)), None, "", "count")


def item(group: Any, n: Any) -> Any:
    """Return the n-th member of a group, from 1 on; 0 is the last one."""
    if not isinstance(group, Group):
        raise InvalidArgument("group", f"must be a group, not {describe_class(group)}")
    members, place = list(group.members.values()), read_number(n, "n")
    if place != int(place) or not 0 <= place <= len(members) or not members:
        raise InvalidArgument("n", f"is {place:g}, and the group has {len(members)} members")
    return members[int(place) - 1]
