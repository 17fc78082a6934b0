"""Windows of lines: a period, between two days, after and before a day, the last units, days of a condition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.steps.dates import make_offset, read_period
from fathom.services.sandbox.inside.finance.steps.values import (
    Line,
    Point,
    map_members,
    note_gaps,
    read_count,
    write_note,
)

DAY = pd.Timedelta(days=1)


@map_members
def within(line: Line, p: Any) -> Line:
    """Return the line over a period; of prices a return counts from the last value before it."""
    found = read_period(p, "p")
    return note_gaps(replace(line, start=found.start, end=found.end, is_day=found.is_day or isinstance(p, Point)))


@map_members
def between(line: Line, a: Any, b: Any) -> Line:
    """Return the line from the first day of one period or point to the last day of another.

    From a single day a return counts from the value of this day. Raise ``InvalidArgument`` for an end before the start.
    """
    first, last = read_period(a, "a"), read_period(b, "b")
    if first.start is not None and last.end is not None and first.start > last.end:
        raise InvalidArgument("b", f"ends on {last.end.date()}, before the start, {first.start.date()}")
    return note_gaps(replace(line, start=first.start, end=last.end, is_day=first.is_day))


@map_members
def after(line: Line, a: Any) -> Line:
    """Return the line from the first day of a period on, or from the day after a point."""
    found = read_period(a, "a")
    if isinstance(a, Point):
        is_kept = line.end is not None and line.end > found.start
        return replace(line, start=found.start + DAY, end=line.end if is_kept else None, is_day=False)
    return note_gaps(replace(line, start=found.start, is_day=found.is_day))


@map_members
def before(line: Line, b: Any) -> Line:
    """Return the line up to the day before a period or point; a period with an open start ("until 2010") counts."""
    found = read_period(b, "b")
    if isinstance(b, Point):
        is_kept = line.start is not None and line.start < found.end
        return replace(line, end=found.end - DAY, start=line.start if is_kept else None)
    return replace(line, end=found.end if found.start is None else found.start - DAY)


@map_members
def recent(line: Line, n: Any, unit: str) -> Line:
    """Return the line over the last n units of its own data, the last day included."""
    if line.values.empty:
        raise InvalidArgument("line", f"{line.name} has no values")
    last = line.values.index[-1]
    offset = make_offset(read_count(n, "n"), unit)
    # From the day behind the last one, so that the end of a month goes back to the end of a month.
    return replace(line, start=last + DAY - offset, end=last, is_day=False)


@map_members
def without(line: Line, p: Any) -> Line:
    """Return the line without the values in a period; refuse a period with an open side.

    A change over the window still has what happened in between: of changes leave out those of the period.
    """
    found = read_period(p, "p")
    if found.start is None or found.end is None:
        raise InvalidArgument("p", "is a period with an open side, and nothing would be left")
    days = line.values.index
    kept = line.values[(days < found.start) | (days > found.end)]
    note = write_note("without", start=found.start.date(), end=found.end.date())
    return line.derive(kept, notes=(*line.notes, note))
