"""Risk of prices: drawdowns, volatility, ratios with a given risk-free rate, beta, correlation, rolling measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import (
    check_choice,
    count_per_year,
    has_returns,
    read_one,
    read_prices,
    read_series,
    read_window,
    unit_of,
)
from fathom.services.sandbox.inside.finance.results import ensure_bounds, state, state_by_series
from fathom.services.sandbox.inside.finance.returns import DAYS_A_YEAR, to_returns

INF = float("inf")
# Below this a deviation is rounding: all values are equal.
NEGLIGIBLE = 1e-12


def fall_from_peak(values: Any) -> Any:
    """Return the drawdowns of a series without gaps."""
    return ensure_bounds(values / values.cummax() - 1, -1.0, 0.0, "drawdown")


def drawdown(data: Any, start: Any = None, end: Any = None) -> Any:
    """Return the fall of each value from the highest one so far in the window, in [-1, 0]."""
    frame, window = read_prices(data, "data"), read_window(start, end, "first")
    falls = pd.DataFrame({column: fall_from_peak(window.cut(frame[column])) for column in frame})
    return state(falls, "drawdown", "fraction")


def max_drawdown(data: Any, start: Any = None, end: Any = None) -> Any:
    """Return the deepest drawdown of each series with the dates of peak, trough and recovery (NaT for none)."""
    frame, window, rows = read_prices(data, "data"), read_window(start, end, "first"), {}
    for column in frame:
        values = window.cut(frame[column])
        fall = fall_from_peak(values)
        trough = fall.idxmin()
        peak = values[:trough][::-1].idxmax()
        recovered = values[trough:][values[trough:] >= values[peak]].index
        dates = [peak, trough, recovered[0] if len(recovered) else pd.NaT] if fall[trough] < 0 else [pd.NaT] * 3
        ends = {"from": values.index[0], "to": values.index[-1]}
        rows[column] = {
            "drawdown": fall[trough],
            **dict(zip(("peak", "trough", "recovery"), dates, strict=True)),
            **ends,
        }
    return state(pd.DataFrame.from_dict(rows, orient="index"), "max_drawdown", {"drawdown": "fraction"})


def read_returns(data: Any, start: Any, end: Any, periods_per_year: Any) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the simple returns inside the window, and the observations a year, of each series."""
    frame, window = read_prices(data, "data"), read_window(start, end)
    cut = {column: window.cut(frame[column]) for column in frame}
    for column, values in cut.items():
        if len(values) < 3:
            raise InvalidArgument("data", f"{column} has {len(values)} values in the window; two returns need three")
    counts = {column: count_per_year(values.index, given=periods_per_year) for column, values in cut.items()}
    return {column: to_returns(values) for column, values in cut.items()}, counts


def describe_counts(counts: dict[str, int]) -> str:
    """Return the observations a year as text, by series where they differ."""
    if not counts:
        return "-"
    if len(set(counts.values())) == 1:
        return str(next(iter(counts.values())))
    return ", ".join(f"{count} ({name})" for name, count in counts.items())


def volatility(data: Any, start: Any = None, end: Any = None, periods_per_year: Any = None) -> Any:
    """Return the annualised standard deviation of simple returns: a number for one series, else one for each."""
    held, counts = read_returns(data, start, end, periods_per_year)
    found = {name: ensure_bounds(one.std() * counts[name] ** 0.5, 0.0, INF, "volatility") for name, one in held.items()}
    return state_by_series(found, "volatility", "fraction", count=describe_counts(counts))


def read_risk_free(risk_free: Any, unit: str, dates: Any, count: int) -> tuple[Any, str]:
    """Return the risk-free return of each period and its name; raise ``InvalidArgument`` for an unstated unit."""
    known, what = risk_free, "0"
    if isinstance(risk_free, (pd.Series, pd.DataFrame)):
        rates = read_one(risk_free, "risk_free")
        carried = unit_of(rates, rates.name)
        unit = unit or ("%" if carried.startswith("%") else carried)
        known = rates.reindex(dates, method="ffill")
        gap = pd.Timedelta(days=2 * DAYS_A_YEAR / count_per_year(rates.index, "risk_free") + 5)
        if known.isna().any() or dates[-1] - rates.index[-1] > gap:
            covered = f"{rates.index[0].date()} to {rates.index[-1].date()}"
            raise InvalidArgument("risk_free", f"covers {covered}, not all of {dates[0].date()} to {dates[-1].date()}")
        what = f"last {rates.name} on or before each date"
    elif isinstance(risk_free, bool) or not isinstance(risk_free, (int, float)) or not np.isfinite(risk_free):
        raise InvalidArgument("risk_free", "must be a number or a series of rates a year; 0 for none")
    elif risk_free == 0:
        return 0.0, what
    else:
        what = f"{risk_free:g}"
    if unit not in ("%", "fraction"):
        raise InvalidArgument("risk_free_unit", "must be '%' or 'fraction': is 2 a rate of 2 % or of 200 %?")
    annual = known / 100 if unit == "%" else known
    if float(np.max(np.abs(annual))) > 1:
        raise InvalidArgument("risk_free_unit", f"{float(np.max(np.abs(annual))):.0%} a year: is the unit '%'?")
    return annual / count, f"{what} {'%' if unit == '%' else 'as a fraction'} a year, divided by {count}"


