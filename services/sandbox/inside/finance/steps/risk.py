"""Risk of lines: drawdown, volatility, ratios, beta and correlation, by the measures of ``finance`` in other units.

The windows are those of steps: from a single day a return counts from this day's value. Moves of rates, and of values
that are not always above 0 in the window, are differences, which ``finance`` refuses in volatility and beta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import count_per_year
from fathom.services.sandbox.inside.finance.risk import beta as measure_beta
from fathom.services.sandbox.inside.finance.risk import correlation as measure_correlation
from fathom.services.sandbox.inside.finance.risk import max_drawdown
from fathom.services.sandbox.inside.finance.risk import sharpe as measure_sharpe
from fathom.services.sandbox.inside.finance.risk import sortino as measure_sortino
from fathom.services.sandbox.inside.finance.risk import volatility as measure_volatility
from fathom.services.sandbox.inside.finance.steps.dates import check_frequency
from fathom.services.sandbox.inside.finance.steps.statistics import check_returns
from fathom.services.sandbox.inside.finance.steps.transforms import align
from fathom.services.sandbox.inside.finance.steps.values import (
    DAILY,
    EVERY,
    Group,
    Line,
    Point,
    aggregate,
    map_members,
    measure_gap,
    read_number,
    write_note,
)

# Moves below which a deviation or a correlation says nothing.
FEWEST_MOVES = 3
DAY = pd.Timedelta(days=1)


@map_members
def drawdown(line: Line) -> Point:
    """Return the deepest fall in % from a high of the window (below 0), with the days of high and low.

    Of a rate it is the relative fall as well. Without a fall the value is 0 and there is no day.
    """
    return measure_swing(line, is_fall=True)


@map_members
def rise(line: Line) -> Point:
    """Return the largest rise in % from a low of the window, with the days of low and high."""
    return measure_swing(line, is_fall=False)


def measure_swing(line: Line, is_fall: bool) -> Point:
    """Return the largest fall from a high or rise from a low; refuse values that are not above 0."""
    cut, notes = line.window, (write_note("drawdown" if is_fall else "rise"),)
    if (cut <= 0).any():
        day = cut.index[cut <= 0][0]
        raise InvalidArgument("line", f"{line.name} is {cut[day]:g} on {day.date()}: % of a high needs values above 0")
    if cut.empty:
        return line.make_point(None, unit="%", notes=notes)
    if is_fall:
        # Without the unit, by which a rate would be refused.
        row = max_drawdown(pd.DataFrame({line.name: cut})).iloc[0]
        value, origin, day = row["drawdown"], row["peak"], row["trough"]
    else:
        rises = cut / cut.cummin() - 1
        day = rises.idxmax()
        value, origin = rises[day], cut[:day].idxmin()
    if value == 0:
        return line.make_point(0.0, unit="%", notes=notes)
    return line.make_point(value * 100, day, unit="%", first=origin, notes=notes)


def hold_values(line: Line, freq: str) -> Any:
    """Return the last value of each period in the window, led by the one before it, so that each has a move."""
    check_frequency(freq)
    line.check_window()
    values = line.values if freq == "day" else aggregate(line.values, freq)
    # From a single day, its own value is the base of the first move.
    begin = line.start + DAY if line.start is not None and line.is_day else line.start
    inside = values.loc[begin : line.end]
    found = inside if begin is None else pd.concat([values[values.index < begin][-1:], inside])
    if len(found) <= FEWEST_MOVES:
        raise InvalidArgument(
            "line", f"{line.name} has {max(len(found) - 1, 0)} moves by {freq} in the window, fewer than {FEWEST_MOVES}"
        )
    return found


def name_frequency(values: Any, freq: str) -> tuple[str, str]:
    """Return the step of the moves in English and Chinese; "observation" where values are no daily ones."""
    return ("observation", "期") if freq == "day" and measure_gap(values) > DAILY else (freq, EVERY[freq][1])


def is_positive(line: Line, values: Any) -> bool:
    """Return whether the moves of these values are returns."""
    return line.has_returns and bool((values > 0).all())


@map_members
def vol(line: Line, freq: str = "day") -> Point:
    """Return the annualised standard deviation of returns by day, week, month, quarter or year, in %.

    Of a rate, and of values not always above 0, it is that of differences: in basis points for %, else in their unit.
    """
    values = hold_values(line, freq)
    count, shown = count_per_year(values.index, "line"), name_frequency(values, freq)
    if is_positive(line, values):
        note = write_note("vol", freq=shown, count=count)
        return line.make_point(measure_volatility(line.get_frame(values)) * 100, unit="%", notes=(note,))
    is_percent = line.unit.startswith("%")
    unit, scale = ("basis points", 100) if is_percent else (line.unit, 1)
    note = write_note("vol of differences", freq=shown, count=count, unit=unit or "their unit")
    return line.make_point(values.diff().std() * count**0.5 * scale, unit=unit, notes=(note,))


def measure_ratio_of(line: Line, risk_free: Any, freq: str, measure: Callable[..., Any], name: str) -> Point:
    """Return a ratio of excess return to risk; none where the risk is nil."""
    check_returns(line)
    values, free = hold_values(line, freq), read_number(risk_free, "risk_free")
    count = count_per_year(values.index, "line")
    note = write_note(name, freq=name_frequency(values, freq), count=count, rate=f"{free:g}")
    return line.make_point(measure(line.get_frame(values), free, "%"), unit="", notes=(note,))


@map_members
def sharpe(line: Line, risk_free: Any = 0.0, freq: str = "day") -> Point:
    """Return the annualised Sharpe ratio with a risk-free rate in % a year; refuse rates."""
    return measure_ratio_of(line, risk_free, freq, measure_sharpe, "sharpe")


@map_members
def sortino(line: Line, risk_free: Any = 0.0, freq: str = "day") -> Point:
    """Return the annualised Sortino ratio with a target in % a year; refuse rates."""
    return measure_ratio_of(line, risk_free, freq, measure_sortino, "sortino")


def hold_pair(a: Line, b: Line, freq: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the values of two lines on common dates in the window of the first one that has a window."""
    is_daily = max(measure_gap(a.values), measure_gap(b.values)) <= DAILY
    pair, notes = (pd.concat([a.values, b.values], axis=1, keys=["x", "y"]).dropna(), ()) if is_daily else align(a, b)
    if pair.empty:
        raise InvalidArgument("b", f"{b.name} has no date in common with {a.name}")
    window = a if a.start is not None or a.end is not None else b
    window = replace(window, name=f"{a.name} / {b.name}")
    columns = {side: hold_values(replace(window, values=pair[side]), freq) for side in pair}
    return pd.DataFrame(columns), tuple(dict.fromkeys(a.notes + b.notes + notes))


