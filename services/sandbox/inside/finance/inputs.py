"""Reading of what measures are given: sheets and series as floats by date, windows, units, and refusals by name."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from fathom.services.sandbox.inside.finance.errors import BrokenInvariant, InvalidArgument
from fathom.services.sandbox.inside.preload import to_date

# The adjustment that statistical offices write behind a unit: "% (SA)", "% (NSA)".
ADJUSTMENT = re.compile(r"\s*\((SA|NSA)\)\s*$")
# Beginnings of units whose values are shares already: "% a year", "percentage points", "bp" but not "bpd" (barrels).
RATE_UNIT = re.compile(r"%|per ?cent|fraction|basis point|(?:bps?|pp)(?!\w)|百分|基点", re.IGNORECASE)
# Observations a year, and the largest median gap in days that counts as so many: a week with a holiday, and so on.
DENSITIES = ((252, 4), (52, 10), (12, 45), (4, 135), (1, 100_000))
# Share of weekend days from which a daily series trades on all days of the year, as crypto assets do.
WEEKENDS = 0.2
# From which value the return of a window can be counted.
BASES = ("auto", "before", "first")


def read_series(data: Any, name: str) -> Any:
    """Return the numeric columns of a Series or DataFrame as a DataFrame of floats by date, sorted.

    Dates are the index, or else the column "date" or the only one of dates; a long table with a column "entity" gets a
    column per entity. Units and indicators in ``attrs`` are kept. Raise ``InvalidArgument`` naming the argument.
    """
    if not isinstance(data, (pd.Series, pd.DataFrame)):
        raise InvalidArgument(name, f"must be a Series or a DataFrame, not {type(data).__name__}")
    frame = data.to_frame("value" if data.name is None else data.name) if isinstance(data, pd.Series) else data
    attrs = {key: dict(data.attrs.get(key, {})) for key in ("units", "indicators")}
    frame = index_by_date(frame, name)
    numbers = frame.select_dtypes("number").astype(float).dropna(axis="columns", how="all")
    if numbers.empty:
        raise InvalidArgument(name, f"has no column with numbers among {[str(column) for column in frame.columns]}")
    if "entity" in frame and numbers.index.has_duplicates:
        numbers, attrs = spread_entities(numbers, frame["entity"], attrs)
    if numbers.index.has_duplicates:
        raise InvalidArgument(name, f"has {numbers.index[numbers.index.duplicated()][0].date()} more than once")
    if np.isinf(numbers.to_numpy()).any():
        raise InvalidArgument(name, "has infinite values")
    numbers = numbers.sort_index().rename(columns=str).rename_axis("date")
    numbers.attrs = attrs
    return numbers


def has_dates(column: Any) -> bool:
    """Return whether all values of a column that are not missing are days or moments."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    values = column.dropna() if column.dtype == object else column.iloc[:0]
    return len(values) > 0 and all(isinstance(value, date) for value in values)


def index_by_date(frame: Any, name: str) -> Any:
    """Return the frame with dates as index; raise ``InvalidArgument`` naming the first value that is no date."""
    if isinstance(frame.index, pd.PeriodIndex):
        return frame.set_axis(frame.index.end_time.normalize())
    column = next((one for one in frame.columns if str(one).lower() == "date"), None)
    if column is None and pd.api.types.is_numeric_dtype(frame.index):
        # Whoever gives a table may call its dates anything.
        dated = [one for one in frame.columns if has_dates(frame[one])]
        column = dated[0] if len(dated) == 1 else None
    if column is None and pd.api.types.is_numeric_dtype(frame.index):
        raise InvalidArgument(name, "has neither dates as index nor a column 'date'")
    raw = frame.index if column is None else pd.Index(frame[column])
    dates = raw if isinstance(raw, pd.DatetimeIndex) and raw.tz is None else pd.DatetimeIndex(to_date(raw))
    if dates.isna().any():
        raise InvalidArgument(name, f"has {raw[dates.isna()][0]!r} in place of a date")
    return frame.drop(columns=[] if column is None else [column]).set_axis(dates)