def compute_ratio(
    data: Any, rate: tuple[Any, str], window: tuple[Any, ...], spread: Callable[..., Any], name: str
) -> Any:
    """Return mean excess return over the ``spread`` of excess returns, annualised; NaN where it is nil."""
    (held, counts), found, what = read_returns(data, *window), {}, ""
    for column, one in held.items():
        free, what = read_risk_free(*rate, one.index, counts[column])
        deviation = float(spread(one - free))
        ratio = float((one - free).mean()) / deviation if deviation > NEGLIGIBLE else np.nan
        found[column] = ratio * counts[column] ** 0.5
    return state_by_series(found, name, rate=what, count=describe_counts(counts))


def sharpe(
    data: Any,
    risk_free: Any,
    risk_free_unit: str = "",
    start: Any = None,
    end: Any = None,
    periods_per_year: Any = None,
) -> Any:
    """Return the annualised Sharpe ratio; ``risk_free`` is a rate a year, a number or a series, in its stated unit.

    The unit is "%" or "fraction"; a series that carries its unit needs none.
    """
    window = (start, end, periods_per_year)
    return compute_ratio(data, (risk_free, risk_free_unit), window, lambda excess: excess.std(), "sharpe")


def sortino(
    data: Any,
    risk_free: Any,
    risk_free_unit: str = "",
    start: Any = None,
    end: Any = None,
    periods_per_year: Any = None,
) -> Any:
    """Return the annualised Sortino ratio, with the risk-free rate as its target; arguments as in ``sharpe``."""
    window = (start, end, periods_per_year)
    return compute_ratio(data, (risk_free, risk_free_unit), window, measure_downside, "sortino")


def measure_downside(excess: Any) -> float:
    """Return the root mean square of the negative values, over the number of all."""
    return float(np.sqrt((np.minimum(excess, 0.0) ** 2).mean()))


def beta(
    data: Any,
    market: Any,
    risk_free: Any = 0.0,
    risk_free_unit: str = "",
    start: Any = None,
    end: Any = None,
    periods_per_year: Any = None,
) -> Any:
    """Return beta, annual alpha, correlation and R² of each series against ``market``, on common dates."""
    frame, reference = read_prices(data, "data"), read_one(market, "market", is_price=True)
    window, rows, counts, what = read_window(start, end), {}, {}, ""
    for column in frame:
        pair = pd.concat([frame[column], reference], axis=1, keys=("own", "market")).dropna()
        held = {side: to_returns(window.cut(pair[side].rename(column))) for side in pair}
        dates = held["own"].index
        if len(dates) < 3 or held["market"].std() < NEGLIGIBLE:
            raise InvalidArgument("market", f"has {len(dates)} returns in common with {column}, or they do not vary")
        counts[column] = count_per_year(dates, given=periods_per_year)
        free, what = read_risk_free(risk_free, risk_free_unit, dates, counts[column])
        own, other = held["own"] - free, held["market"] - free
        slope = float(own.cov(other) / other.var())
        both = float(ensure_bounds(own.corr(other), -1.0, 1.0, "correlation")) if own.std() > NEGLIGIBLE else np.nan
        alpha = float(own.mean() - slope * other.mean()) * counts[column]
        ends = {"returns": len(own), "from": dates[0], "to": dates[-1]}
        rows[column] = {"beta": slope, "alpha": alpha, "correlation": both, "r2": both**2, **ends}
    table = pd.DataFrame.from_dict(rows, orient="index")
    return state(table, "beta", {"alpha": "fraction"}, market=reference.name, rate=what, count=describe_counts(counts))


NAMES = {
    "returns": ("simple returns", "简单收益率"),
    "changes": ("differences", "差分"),
    "levels": ("levels", "水平值"),
}


def to_move(values: Any, kind: str) -> Any:
    """Return the returns or differences of a series without gaps, or itself."""
    return to_returns(values) if kind == "returns" else values.diff().iloc[1:] if kind == "changes" else values


