"""Conditions on lines: how often and when values lie beyond a level, the longest run, and crossings.

What never holds gives a point without value and day, a count of 0 or an empty group, and no error.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import check_choice
from fathom.services.sandbox.inside.finance.steps.transforms import align
from fathom.services.sandbox.inside.finance.steps.values import (
    MONTHLY,
    Group,
    Line,
    Note,
    Point,
    map_members,
    measure_gap,
    read_number,
)
from fathom.services.sandbox.inside.finance.windows import crossings as find_crossings
from fathom.services.sandbox.inside.finance.windows import measure_longest_run

# What rounding of a computed value may lack to a level that it is at.
ROUNDING = 1e-9
OPERATORS: MappingProxyType[str, Callable[[Any, float], Any]] = MappingProxyType(
    {
        "above": lambda values, level: values > level,
        "below": lambda values, level: values < level,
        "at_least": lambda values, level: values >= level - ROUNDING,
        "at_most": lambda values, level: values <= level + ROUNDING,
    }
)
SIDES = MappingProxyType({"up": ("above",), "down": ("below",), "both": ("above", "below")})
DIRECTIONS = MappingProxyType({"above": "up", "below": "down"})


def flag(line: Line, op: str, level: Any) -> tuple[Any, Any]:
    """Return the values of the window, and which of them lie above, below, at_least or at_most a level."""
    check_choice(op, OPERATORS, "op")
    cut = line.window
    return cut, OPERATORS[op](cut, read_number(level, "level"))


@map_members
def count_if(line: Line, op: str, level: Any) -> Point:
    """Return how many values of the window fulfil a condition, of how many, and their days."""
    cut, flags = flag(line, op, level)
    return line.make_point(int(flags.sum()), unit="", of=len(cut), days=tuple(cut.index[flags]))


@map_members
def share_if(line: Line, op: str, level: Any) -> Point:
    """Return the share in % of the window's values that fulfil a condition."""
    cut, flags = flag(line, op, level)
    return line.make_point(flags.mean() * 100, unit="%", of=len(cut))


def pick_flagged(line: Line, op: str, level: Any, place: int) -> Point:
    """Return the first (0) or last (-1) value that fulfils a condition; a point without value and day for none."""
    cut, flags = flag(line, op, level)
    if not flags.any():
        return line.make_point(None, name=f"{line.name} never {op.replace('_', ' ')} {read_number(level, 'level'):g}")
    return line.pick(cut, cut.index[flags][place])


@map_members
def first_if(line: Line, op: str, level: Any) -> Point:
    """Return the first value of the window that fulfils a condition, with its day."""
    return pick_flagged(line, op, level, 0)


@map_members
def last_if(line: Line, op: str, level: Any) -> Point:
    """Return the last value of the window that fulfils a condition, with its day."""
    return pick_flagged(line, op, level, -1)


@map_members
def longest(line: Line, op: str, level: Any) -> Point:
    """Return the number of values of the (first) longest run that fulfils a condition, with its first and last day."""
    cut, flags = flag(line, op, level)
    if not flags.any():
        return line.make_point(0, unit="")
    run = measure_longest_run(flags)
    return line.make_point(run["longest_run"], run["run_end"], unit="", first=run["run_start"], of=len(cut))


@map_members
def where(line: Line, other: Line, op: str, level: Any) -> Line:
    """Return the values of a line on the days on which another line is above, below, at_least or at_most a level.

    Lines of months and coarser steps match by period, daily ones by their days.
    """
    check_choice(op, OPERATORS, "op")
    if measure_gap(line.values) < MONTHLY:
        both = pd.concat([line.values, other.values], axis=1, keys=["x", "y"]).dropna()
        notes: tuple[Note, ...] = ()
    else:
        both, notes = align(line, other)
    if both.empty:
        raise InvalidArgument("other", f"{other.name} has no date in common with {line.name}")
    kept = both["x"][OPERATORS[op](both["y"], read_number(level, "level"))]
    known = (both.index[0], both.index[-1])
    return line.derive(kept, known=known, notes=tuple(dict.fromkeys(line.notes + other.notes + notes)))


@map_members
def crossings(fast: Line, slow: Any, side: str = "both") -> Group:
    """Return the days in the window on which a line crosses another line or a level, with the line's values.

    ``side`` is up, down or both; the unit of each point says which. Touching is no crossing.
    """
    check_choice(side, SIDES, "side")
    level = slow.values if isinstance(slow, Line) else pd.Series(read_number(slow, "slow"), fast.values.index)
    both = pd.concat([fast.values, level], axis=1, keys=["x", "y"]).dropna()
    if len(both) < 2:
        raise InvalidArgument("slow", f"has {len(both)} dates in common with {fast.name}; a crossing needs two")
    # A window outside the data is refused, and one without a crossing is not.
    fast.check_window()
    found = find_crossings(both["x"], both["y"], fast.start, fast.end)
    wanted = found[found["side"].isin(SIDES[side])]
    return Group(
        {
            str(day.date()): fast.make_point(row["value"], day, unit=DIRECTIONS[row["side"]])
            for day, row in wanted.iterrows()
        }
    )
