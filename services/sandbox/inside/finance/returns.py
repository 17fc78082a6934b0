"""Returns, growth and differences, and levels in other prices: deflated or in another currency."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import (
    Window,
    check_choice,
    count_per_year,
    read_one,
    read_prices,
    read_series,
    read_window,
    unit_of,
)
from fathom.services.sandbox.inside.finance.results import state

DAYS_A_YEAR = 365.25
# A year between two last closes may be a week short, with holidays at its end.
YEAR_OF_CLOSES = 0.98
# Period code of pandas, observations a year, and the word in Chinese.
EVERY = MappingProxyType(
    {"week": ("W-SUN", 52, "周"), "month": ("M", 12, "月"), "quarter": ("Q", 4, "季"), "year": ("Y", 1, "年")}
)
# Days over which the last rate still holds: holidays of a market; a month of a monthly series.
MAX_STALE_DAYS, MAX_STALE_DAYS_MONTHLY = 10, 31
KINDS = MappingProxyType(
    {
        "index": ("price return (an index level, without dividends)", "价格收益率（指数点位，不含股息）"),
        "adjusted": (
            "total return (closes adjusted for dividends where the source does so)",
            "总收益率（按数据源复权）",
        ),
        "mixed": (
            "return (total of adjusted closes, price of index levels)",
            "收益率（复权收盘价为总收益率，指数为价格收益率）",
        ),
        "plain": (
            "return of the values as given (with dividends only if they include them)",
            "收益率（数值含股息时才含股息）",
        ),
    }
)


def describe_kind(frame: Any) -> tuple[str, str]:
    """Return in English and Chinese whether returns are total or price returns, as far as the frame's ``attrs`` say."""
    indicators = frame.attrs.get("indicators", {})
    kinds = {
        "index" if unit_of(frame, one) == "points" else "adjusted" if indicators.get(one) == "close_adj" else "plain"
        for one in frame
    }
    return KINDS["plain" if "plain" in kinds else kinds.pop() if len(kinds) == 1 else "mixed"]


def to_returns(values: Any, method: str = "simple") -> Any:
    """Return the returns of a series without gaps."""
    ratio = values / values.shift(1)
    return (np.log(ratio) if method == "log" else ratio - 1).iloc[1:]


def returns(data: Any, method: str = "simple", start: Any = None, end: Any = None) -> Any:
    """Return the return of each observation on the one before it; ``method`` is "simple" or "log"."""
    check_choice(method, ("simple", "log"), "method", "'simple' or 'log'")
    frame, window = read_prices(data, "data"), read_window(start, end)
    found = pd.DataFrame({column: to_returns(window.cut(frame[column]), method) for column in frame})
    names = (method, "简单" if method == "simple" else "对数")
    return state(found, "returns", "fraction", method=names, kind=describe_kind(frame))


def changes(data: Any, start: Any = None, end: Any = None) -> Any:
    """Return the difference of each observation to the one before it: for rates, spreads and what may be negative."""
    frame, window = read_series(data, "data"), read_window(start, end)
    result = state(pd.DataFrame({column: window.cut(frame[column]).diff().iloc[1:] for column in frame}), "changes")
    units = {column: unit_of(frame, column) for column in frame}
    result.attrs["units"] = {one: "percentage points" if unit.startswith("%") else unit for one, unit in units.items()}
    return result


def holding_return(data: Any, start: Any = None, end: Any = None, base: str = "auto") -> Any:
    """Return base and end values with their dates, the return between them, and CAGR from one year on.

    A start that is a day is itself the base, or the last value before it where that day has none; a start that is a
    month or a year counts from the last value before it. ``base`` "before" or "first" (in the window) overrides this.
    Raise ``InvalidArgument`` where the window holds a single value: it has returned nothing, not 0 %.
    """
    frame, window = read_prices(data, "data"), read_window(start, end, base)
    table = hold(frame, window)
    alone = table[table["base_date"] == table["end_date"]]
    if len(alone):
        raise InvalidArgument(
            "start", f"leaves {alone.index[0]} the single value of {alone['end_date'].iloc[0].date()}"
        )
    units = {"return": "fraction", "cagr": "fraction", "years": "years"}
    return state(table, "holding_return", units, kind=describe_kind(frame), base=window.description)


