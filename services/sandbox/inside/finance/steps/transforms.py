"""Lines made of lines: values by period, changes, growth, averages, and arithmetic of lines and points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import check_choice
from fathom.services.sandbox.inside.finance.steps.dates import check_frequency
from fathom.services.sandbox.inside.finance.steps.values import (
    EVERY,
    MONTHLY,
    POINTS,
    Group,
    Line,
    Note,
    Point,
    aggregate,
    describe,
    join_rows,
    map_members,
    measure_gap,
    name_step,
    read_count,
    read_number,
    write_note,
)

HOW = ("last", "first", "mean", "sum", "max", "min", "count")
# Months of a period of each code.
WIDTHS = MappingProxyType({"M": 1, "Q": 3, "Y": 12})
# Periods a year by the usual days between values, for growth at a yearly rate.
PERIODS_A_YEAR = MappingProxyType({30: 12, 91: 4, 365: 1})
# Unit of a currency's line: how many of it one euro is.
PER_EURO = "per EUR"
# Of two series with gaps that differ by more than this factor the finer one is averaged.
DIFFERENT = 3


def get_difference_unit(unit: str) -> str:
    """Return the unit of a difference of two values in a unit."""
    return POINTS if unit.startswith("%") else unit


@map_members
def every(line: Line, freq: str, how: str) -> Line:
    """Return one value a week, month, quarter or year, by last, first, mean, sum, max, min or count of its values.

    Of a line with a window only the values in it count, but for "last".
    """
    check_frequency(freq)
    check_choice(how, HOW, "how")
    if freq == "day":
        return line
    has_window = line.start is not None or line.end is not None
    values = line.window if has_window and how != "last" else line.values
    return line.derive(aggregate(values, freq, how), unit="" if how == "count" else line.unit)


def take_last(line: Line, freq: str) -> Any:
    """Return the last value of each period; for "day" each observation."""
    check_frequency(freq)
    return line.values if freq == "day" else aggregate(line.values, freq)


@map_members
def moves(line: Line, freq: str) -> Line:
    """Return the % change from period to period, of each one's last value; "day" takes each observation.

    Raise ``InvalidArgument`` for rates, whose changes are ``steps``.
    """
    if not line.has_returns:
        raise InvalidArgument("line", f"{line.name} is a rate or a change, and has no percent change: use steps")
    values = take_last(line, freq)
    return line.derive((values / values.shift(1) - 1) * 100, unit="%", kind="move")


@map_members
def steps(line: Line, freq: str) -> Line:
    """Return the change from period to period in the line's own unit, percentage points for rates in %."""
    return line.derive(take_last(line, freq).diff(), unit=get_difference_unit(line.unit), kind="move")


def compare_earlier(line: Line, months: int) -> Line:
    """Return each value's growth in % on that so many months before; of rates and changes the difference."""
    values = line.values if measure_gap(line.values) >= MONTHLY else aggregate(line.values, "month")
    code = EVERY[name_step(measure_gap(values))][0]
    lag = months // WIDTHS[code]
    if lag == 0:
        raise InvalidArgument("line", f"{line.name} has values by {name_step(measure_gap(values))}, too few for this")
    dates = values.index.to_period(code)
    known = values.set_axis(dates)[~dates.duplicated(keep="last")]
    earlier = known.reindex(dates - lag).to_numpy()
    if line.has_returns:
        return line.derive((values / earlier - 1) * 100, unit="%", kind="move")
    return line.derive(values - earlier, unit=get_difference_unit(line.unit), kind="move")


@map_members
def yoy(line: Line) -> Line:
    """Return growth on the year before in %, by month, quarter or year; of rates the difference."""
    return compare_earlier(line, 12)


@map_members
def qoq(line: Line) -> Line:
    """Return growth on the quarter before in %; of rates the difference."""
    return compare_earlier(line, 3)


@map_members
def mom(line: Line) -> Line:
    """Return growth on the month before in %; of rates the difference."""
    return compare_earlier(line, 1)


@map_members
def annualise(line: Line) -> Line:
    """Return growth from one observation to the next at a yearly rate in %, compounded."""
    if not line.has_returns:
        raise InvalidArgument("line", f"{line.name} is a rate or a change, and has no growth")
    gap = measure_gap(line.values)
    count = PERIODS_A_YEAR[min(PERIODS_A_YEAR, key=lambda days: abs(days - gap))]
    ratio = line.values / line.values.shift(1)
    return line.derive((ratio.where(ratio > 0) ** count - 1) * 100, unit="%", kind="move")


