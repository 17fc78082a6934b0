"""Portfolios of prices, and spreads and ratios of two series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import (
    check_choice,
    read_one,
    read_prices,
    read_window,
    split_adjustment,
    unit_of,
)
from fathom.services.sandbox.inside.finance.results import state
from fathom.services.sandbox.inside.finance.returns import EVERY, describe_kind


def spread(one: Any, other: Any) -> Any:
    """Return one series less another on common dates; refuse two that state different units (``InvalidArgument``).

    Units that differ by the adjustment for seasons alone are one, which the convention says.
    """
    first, second = read_one(one, "one"), read_one(other, "other")
    stated = [unit_of(first, first.name), unit_of(second, second.name)]
    units, adjustments = zip(*map(split_adjustment, stated), strict=True)
    if all(units) and units[0] != units[1]:
        raise InvalidArgument("other", f"is measured in {stated[1]}, and {first.name} in {stated[0]}")
    gap = pd.concat([first, second], axis=1).dropna()
    if gap.empty:
        raise InvalidArgument("other", f"has no date in common with {first.name}")
    unit = "percentage points" if (units[0] or units[1]).startswith("%") else units[0] or units[1]
    found = (gap.iloc[:, 0] - gap.iloc[:, 1]).to_frame(f"{first.name} - {second.name}")
    mixed = ("; one of them is seasonally adjusted, the other is not", "；其中一个经季节调整，另一个未经")
    note = mixed if all(adjustments) and len(set(adjustments)) > 1 else ("", "")
    names = {"one": first.name, "other": second.name}
    return state(found, "spread", unit, **names, unit_text=unit or "their unit", note=note)


def ratio(one: Any, other: Any) -> Any:
    """Return one series over another on common dates; refuse values that are not above 0 (``InvalidArgument``)."""
    first, second = read_one(one, "one", is_price=True), read_one(other, "other", is_price=True)
    pair = pd.concat([first, second], axis=1, keys=("one", "other")).dropna()
    if pair.empty:
        raise InvalidArgument("other", f"has no date in common with {first.name}")
    found = (pair["one"] / pair["other"]).to_frame(f"{first.name} / {second.name}")
    return state(found, "ratio", one=first.name, other=second.name)


def cross_rates(data: Any) -> Any:
    """Return for two currencies, each quoted per a third one, the units of either for one of the other.

    A column such as "JPY per USD" is named by the words before the dots of the given ones.
    """
    frame = read_prices(data, "data")
    if len(frame.columns) != 2:
        raise InvalidArgument("data", f"has {len(frame.columns)} rates, and a cross rate needs two")
    names = [column.partition(".")[0] for column in frame]
    both = [ratio(frame.iloc[:, [side]], frame.iloc[:, [1 - side]]).iloc[:, 0] for side in (0, 1)]
    keys = [f"{names[side]} per {names[1 - side]}" for side in (0, 1)]
    result = state(pd.concat(both, axis=1, keys=keys), "cross_rates")
    result.attrs["units"] = {key: key for key in keys}
    return result


def portfolio(
    data: Any,
    weights: Sequence[float] | dict[str, float],
    rebalance: str = "none",
    start: Any = None,
    end: Any = None,
    base: float = 100.0,
) -> Any:
    """Return the value of a portfolio on the common dates of its parts, ``base`` on the first of them.

    ``weights`` are by name or in the order of the columns and sum to 1. ``rebalance`` is "none" (buy and hold), "day",
    "week", "month", "quarter" or "year": back to the weights at the last close of each.
    """
    frame, window = read_prices(data, "data"), read_window(start, end, "auto")
    shares = pd.Series(
        weights if isinstance(weights, dict) else dict(zip(frame.columns, weights, strict=False)), dtype=float
    )
    if set(shares.index) != set(frame.columns) or not (isinstance(weights, dict) or len(weights) == len(shares)):
        raise InvalidArgument("weights", f"must have one for each of {', '.join(frame.columns)}, and no other")
    if shares.isna().any() or abs(shares.sum() - 1) > 1e-6:
        raise InvalidArgument("weights", f"must sum to 1, and sum to {shares.sum():g}")
    check_choice(rebalance, ("none", "day", *EVERY), "rebalance")
    attrs, frame = frame.attrs, frame.dropna()
    prices = pd.DataFrame({column: window.cut(frame[column]) for column in frame})
    code = "D" if rebalance == "day" else EVERY[rebalance][0] if rebalance != "none" else ""
    stretches = pd.DatetimeIndex(prices.index).to_period(code) if code else np.zeros(len(prices))
    value, held = base, []
    previous = prices.iloc[0]
    for _, part in prices.groupby(stretches):
        relative = (part / previous * shares[prices.columns]).sum(axis=1) * value
        held.append(relative)
        value, previous = float(relative.iloc[-1]), part.iloc[-1]
    found = pd.concat(held)
    if (found <= 0).any():
        raise InvalidArgument(
            "weights", f"lose everything on {found.index[found <= 0][0].date()}: short positions too large"
        )
    prices.attrs = attrs
    texts = ", ".join(f"{weight:.1%} {name}" for name, weight in shares.items())
    how = (f"rebalanced by {rebalance}", f"按{EVERY[rebalance][2] if rebalance in EVERY else '日'}再平衡")
    how = ("bought and held", "买入并持有") if rebalance == "none" else how
    names = {"weights": texts, "base": f"{base:g}", "start": found.index[0].date(), "rebalance": how}
    return state(found.to_frame("portfolio"), "portfolio", **names, kind=describe_kind(prices))