def hold(frame: Any, window: Window) -> Any:
    """Return base and end values, return, years and CAGR of each price over a window, without a convention."""
    rows = {}
    for column in frame:
        values = window.cut(frame[column])
        years, gain = (values.index[-1] - values.index[0]).days / DAYS_A_YEAR, values.iloc[-1] / values.iloc[0]
        rows[column] = {
            "base_date": values.index[0],
            "base": values.iloc[0],
            "end_date": values.index[-1],
            "end": values.iloc[-1],
            "return": gain - 1,
            "years": years,
            "cagr": gain ** (1 / years) - 1 if years >= YEAR_OF_CLOSES else np.nan,
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def period_returns(data: Any, every: str = "year", start: Any = None, end: Any = None) -> Any:
    """Return the return of each week, month, quarter or year, from the last value of the period before.

    The first period counts from its own first value where none is before; a period beside a gap has no return.
    """
    check_choice(every, EVERY, "every")
    frame, window, (code, count, chinese) = read_prices(data, "data"), read_window(start, end), EVERY[every]
    columns, partial, last_day = {}, [], frame.index[0]
    for column in frame:
        values = window.cut(frame[column])
        if len(values) > 2 and count_per_year(values.index) < count:
            raise InvalidArgument(
                "every", f"{column} has {count_per_year(values.index)} values a year, too few by {every}"
            )
        inside = values.loc[window.start :]
        last = inside.groupby(inside.index.to_period(code)).last()
        last = last.reindex(pd.period_range(last.index[0], last.index[-1], freq=code))
        found = last / last.shift(1) - 1
        found.iloc[0] = last.iloc[0] / values.iloc[0] - 1
        partial += [f"{column} from {values.index[0].date()}"] if len(values) == len(inside) else []
        columns[column], last_day = found, max(last_day, values.index[-1])
    table = pd.DataFrame(columns)
    table.index = table.index.astype(str).rename(every)
    note = ("; first period from its own first value: ", "；首期从其第一个值算起：")
    notes = tuple(text + ", ".join(partial) if partial else "" for text in note)
    names = {"kind": describe_kind(frame), "every": (every, chinese), "partial": notes, "end": last_day.date()}
    return state(table, "period_returns", "fraction", **names)


def growth(data: Any, months: int = 12, start: Any = None, end: Any = None, annual: bool = False) -> Any:
    """Return the growth of each month, quarter or year on the one so many months before, dated by its last day.

    With ``annual`` it is compounded to a year, as growth of real GDP on the quarter before is quoted.
    """
    frame, window, columns = read_prices(data, "data"), read_window(start, end), {}
    for column in frame:
        values = frame[column].dropna()
        code, width = {4: ("Q", 3), 1: ("Y", 12)}.get(count_per_year(values.index), ("M", 1))
        if isinstance(months, bool) or not isinstance(months, int) or months < 1 or months % width:
            raise InvalidArgument("months", f"must be a multiple of {width} for {column}, and is {months!r}")
        last = values.groupby(values.index.to_period(code)).last()
        last = last.reindex(pd.period_range(last.index[0], last.index[-1], freq=code))
        ratio = (last / last.shift(months // width)) ** (12 / months if annual else 1)
        found = (ratio - 1).set_axis(last.index.end_time.normalize())
        columns[column] = found.dropna().loc[window.start : window.end]
    return state(pd.DataFrame(columns), "annual growth" if annual else "growth", "fraction", months=months)


def deflate(data: Any, price_index: Any, base: Any = None) -> Any:
    """Return the values in constant prices of ``base``, a period of the index such as "2018-12"; default its last."""
    frame, index = read_prices(data, "data"), read_one(price_index, "price_index", is_price=True)
    code = {12: "M", 4: "Q", 1: "Y"}.get(count_per_year(index.index, "price_index"), "D")
    index = index.groupby(index.index.to_period(code)).last()
    periods = frame.index.to_period(code)
    missing = periods[~periods.isin(index.index)]
    if len(missing):
        known = f"{index.index[0]} to {index.index[-1]}"
        raise InvalidArgument("price_index", f"has no value for {missing[0]}; it covers {known}")
    try:
        at = index.index[-1] if base is None else pd.Period(str(base), freq=code)
        factor = index[at] / index[periods].to_numpy()
    except (KeyError, ValueError) as error:
        raise InvalidArgument("base", f"{base!r} is no period of the price index") from error
    result = state(frame.mul(factor, axis=0), "deflate", base=str(at))
    result.attrs |= frame.attrs
    return result


def convert(data: Any, rate: Any, quote: str, unit: str = "") -> Any:
    """Return the values in another currency, by the rate of each day or the last one shortly before it.

    ``quote`` says how the rate is quoted: "target per source" (values are multiplied) or "source per target" (divided).
    """
    verbs = {"target per source": ("times", "乘以"), "source per target": ("divided by", "除以")}
    check_choice(quote, verbs, "quote", "'target per source' (multiplied) or 'source per target' (divided)")
    frame, rates = read_series(data, "data"), read_one(rate, "rate", is_price=True)
    is_dense = count_per_year(rates.index, "rate") > 12
    limit = pd.Timedelta(days=MAX_STALE_DAYS if is_dense else MAX_STALE_DAYS_MONTHLY)
    known = pd.DataFrame({"rate": rates, "day": rates.index}).reindex(frame.index, method="ffill")
    stale = frame.index[(known["day"].isna() | (frame.index - known["day"] > limit)).to_numpy()]
    if len(stale):
        ends = f"{rates.index[0].date()} to {rates.index[-1].date()}"
        raise InvalidArgument("rate", f"has no value for {stale[0].date()}; it covers {ends}")
    factor = known["rate"] if quote == "target per source" else 1 / known["rate"]
    result = state(frame.mul(factor, axis=0), "convert", unit, verb=verbs[quote])
    result.attrs["indicators"] = frame.attrs["indicators"]
    return result