def to_moves(frame: Any, of: str = "auto") -> tuple[Any, tuple[str, str]]:
    """Return returns, differences or levels, and their name; "auto" takes differences of what has no returns."""
    check_choice(of, ("auto", *NAMES), "of")
    kinds = {column: of if of != "auto" else "returns" if has_returns(frame, column) else "changes" for column in frame}
    for column, kind in kinds.items():
        if kind == "returns" and not has_returns(frame, column):
            raise InvalidArgument("of", f"{column} is a rate or not always above 0, and has no returns: use 'changes'")
    moves = pd.DataFrame({column: to_move(frame[column].dropna(), kind) for column, kind in kinds.items()})
    if len(set(kinds.values())) == 1:
        return moves, NAMES[next(iter(kinds.values()))]
    mixed = [", ".join(f"{column}: {NAMES[kind][side]}" for column, kind in kinds.items()) for side in (0, 1)]
    return moves, (mixed[0], mixed[1])


def correlation(data: Any, of: str = "auto", start: Any = None, end: Any = None) -> Any:
    """Return the matrix of Pearson correlations on common dates.

    ``of`` is "returns", "changes" (differences), "levels", or "auto": differences of rates, returns of all others.
    """
    frame, window = read_series(data, "data"), read_window(start, end)
    attrs, frame = frame.attrs, frame.dropna()
    if len(frame.columns) < 2:
        raise InvalidArgument("data", "has one series, and a correlation needs two")
    frame = pd.DataFrame({column: window.cut(frame[column]) for column in frame}) if len(frame) else frame
    if len(frame) < 4:
        raise InvalidArgument("data", f"has {len(frame)} common dates, too few for a correlation")
    frame.attrs = attrs
    moves, kind = to_moves(frame, of)
    ends = {"n": len(moves), "start": moves.index[0].date(), "end": moves.index[-1].date()}
    return state(ensure_bounds(moves.corr(), -1.0, 1.0, "correlation"), "correlation", kind=kind, **ends)


def rolling(data: Any, window: int, measure: str = "volatility", periods_per_year: Any = None) -> Any:
    """Return a measure over the last ``window`` observations of each date.

    ``measure`` is "volatility", "return", "mean" (a moving average), or "correlation" of exactly two series.
    """
    if isinstance(window, bool) or not isinstance(window, int) or window < 2:
        raise InvalidArgument("window", "must be a number of observations, at least 2")
    check_choice(measure, ("volatility", "return", "mean", "correlation"), "measure")
    frame = (read_prices if measure in ("volatility", "return") else read_series)(data, "data")
    if int(frame.count().min()) <= window:
        raise InvalidArgument("window", f"must be below the number of values, {int(frame.count().min())}")
    if measure == "correlation":
        return roll_correlation(frame, window)
    columns, counts = {}, {}
    for column in frame:
        values = frame[column].dropna()
        if measure == "volatility":
            counts[column] = count_per_year(values.index, given=periods_per_year)
            columns[column] = to_returns(values).rolling(window).std() * counts[column] ** 0.5
        else:
            columns[column] = values.rolling(window).mean() if measure == "mean" else values / values.shift(window) - 1
    count = describe_counts(counts) if counts else ""
    result = state(
        pd.DataFrame(columns).dropna(how="all"), f"rolling {measure}", "fraction", window=window, count=count
    )
    result.attrs |= {"units": frame.attrs["units"]} if measure == "mean" else {}
    return result


def roll_correlation(frame: Any, window: int) -> Any:
    """Return the correlation of two series over the last ``window`` common dates; gaps where one does not vary."""
    if len(frame.columns) != 2:
        raise InvalidArgument("data", f"has {len(frame.columns)} series, and a rolling correlation needs two")
    attrs, frame = frame.attrs, frame.dropna()
    frame.attrs = attrs
    moves, kind = to_moves(frame)
    found = moves.iloc[:, 0].rolling(window).corr(moves.iloc[:, 1]).replace([INF, -INF], np.nan).dropna()
    # Sums that roll over thousands of dates gather more rounding than a single correlation.
    found = found.clip(-1.0, 1.0).to_frame(" and ".join(frame.columns))
    return state(found, "rolling correlation", kind=kind, window=window)


def gap_to_mean(data: Any, window: int) -> Any:
    """Return how far each value lies above or below the mean of the last ``window`` values, as a fraction of it."""
    frame, means = read_prices(data, "data"), rolling(data, window, "mean")
    gaps = pd.DataFrame({column: (frame[column].dropna() / means[column] - 1).dropna() for column in frame})
    return state(gaps, "gap_to_mean", "fraction", window=window)
