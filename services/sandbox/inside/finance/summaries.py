"""One table with the usual measures of several series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import (
    Window,
    count_per_year,
    has_returns,
    read_prices,
    read_series,
    read_window,
)
from fathom.services.sandbox.inside.finance.results import state
from fathom.services.sandbox.inside.finance.returns import describe_kind, hold
from fathom.services.sandbox.inside.finance.risk import describe_counts, max_drawdown, sharpe, volatility


def summary(
    data: Any,
    start: Any = None,
    end: Any = None,
    base: str = "auto",
    risk_free: Any = None,
    risk_free_unit: str = "",
    levels: Sequence[str] | None = None,
) -> Any:
    """Return a row of measures per series, percentages in columns that end with "_pct".

    Prices have return, CAGR, volatility, drawdown, and Sharpe ratio if ``risk_free`` is given; levels have first, last,
    change, mean and extremes. ``base`` is that of ``holding_return``. ``levels`` names the columns that are levels; by
    default rates and what is not always above 0.
    """
    frame, window = read_series(data, "data"), read_window(start, end, base)
    unknown = [name for name in levels or () if name not in frame.columns]
    if unknown:
        raise InvalidArgument("levels", f"has {unknown[0]}, which is no column")
    rows: dict[str, Any] = {}
    counts: dict[str, int] = {}
    has_prices = has_levels = False
    for column in frame:
        values = window.cut(frame[column])
        row = {"base_date": values.index[0], "end_date": values.index[-1], "n": len(values.loc[window.start :])}
        if has_returns(frame, column) if levels is None else column not in levels:
            one = frame[[column]]
            one.attrs = frame.attrs
            row |= summarise_price(one, window, (risk_free, risk_free_unit))
            counts |= {column: count_per_year(values.index)} if len(values) > 2 else {}
            has_prices = True
        else:
            has_levels = True
            row |= summarise_level(window, frame[column], has_returns(frame, column))
        rows[column] = row
    table = pd.DataFrame.from_dict(rows, orient="index")
    name = "summary" if has_prices and has_levels else "summary of prices" if has_prices else "summary of levels"
    units = {str(column): "%" for column in table if str(column).endswith("_pct")}
    return state(table, name, units, kind=describe_kind(frame), base=window.description, count=describe_counts(counts))


def summarise_price(one: Any, window: Window, rate: tuple[Any, str]) -> dict[str, Any]:
    """Return the measures of one price; risk needs three values."""
    held = hold(read_prices(one, "data"), window).iloc[0]
    row = {
        "first": held["base"],
        "last": held["end"],
        "return_pct": held["return"] * 100,
        "cagr_pct": held["cagr"] * 100,
    }
    if len(window.cut(one.iloc[:, 0])) < 3:
        return row
    inside = Window(window.start, window.end, "first").cut(one.iloc[:, 0])
    low, high = inside.idxmin(), inside.idxmax()
    row |= {"min": inside[low], "min_date": low, "max": inside[high], "max_date": high}
    fall = max_drawdown(one, window.start, window.end).iloc[0]
    row |= {"volatility_pct": float(volatility(one, window.start, window.end)) * 100}
    row |= {"drawdown_pct": fall["drawdown"] * 100, **{name: fall[name] for name in ("peak", "trough", "recovery")}}
    free, unit = rate
    return row | ({} if free is None else {"sharpe": float(sharpe(one, free, unit, window.start, window.end))})


def summarise_level(window: Window, column: Any, is_relative: bool) -> dict[str, Any]:
    """Return the measures of a rate or another level, from the values in the window alone.

    With ``is_relative`` the change is given in per cent of the first value as well. The change of a single value counts
    from the one before it, and there is none without one.
    """
    values = Window(window.start, window.end, "first").cut(column)
    known = column.dropna().loc[: values.index[-1]]
    moved = values if len(values) > 1 else known.iloc[-2:]
    ends = {"base_date": moved.index[0], "n": len(values), "first": moved.iloc[0], "last": values.iloc[-1]}
    low, high = values.idxmin(), values.idxmax()
    extremes = {"min": values[low], "min_date": low, "max": values[high], "max_date": high}
    change = np.subtract(moved.iloc[-1], moved.iloc[0]) if len(moved) > 1 else np.nan
    relative = {"change_pct": change / moved.iloc[0] * 100} if is_relative and moved.iloc[0] > 0 else {}
    return ends | {"change": change, **relative, "mean": values.mean(), "sum": values.sum(), **extremes}
