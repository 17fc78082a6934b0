"""Values by period with their extremes and counts, recoveries of a high, and returns since given dates."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import (
    check_choice,
    has_returns,
    read_day,
    read_prices,
    read_series,
    read_window,
)
from fathom.services.sandbox.inside.finance.results import state
from fathom.services.sandbox.inside.finance.returns import EVERY, describe_kind, period_returns, to_returns
from fathom.services.sandbox.inside.finance.windows import measure_longest_run

# What is taken of each period, in English and Chinese.
AGGREGATES = {
    "return": ("return", "收益率"),
    "change": ("difference to the value before", "与上一期之差"),
    "mean": ("mean", "均值"),
    "sum": ("sum", "合计"),
    "last": ("last value", "末值"),
    "max": ("highest value", "最高值"),
    "min": ("lowest value", "最低值"),
}
OBSERVATION = "observation"
# As many periods as a sentence can name.
MOST_NAMED = 12
SIDES = {
    "beyond": ("strictly below and above", "严格低于或高于"),
    "at or beyond": ("at or below, and at or above", "不高于或不低于"),
}


def by_period(
    data: Any,
    every: str = "year",
    aggregate: str = "return",
    below: float | None = None,
    above: float | None = None,
    start: Any = None,
    end: Any = None,
    inclusive: bool = False,
) -> Any:
    """Return extremes, mean and counts of what each series was in each week, month, quarter, year or observation.

    ``aggregate`` is "return", "change" (to the last value before the period), "mean", "sum", "last", "max" or "min".
    Counted are the periods strictly ``below`` and ``above`` a level, with ``inclusive`` those at the level as well (on
    both sides); by default the level is 0 for returns and changes. Column below_sign is "<" or "<=".
    """
    check_choice(every, (OBSERVATION, *EVERY), "every")
    check_choice(aggregate, AGGREGATES, "aggregate")
    levels = {"below": below, "above": above}
    if below is None and above is None and aggregate in ("return", "change"):
        levels = {"below": 0.0, "above": 0.0}
    table = aggregate_periods(data, every, aggregate, (start, end))
    rows = {column: describe_periods(table[column].dropna(), levels, inclusive) for column in table}
    chinese = EVERY[every][2] if every in EVERY else "期"
    found = pd.DataFrame.from_dict(rows, orient="index")
    sides = SIDES["at or beyond" if inclusive else "beyond"]
    return state(found, "by_period", every=(every, chinese), aggregate=AGGREGATES[aggregate], sides=sides)


def aggregate_periods(data: Any, every: str, aggregate: str, window: tuple[Any, Any]) -> Any:
    """Return a row per period, by its name, and a column per series."""
    start, end = window
    if aggregate == "return" and every in EVERY:
        return pd.DataFrame(period_returns(data, every, start, end))
    frame = (read_prices if aggregate == "return" else read_series)(data, "data")
    columns, limits = {}, read_window(start, end)
    for column in frame:
        values = limits.cut(frame[column])
        inside = values.loc[limits.start :]
        if every == OBSERVATION:
            moved = {"return": to_returns, "change": lambda one: one.diff().iloc[1:]}.get(aggregate)
            found = inside if moved is None else moved(values)
            columns[column] = found.set_axis(found.index.strftime("%Y-%m-%d"))
            continue
        groups = inside.groupby(inside.index.to_period(EVERY[every][0]))
        if aggregate == "change":
            last = groups.last()
            before = last.shift(1)
            before.iloc[0] = values.iloc[0]
            found = last - before
        else:
            found = getattr(groups, aggregate)()
        columns[column] = found.set_axis(found.index.astype(str))
    return pd.DataFrame(columns)


def describe_periods(values: Any, levels: dict[str, float | None], inclusive: bool) -> dict[str, Any]:
    """Return how many periods there are and lie beyond each level, which these are, and the extremes."""
    if values.empty:
        raise InvalidArgument("data", f"{values.name} has no whole period in the window")
    low, high = values.idxmin(), values.idxmax()
    row = {"n": len(values), "from": values.index[0], "to": values.index[-1], "mean": values.mean()}
    row |= {"first": values.iloc[0], "last": values.iloc[-1]}
    row |= {"min": values[low], "min_period": low, "max": values[high], "max_period": high}
    for side, level in levels.items():
        if level is None:
            continue
        flags = values < level if side == "below" else values > level
        flags |= inclusive & (values == level)
        found, run = values.index[flags], measure_longest_run(flags)
        named = (", ".join(found) or "–") if len(found) <= MOST_NAMED else f"{found[0]} … {found[-1]}"
        sign = ("<" if side == "below" else ">") + "=" * inclusive
        row |= {f"{side}_level": level, f"{side}_sign": sign, side: len(found), f"{side}_periods": named}
        row |= {f"{side}_run": run["longest_run"], f"{side}_run_end": run["run_end"]}
    return row


def recovery(data: Any, start: Any = None, end: Any = None) -> Any:
    """Return the highest value in the window, the lowest after it, and the first value above the high, if any.

    The low and the recovery may lie behind the window's end: the data decide how far is looked.
    """
    frame, window, rows = read_series(data, "data"), read_window(start, end, "first"), {}
    for column in frame:
        inside = window.cut(frame[column])
        peak = inside.idxmax()
        after = frame[column].dropna().loc[peak:]
        # A value above the high right behind the window is no recovery of a fall.
        fallen = after[after < after.iloc[0]]
        regained = after[after > after.iloc[0]].loc[fallen.index[0] :].index if len(fallen) else []
        until = after.loc[: regained[0]] if len(regained) else after
        trough = until.idxmin()
        steps = int(after.index.get_loc(regained[0]) - after.index.get_loc(trough)) if len(regained) else None
        gap = until.min() - after.iloc[0]
        rows[column] = {
            "peak_date": peak,
            "peak": after.iloc[0],
            "trough_date": trough,
            "trough": until.min(),
            "fall": gap,
            "fall_pct": gap / after.iloc[0] * 100 if has_returns(frame, column) else None,
            "recovery_date": regained[0] if len(regained) else pd.NaT,
            "recovery": after[regained[0]] if len(regained) else None,
            "margin": after[regained[0]] - after.iloc[0] if len(regained) else None,
            "steps": steps,
            "to": after.index[-1],
        }
    return state(pd.DataFrame.from_dict(rows, orient="index"), "recovery", {"fall_pct": "%"})


def since(data: Any, dates: Any, end: Any = None) -> Any:
    """Return the return of each series from its value on each date to the last one up to the end."""
    frame, rows = read_prices(data, "data"), []
    days = [read_day(day, "dates") for day in dates]
    last_day = read_day(end, "end", is_end=True)
    for column in frame:
        values = frame[column].dropna().loc[:last_day]
        for day in days:
            held = values.loc[day:]
            if held.empty:
                raise InvalidArgument("dates", f"{column} has no value from {day.date()} to its end")
            gain = held.iloc[-1] / held.iloc[0] - 1
            ends = {"date": held.index[0], "base": held.iloc[0], "end_date": held.index[-1], "end": held.iloc[-1]}
            rows.append({"series": column, **ends, "return": gain})
    columns = ["series", "date", "base", "end_date", "end", "return"]
    table = pd.DataFrame(rows, columns=columns).set_index("series")
    return state(table, "since", {"return": "fraction"}, kind=describe_kind(frame))
