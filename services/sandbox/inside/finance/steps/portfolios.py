"""Steps that say what amounts and portfolios have become."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.portfolios import portfolio as hold_portfolio
from fathom.services.sandbox.inside.finance.steps.dates import check_frequency
from fathom.services.sandbox.inside.finance.steps.statistics import check_returns
from fathom.services.sandbox.inside.finance.steps.transforms import measure_ratio
from fathom.services.sandbox.inside.finance.steps.values import (
    EVERY,
    Line,
    Point,
    describe_class,
    map_members,
    read_number,
    write_note,
)


@map_members
def grow(amount: Any, line: Line) -> Point:
    """Return what an amount held over the line's window has become, in the amount's unit; no costs or taxes."""
    check_returns(line)
    held, base = line.take_held()
    value = read_number(amount, "amount") * measure_ratio(held.iloc[0], held.iloc[-1], "line")
    note, unit = write_note("grow", base=base), getattr(amount, "unit", "")
    return line.make_point(value, held.index[-1], unit=unit, first=held.index[0], notes=(note,))


def portfolio(*args: Any) -> Line:
    """Return the value of a portfolio as a line that begins at 100: share, line, share, line, …, and optionally a step.

    Shares are scaled to their sum. The parts count on their common dates, from the base value of their windows; they
    are bought and held, or go back to their shares at each last close of the step (week, month, quarter or year).
    """
    freq = args[-1] if args and isinstance(args[-1], str) else ""
    parts = args[:-1] if freq else args
    if freq:
        check_frequency(freq)
    if not parts or len(parts) % 2:
        raise InvalidArgument("args", "must be a share and a line for each part")
    shares, lines = [read_number(one, "share") for one in parts[::2]], parts[1::2]
    for one in lines:
        if not isinstance(one, Line):
            raise InvalidArgument("line", f"must be a line, not {describe_class(one)}")
        check_returns(one)
    if sum(shares) <= 0:
        raise InvalidArgument("share", f"must sum to more than 0, and sum to {sum(shares):g}")
    keys = [str(place) for place in range(len(lines))]
    frame = pd.concat([one.take_held()[0] for one in lines], axis=1, keys=keys).dropna()
    if len(frame) < 2:
        raise InvalidArgument("line", f"the parts have {len(frame)} dates in common in their windows")
    weights = [share / sum(shares) for share in shares]
    worth = hold_portfolio(frame, weights, freq or "none")["portfolio"]
    values = pd.Series(worth.to_numpy(), worth.index)
    texts = ", ".join(f"{weight:.1%} {one.name}" for weight, one in zip(weights, lines, strict=True))
    how = write_note("rebalanced", freq=(freq, EVERY[freq][1])) if freq else write_note("held")
    note = write_note("portfolio", weights=texts, how=how, start=values.index[0].date())
    notes = tuple(dict.fromkeys((*(one for line in lines for one in line.notes), note)))
    return Line(values, "portfolio", "", "price", values.index[0], values.index[-1], True, notes=notes)