def roll(line: Line, n: Any, measure: str) -> Line:
    """Return a measure of the last n observations of each day; refuse a line with fewer."""
    count = read_count(n, "n")
    if count > len(line.values):
        raise InvalidArgument("n", f"is {count}, and {line.name} has {len(line.values)} values")
    return line.derive(getattr(line.values.rolling(count), measure)())


@map_members
def average(line: Line, n: Any) -> Line:
    """Return the moving average of the last n observations, in the line's unit."""
    return roll(line, n, "mean")


@map_members
def rolling_max(line: Line, n: Any) -> Line:
    """Return the highest of the last n observations, in the line's unit."""
    return roll(line, n, "max")


@map_members
def rolling_min(line: Line, n: Any) -> Line:
    """Return the lowest of the last n observations, in the line's unit."""
    return roll(line, n, "min")


@map_members
def magnitude(x: Any) -> Any:
    """Return the absolute values of a line, or of a point or number."""
    if isinstance(x, Line):
        return x.derive(x.values.abs())
    point = x if isinstance(x, Point) else Point(read_number(x, "x"), name=describe(x))
    return replace(point, value=abs(read_number(point, "x")))


def align(one: Line, other: Line) -> tuple[Any, tuple[Note, ...]]:
    """Return two lines as columns x and y on common dates, and a note where this took an average.

    Values of months and coarser steps match by their period, whatever its day. Of different steps the finer line
    counts with its mean over each period of the coarser one.
    """
    gaps = measure_gap(one.values), measure_gap(other.values)
    x, y, notes = one.values, other.values, ()
    freq = name_step(max(gaps))
    if min(gaps) * DIFFERENT < max(gaps):
        found = [aggregate(values, freq, "mean") for values in (x, y)]
        x, y = (values.set_axis(values.index.to_period(EVERY[freq][0])) for values in found)
        both = pd.concat([x, y], axis=1, keys=["x", "y"]).dropna()
        return both.set_axis(both.index.end_time.normalize()), (write_note("aligned", freq=(freq, EVERY[freq][1])),)
    if max(gaps) > MONTHLY:
        x, y = aggregate(x, freq), aggregate(y, freq)
    return pd.concat([x, y], axis=1, keys=["x", "y"]).dropna(), notes


def combine_lines(one: Line, other: Line, operate: Callable[..., Any], sign: str, unit: str | None) -> Line:
    """Return one line with another applied to it on common dates; two prices over each other stay a price."""
    both, notes = align(one, other)
    name = f"{one.name} {sign} {other.name}"
    if both.empty:
        raise InvalidArgument("b", f"{other.name} has no date in common with {one.name}")
    if sign in "*/":
        kind, found_unit = "price" if one.kind == other.kind == "price" else "level", ""
    else:
        kind, found_unit = "level" if one.kind == "price" else one.kind, one.unit
        found_unit = get_difference_unit(found_unit) if other.unit.startswith("%") else found_unit
    window = {
        "start": one.start if one.start is not None else other.start,
        "end": one.end if one.end is not None else other.end,
        "is_day": one.is_day if one.start is not None else other.is_day,
    }
    return one.derive(
        operate(both["x"], both["y"]),
        name=name,
        kind=kind,
        unit=found_unit if unit is None else unit,
        indicator="",
        notes=tuple(dict.fromkeys(one.notes + other.notes + notes)),
        **window,
    )


def combine(a: Any, b: Any, operate: Callable[..., Any], sign: str, unit: str | None = None) -> Any:
    """Return a line of two lines or of a line and a number, or a point of two points or numbers."""
    if isinstance(a, Line) and isinstance(b, Line):
        return combine_lines(a, b, operate, sign, unit)
    if sign == "/" and not isinstance(b, Line) and read_number(b, "b") == 0:
        raise InvalidArgument("b", "is 0, and nothing can be divided by it")
    if isinstance(a, Line):
        return a.derive(operate(a.values, read_number(b, "b")), **({} if unit is None else {"unit": unit}))
    if isinstance(b, Line):
        found_unit = unit if unit is not None else "" if sign == "/" else b.unit
        return b.derive(operate(read_number(a, "a"), b.values), unit=found_unit)
    return combine_points(a, b, operate, sign, unit)


