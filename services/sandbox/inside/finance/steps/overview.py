"""All that is asked of a line in general: ends, extremes and mean, of a price its return and its deepest fall."""

from __future__ import annotations

from fathom.services.sandbox.inside.finance.steps.risk import drawdown
from fathom.services.sandbox.inside.finance.steps.statistics import first, last, maximum, mean, minimum, ret
from fathom.services.sandbox.inside.finance.steps.values import Group, Line, map_members


@map_members
def summary(line: Line) -> Group:
    """Return first and last value, highest, lowest and mean of the window; of a price its return and drawdown too."""
    found = {"first": first(line), "last": last(line), "max": maximum(line), "min": minimum(line), "mean": mean(line)}
    cut = line.window
    # A price below 0, as oil had one, has no return.
    if line.kind == "price" and line.has_returns and len(cut) > 1 and (cut > 0).all():
        found |= {"return": ret(line), "drawdown": drawdown(line)}
    return Group(found)
