"""Events, crossings and thresholds, extremes and ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import (
    check_choice,
    count_per_year,
    has_returns,
    read_day,
    read_one,
    read_series,
    read_window,
    unit_of,
)
from fathom.services.sandbox.inside.finance.results import state
from fathom.services.sandbox.inside.finance.returns import DAYS_A_YEAR, describe_kind
from fathom.services.sandbox.inside.finance.risk import NAMES

SIDES = {"above": "高于", "below": "低于"}


def around(data: Any, event: Any, before: int = 5, after: int = 5) -> Any:
    """Return the return, or the difference of a rate, over so many observations before and after each event.

    ``event`` is a day or a list of days. Raise ``InvalidArgument`` where the data do not reach so far.
    """
    frame, events = read_series(data, "data"), event if isinstance(event, (list, tuple, pd.Index)) else [event]
    if min(before, after) < 0 or max(before, after) < 1:
        raise InvalidArgument("before", "and after must be numbers of observations, at least one of them above 0")
    rows, kinds = [], set()
    for column in frame:
        values, kind = frame[column].dropna(), "returns" if has_returns(frame, column) else "changes"
        kinds.add(kind)
        for day in events:
            at = int(values.index.searchsorted(read_day(day, "event")))
            if at - before < 0 or at + after >= len(values):
                ends = f"{values.index[0].date()} to {values.index[-1].date()}"
                raise InvalidArgument(
                    "event", f"{day}: {column} has no {before} values before and {after} after it in {ends}"
                )
            for side, first, last in (("before", at - before, at), ("after", at, at + after)):
                one, two = values.iloc[first], values.iloc[last]
                moved = {"return": two / one - 1} if kind == "returns" else {"change": two - one}
                dates = {"day0": values.index[at], "from": values.index[first], "to": values.index[last]}
                rows += [{"series": column, "side": side, **dates, "first": one, "last": two, **moved}] * (first < last)
    kind_names = describe_kind(frame) if kinds == {"returns"} else NAMES["changes"]
    return state(
        pd.DataFrame(rows), "around", kind=kind_names if len(kinds) == 1 else ("returns or differences", "收益率或差分")
    )


def crossings(data: Any, other: Any, start: Any = None, end: Any = None) -> Any:
    """Return the dates on which a series crosses a level or another series, such as a moving average, and the side."""
    one, window = read_one(data, "data"), read_window(start, end)
    is_level = isinstance(other, (int, float)) and not isinstance(other, bool)
    against = pd.Series(float(other), one.index) if is_level else read_one(other, "other")
    pair = pd.concat([one, against], axis=1, keys=("value", "other")).dropna()
    if len(pair) < 2:
        raise InvalidArgument("other", f"has {len(pair)} dates in common with {one.name}; a crossing needs two")
    # On equal values the side of before stays, so that touching is no crossing.
    side = pd.Series(np.sign(pair["value"] - pair["other"]), pair.index).replace(0.0, np.nan).ffill()
    turned = side.ne(side.shift(1)) & side.shift(1).notna() & side.notna()
    found = pair[turned].loc[window.start : window.end]
    table = found.assign(side=["above" if above > 0 else "below" for above in side[found.index]])
    name = f"{float(other):g}" if is_level else str(against.name)
    return state(table, "crossings", one=one.name, other=name, side=("above or below", "高于或低于"))


def beyond(data: Any, level: float, side: str = "above", start: Any = None, end: Any = None) -> Any:
    """Return how often and how long each series was strictly above or below a level, and a verdict.

    The verdict is "always", "sometimes" or "never", or "unknown" where the window has a single value or is not covered.
    """
    check_choice(side, SIDES, "side", "'above' or 'below'")
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not np.isfinite(level):
        raise InvalidArgument("level", "must be a number")
    frame, window, rows = read_series(data, "data"), read_window(start, end, "first"), {}
    for column in frame:
        values = window.cut(frame[column])
        is_beyond = values > level if side == "above" else values < level
        count, found = int(is_beyond.sum()), values.index[is_beyond]
        verdict = "sometimes" if 0 < count < len(values) else "always" if count else "never"
        is_known = verdict == "sometimes" or covers_window(frame[column].dropna(), values, window)
        ends = {"first": found[0] if count else pd.NaT, "last": found[-1] if count else pd.NaT}
        rows[column] = {"verdict": verdict if is_known else "unknown", "count": count, "of": len(values)}
        rows[column] |= ends | measure_longest_run(is_beyond) | {"from": values.index[0], "to": values.index[-1]}
    table = pd.DataFrame.from_dict(rows, orient="index")
    return state(table, "beyond", side=(side, SIDES[side]), level=f"{level:g}")


def measure_longest_run(flags: Any) -> dict[str, Any]:
    """Return the length and ends of the first longest run of true values."""
    # Counts the true values since the last false one.
    lengths = flags.groupby((~flags).cumsum()).cumsum()
    longest = int(lengths.max())
    if not longest:
        return {"longest_run": 0, "run_start": pd.NaT, "run_end": pd.NaT}
    end = int(lengths.to_numpy().argmax())
    return {"longest_run": longest, "run_start": flags.index[end - longest + 1], "run_end": flags.index[end]}


def covers_window(known: Any, values: Any, window: Any) -> bool:
    """Return whether more than one value was seen, and the values reach both ends of the window."""
    if len(values) < 2 or len(known) < 3:
        return False
    # One and a half times the usual distance, and five days for weekends and holidays.
    gap = pd.Timedelta(days=1.5 * DAYS_A_YEAR / count_per_year(known.index) + 5)
    is_seen_from = window.start is None or values.index[0] - window.start <= gap
    return is_seen_from and (window.end is None or window.end - values.index[-1] <= gap)


def top(data: Any, n: int = 3, largest: bool = True, start: Any = None, end: Any = None) -> Any:
    """Return the ``n`` largest or smallest values of one series with dates and ranks, ties of the last included."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InvalidArgument("n", "must be a number of values, at least 1")
    one = read_one(data, "data")
    values = read_window(start, end, "first").cut(one)
    found = values.nlargest(n, keep="all") if largest else values.nsmallest(n, keep="all")
    table = pd.DataFrame({"date": found.index, one.name: found.to_numpy()})
    table.index = pd.Index(found.rank(method="min", ascending=not largest).astype(int), name="rank")
    result = state(table, "top", n=n, side=("largest", "最大") if largest else ("smallest", "最小"))
    result.attrs["units"] = {one.name: unit_of(one, one.name)}
    return result


def rank(values: Any, ascending: bool = False) -> Any:
    """Return numbers by name with their ranks, best first; equal numbers share a rank. Missing ones come last."""
    if isinstance(values, pd.DataFrame):
        raise InvalidArgument("values", f"must be one column, such as values[{str(values.columns[0])!r}]")
    column = pd.Series(values, dtype=float)
    table = pd.DataFrame({"value": column, "rank": column.rank(method="min", ascending=ascending)})
    side = ("smallest", "最小值") if ascending else ("largest", "最大值")
    return state(table.sort_values(["rank"], kind="stable"), "rank", side=side)
