"""Lines of which every result can be computed by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from fathom.services.sandbox.inside.finance import steps
from fathom.services.sandbox.inside.finance.steps import Line


def make_line(values: Mapping[str, float], name: str = "x", unit: str = "USD", kind: str = "price") -> Line:
    """A line of values by ISO day."""
    return Line(pd.Series(dict(values), dtype=float).set_axis(pd.DatetimeIndex(list(values))), name, unit, kind)


def make_daily(values: list[float], start: str = "2020-03-02", name: str = "x") -> Line:
    """A price on weekdays from a Monday on."""
    return Line(pd.Series(values, pd.bdate_range(start, periods=len(values)), dtype=float), name, "USD", "price")


def make_monthly(
    values: list[float], start: str = "2020-01-31", name: str = "x", unit: str = "", kind: str = "level"
) -> Line:
    """Values dated by the ends of months."""
    return Line(pd.Series(values, pd.date_range(start, periods=len(values), freq="ME"), dtype=float), name, unit, kind)


def year(text: str) -> steps.Period:
    """The period of an ISO text."""
    return steps.period(text, text)
