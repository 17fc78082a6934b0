"""Values in the prices of another time."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.steps.dates import find_day
from fathom.services.sandbox.inside.finance.steps.values import (
    EVERY,
    Line,
    Note,
    Point,
    aggregate,
    describe_class,
    map_members,
    measure_gap,
    name_step,
    read_number,
    write_note,
)


@map_members
def real(x: Any, index: Line, base: Any = None) -> Any:
    """Return a line or point in prices of a period or day ``base``, by a line of a price index.

    The default base of a line is its last value in the window; a point needs one. Days of a line for which the index
    has no period are left out. ``finance.deflate`` refuses these days, and values that are not above 0.
    """
    freq = name_step(measure_gap(index.values))
    code = EVERY[freq][0]
    known = aggregate(index.values, freq)
    known = known.set_axis(known.index.to_period(code))
    if isinstance(x, Point):
        if base is None:
            raise InvalidArgument("base", "must be given for a point")
        day = find_day(x, "x")
        factor = take_level(known, find_day(base, "base"), index, "base") / take_level(known, day, index, "x")
        note = note_base(find_day(base, "base"), index, freq)
        return Point(read_number(x, "x") * factor, x.day, x.unit, f"real {x.name}", x.first, (*x.notes, note))
    if not isinstance(x, Line):
        raise InvalidArgument("x", f"must be a line or a point, not {describe_class(x)}")
    periods = x.values.index.to_period(code)
    values, periods = x.values[periods.isin(known.index)], periods[periods.isin(known.index)]
    if values.empty:
        ends = f"{known.index[0]} to {known.index[-1]}"
        raise InvalidArgument("index", f"{index.name} covers {ends}, and no value of {x.name}")
    last = values.index[-1] if x.end is None else min(x.end, values.index[-1])
    day = last if base is None else find_day(base, "base")
    factors = take_level(known, day, index, "base") / known[periods].to_numpy()
    return x.derive(values * factors, name=f"real {x.name}", notes=(*x.notes, note_base(day, index, freq)))


def note_base(day: Any, index: Line, freq: str) -> Note:
    """Return the convention of prices of the period of a day."""
    base = str(pd.Period(day, EVERY[freq][0]))
    return write_note("real", base=base, index=index.name, step=(freq, EVERY[freq][1]))


def take_level(known: Any, day: Any, index: Line, name: str) -> float:
    """Return the index of the period of a day; raise ``InvalidArgument`` with the periods that there are."""
    period = pd.Period(day, known.index.freq)
    if period not in known.index:
        ends = f"{known.index[0]} to {known.index[-1]}"
        raise InvalidArgument(name, f"{index.name} has no value for {period}; it covers {ends}")
    return float(known[period])