def describe_pair(pair: Any, freq: str, *lines: Line) -> dict[str, Any]:
    """Return the words of a convention of two lines."""
    kinds = {is_positive(line, pair[side]) for side, line in zip("xy", lines, strict=True)}
    kind = "mixed" if len(kinds) > 1 else "returns" if kinds == {True} else "differences"
    ends = {"n": len(pair) - 1, "start": pair.index[1].date(), "end": pair.index[-1].date()}
    return {"freq": name_frequency(pair, freq), "kind": write_note(kind)} | ends


def make_sheet(pair: Any, *lines: Line) -> Any:
    """Return a pair as a sheet on which ``finance`` takes returns or differences by the lines' kinds."""
    frame = pair.copy()
    frame.attrs = {"units": {side: "" if line.has_returns else "%" for side, line in zip("xy", lines, strict=True)}}
    return frame


def corr(a: Any, b: Any = None, freq: str = "day") -> Any:
    """Return the correlation of the moves of two lines by day, week, month, quarter or year.

    Of one group it gives that of each pair, of a group and a line that of each member with the line.
    """
    if isinstance(b, str):
        b, freq = None, b
    if isinstance(a, Group) and b is None:
        pairs = combinations(a.members.items(), 2)
        return Group({f"{one} / {two}": correlate(first, second, freq) for (one, first), (two, second) in pairs})
    if b is None:
        raise InvalidArgument("b", "must be a line, unless a is a group")
    return correlate(a, b, freq)


@map_members
def correlate(a: Line, b: Line, freq: str) -> Point:
    """Return the correlation of two lines' moves: returns, or differences of rates and what is not always above 0."""
    pair, notes = hold_pair(a, b, freq)
    found = measure_correlation(make_sheet(pair, a, b)).iloc[0, 1]
    note = write_note("corr", **describe_pair(pair, freq, a, b))
    return a.make_point(found, unit="", name=f"{a.name} / {b.name}", notes=(*notes, note))


@map_members
def levels_corr(a: Line, b: Line) -> Point:
    """Return the correlation of the values of two lines on common dates in both windows."""
    both, notes = align(a, b)
    for line in (a, b):
        both = both.loc[line.start : line.end]
    if len(both) <= FEWEST_MOVES:
        raise InvalidArgument("b", f"{b.name} and {a.name} have {len(both)} common dates in the window, too few")
    found = measure_correlation(both, "levels").iloc[0, 1]
    note = write_note("levels_corr", n=len(both), start=both.index[0].date(), end=both.index[-1].date())
    name = f"{a.name} / {b.name}"
    return Point(None if pd.isna(found) else float(found), None, "", name, None, (*a.notes, *b.notes, *notes, note))


@map_members
def beta(a: Line, market: Line, freq: str = "day") -> Point:
    """Return the slope of a line's moves on the market's, by day, week, month, quarter or year."""
    pair, notes = hold_pair(a, market, freq)
    note = write_note("beta", market=market.name, **describe_pair(pair, freq, a, market))
    if is_positive(a, pair["x"]) and is_positive(market, pair["y"]):
        slope = measure_beta(pair[["x"]], pair[["y"]]).iloc[0]["beta"]
    else:
        sides = zip("xy", (a, market), strict=True)
        moved = [pair[s].pct_change() if is_positive(line, pair[s]) else pair[s].diff() for s, line in sides]
        slope = moved[0].cov(moved[1]) / moved[1].var() if moved[1].var() > 0 else None
    value = None if slope is None or pd.isna(slope) else float(slope)
    return Point(value, None, "", f"{a.name} / {market.name}", notes=(*notes, note))