def spread_entities(numbers: Any, entities: Any, attrs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a long table with a column per entity, or per entity and column where it has several numeric ones."""
    columns: dict[str, Any] = {}
    found: dict[str, Any] = {key: {} for key in attrs}
    for entity in dict.fromkeys(entities):
        for column in numbers.columns:
            label = str(entity) if len(numbers.columns) == 1 else f"{entity}.{column}"
            columns[label] = numbers.loc[(entities == entity).to_numpy(), column]
            for key in found:
                found[key] |= {label: attrs[key][column]} if column in attrs[key] else {}
    is_unique = not any(column.index.has_duplicates for column in columns.values())
    return (pd.DataFrame(columns), found) if is_unique else (numbers, attrs)


def unit_of(frame: Any, column: str) -> str:
    """Return the unit that the frame carries for a column; "" for none."""
    return str(frame.attrs.get("units", {}).get(column, ""))


def split_adjustment(unit: str) -> tuple[str, str]:
    """Return a unit and whether its values are adjusted for seasons, SA or NSA, "" where it does not say.

    Values at an annual rate (SAAR) count something else, and stay a unit of their own.
    """
    found = ADJUSTMENT.search(unit)
    return (unit[: found.start()].rstrip(), found[1]) if found else (unit, "")


def is_rate(frame: Any, column: str) -> bool:
    """Return whether the column's unit says that its values are shares, which have differences and no returns."""
    return RATE_UNIT.match(unit_of(frame, column).strip()) is not None


def has_returns(frame: Any, column: str) -> bool:
    """Return whether a column can have returns: it is no rate, and all its values are above 0."""
    return not is_rate(frame, column) and bool((frame[column].dropna() > 0).all())


def read_prices(data: Any, name: str) -> Any:
    """Return the columns as ``read_series`` does; raise ``InvalidArgument`` for rates and values not above 0."""
    frame = read_series(data, name)
    for column in frame:
        if is_rate(frame, column):
            unit = unit_of(frame, column)
            raise InvalidArgument(
                name, f"{column} is measured in {unit}, and a rate has no return: use finance.changes()"
            )
        low = frame.index[frame[column] <= 0]
        if len(low):
            value = f"{column} is {frame[column][low[0]]:g} on {low[0].date()}"
            raise InvalidArgument(name, f"{value}: a return needs prices or levels above 0; use finance.changes()")
    return frame


def read_one(data: Any, name: str, is_price: bool = False) -> Any:
    """Return the only numeric column without gaps, with ``attrs``; raise ``InvalidArgument`` for several."""
    frame = (read_prices if is_price else read_series)(data, name)
    if len(frame.columns) > 1:
        raise InvalidArgument(name, f"must be one series and has {len(frame.columns)}: {', '.join(frame.columns)}")
    column = frame.iloc[:, 0].dropna()
    column.attrs = frame.attrs
    return column


@dataclass(frozen=True)
class Window:
    """First and last day, and from which value a return counts.

    ``base`` is "before" (the last value before the first day), "day" (the first day's own value, or where it has none
    the last one before it) or "first" (the first value in the window).
    """

    start: Any = None
    end: Any = None
    base: str = "before"

    def cut(self, column: Any) -> Any:
        """Return the values of the window, led by the base value where it lies before; no missing values."""
        values = column.dropna()
        inside = values.loc[self.start : self.end]
        if inside.empty:
            days = f"from {values.index[0].date()} to {values.index[-1].date()}" if len(values) else "on no common date"
            raise InvalidArgument("start", f"{column.name} has no value in the window; it has values {days}")
        needs_earlier = self.base == "before" or (self.base == "day" and inside.index[0] != self.start)
        earlier = values[values.index < inside.index[0]][-1:] if needs_earlier and self.start is not None else []
        found = pd.concat([earlier, inside]) if len(earlier) else inside
        if self.end is not None and found.index[-1] > self.end:
            raise BrokenInvariant(f"{found.index[-1].date()} lies after the window's end, {self.end.date()}")
        return found

    @property
    def description(self) -> tuple[str, str]:
        """Return in English and Chinese from which value a return counts."""
        if self.base == "first" or self.start is None:
            return "from the first value in the window", "以窗口内第一个值为基准"
        if self.base == "day":
            text = f"from the value of {self.start.date()}, or where that day has none the last value before it"
            return text, f"以{self.start.date()}的值为基准，当日没有则以之前最后一个值为基准"
        text = "from the last value before the window, or the first in it where none is before"
        return text, "以窗口前最后一个值为基准，没有则以窗口内第一个值为基准"


def read_window(start: Any, end: Any, base: str = "before") -> Window:
    """Return the window; a text may be a year, a month or a day, and an end is then its last day.

    The base "auto" is "day" where the start is a day, and "before" where it is a month or a year.
    """
    check_choice(base, BASES, "base", "'auto', 'before' (last value before the window) or 'first' (first value in it)")
    first, last = read_day(start, "start"), read_day(end, "end", is_end=True)
    if first is not None and last is not None and first > last:
        raise InvalidArgument("start", f"{first.date()} is after the end, {last.date()}")
    if base == "auto":
        base = "day" if first is not None and first == read_day(start, "start", is_end=True) else "before"
    return Window(first, last, base)


def check_choice(value: Any, choices: Collection[str], name: str, hint: str = "") -> None:
    """Raise ``InvalidArgument`` unless a value is one of the texts; ``hint`` replaces their list in the message."""
    # A table in place of a text has no truth value to compare by.
    if not isinstance(value, str) or value not in choices:
        given = repr(value) if isinstance(value, (str, int, float)) else f"a {type(value).__name__}"
        raise InvalidArgument(name, f"must be {hint or 'one of ' + ', '.join(choices)}, not {given}")


def read_day(value: Any, name: str, is_end: bool = False) -> Any:
    """Return the first day, or the last one, of a day, month or year as a timestamp; None for none."""
    if value is None or value == "":
        return None
    try:
        period = pd.Period(str(value)) if isinstance(value, (str, int)) else pd.Period(value, freq="D")
        return (period.end_time if is_end else period.start_time).floor("D")
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidArgument(name, f"{value!r} is no date: give '2020', '2020-03' or '2020-03-23'") from error


def count_per_year(index: Any, name: str = "data", given: Any = None) -> int:
    """Return the observations a year: those given, or by the median gap of the dates 252 or 365, 52, 12, 4 or 1."""
    if given is not None:
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given <= 366:
            raise InvalidArgument("periods_per_year", "must be above 0 and at most 366, such as 252, 52 or 12")
        return int(given)
    if len(index) < 3:
        raise InvalidArgument(name, f"has {len(index)} values, too few to tell how many a year has")
    gap = float(np.median(np.diff(index.to_numpy()) / np.timedelta64(1, "D")))
    found = next(count for count, limit in DENSITIES if gap <= limit)
    return 365 if found == 252 and (index.day_of_week >= 5).mean() > WEEKENDS else found