def combine_points(a: Any, b: Any, operate: Callable[..., Any], sign: str, unit: str | None) -> Point:
    """Return the point of two points or numbers; a plain number leaves the other one's unit."""
    value = float(operate(read_number(a, "a"), read_number(b, "b")))
    units = [one.unit if isinstance(one, Point) else None for one in (a, b)]
    if unit is None and None in units:
        unit = (units[0] or units[1] or "") if sign != "/" else units[0] or ""
    elif unit is None:
        check_alike(str(units[0]), str(units[1]), sign)
        is_difference = units[0] and units[1] and str(units[1]).startswith("%")
        unit = "" if sign in "*/" else get_difference_unit(str(units[0])) if is_difference else units[0] or ""
    days = [getattr(one, "day", None) for one in (a, b)]
    notes = tuple(dict.fromkeys(getattr(a, "notes", ()) + getattr(b, "notes", ())))
    day = days[0] if days[0] is not None else days[1]
    name = f"{describe(a)} {sign} {describe(b)}"
    return Point(value, day, unit, name, days[1], notes, rows=join_rows(a, b))


def check_alike(one: str, other: str, sign: str) -> None:
    """Refuse the sum or difference of a rate and an amount; what is in no unit may be either."""
    rates = ("%", "percentage")
    if sign in "+-" and one and other and one.startswith(rates) != other.startswith(rates):
        raise InvalidArgument("b", f"is in {other}, which has no sum or difference with what is in {one}")


@map_members
def minus(a: Any, b: Any) -> Any:
    """Return a less b, in the unit of a; two in % give percentage points."""
    return combine(a, b, lambda x, y: x - y, "-")


@map_members
def plus(a: Any, b: Any) -> Any:
    """Return the sum, in the unit of a."""
    return combine(a, b, lambda x, y: x + y, "+")


@map_members
def times(a: Any, b: Any) -> Any:
    """Return the product; the product of two price lines is a price, a number leaves the unit."""
    return combine(a, b, lambda x, y: x * y, "*")


@map_members
def over(a: Any, b: Any) -> Any:
    """Return a over b; of two price lines this is a price, a number below leaves the unit."""
    return combine(a, b, lambda x, y: x / y, "/")


@map_members
def share(a: Any, b: Any) -> Any:
    """Return a as % of b."""
    return combine(a, b, lambda x, y: x / y * 100, "/", "%")


@map_members
def pct(a: Any, b: Any) -> Point:
    """Return the % change from a to b; refuse one from 0, or from below 0 to above."""
    value = (measure_ratio(read_number(a, "a"), read_number(b, "b"), "a") - 1) * 100
    notes = tuple(dict.fromkeys(getattr(a, "notes", ()) + getattr(b, "notes", ())))
    first, day = getattr(a, "day", None), getattr(b, "day", None)
    return Point(value, day, "%", describe(b), first, notes, rows=join_rows(a, b))


def measure_ratio(first: float, last: float, name: str) -> float:
    """Return the last value over the first; refuse a first one of 0, or below 0 with a last one above."""
    if first == 0 or first < 0 < last:
        raise InvalidArgument(name, f"is {first:g}: a percent change from it to {last:g} has no meaning; use minus")
    return last / first


@map_members
def neg(x: Any) -> Any:
    """Return a number or point with the other sign."""
    return replace(x, value=-read_number(x, "x")) if isinstance(x, Point) else -read_number(x, "x")


def rate(of: Any, quoted: Any) -> Line:
    """Return the price of one unit of a currency in another, both given as units for one euro or as "EUR" itself."""
    for name, given in (("of", of), ("quoted", quoted)):
        if isinstance(given, Group) or not (isinstance(given, Line) or given == "EUR"):
            raise InvalidArgument(name, f"must be a line of a currency per euro or 'EUR', not {given!r}")
        # A price over a rate is an amount in another currency, and no rate.
        if isinstance(given, Line) and not given.unit.endswith(PER_EURO):
            unit = f"in {given.unit}" if given.unit else "without a unit"
            raise InvalidArgument(name, f"must be a line of a currency {PER_EURO}, and {given.name} is {unit}")
    if of == "EUR" and quoted == "EUR":
        raise InvalidArgument("quoted", "is the euro, as is of")
    if not isinstance(of, Line):
        priced: Line = replace(quoted, kind="price")
        return priced
    if not isinstance(quoted, Line):
        return of.derive(1 / of.values, unit=f"EUR per {of.name}", name=f"{of.name}/EUR", kind="price")
    found = combine_lines(quoted, of, lambda x, y: x / y, "/", f"{quoted.name} per {of.name}")
    return replace(found, name=f"{of.name}/{quoted.name}", kind="price")
