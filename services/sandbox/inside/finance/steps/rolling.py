"""Risk and return over a window that moves with the day: 60-day volatility, three-month return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import count_per_year
from fathom.services.sandbox.inside.finance.steps.dates import make_offset
from fathom.services.sandbox.inside.finance.steps.statistics import check_returns
from fathom.services.sandbox.inside.finance.steps.values import (
    DAILY,
    EVERY,
    MONTHLY,
    Line,
    map_members,
    measure_gap,
    name_step,
    read_count,
    write_note,
)

# Returns from which on a deviation says something.
FEWEST_RETURNS = 3
# Days by which the base of a return may lie before the day that it is counted from: a week of holidays.
MOST_FILLED_DAYS = 7
# Months of a unit of time, for lengths that are no number of observations.
MONTHS = {"month": 1, "quarter": 3, "year": 12}


def count_observations(line: Line, n: Any, unit: str) -> int:
    """Return how many observations a length is: n days of a daily series, n months of a monthly one; 0 for others."""
    gap = measure_gap(line.values)
    own = "day" if gap <= DAILY else "week" if gap <= MONTHLY else name_step(gap)
    return read_count(n, "n") if unit == own else 0


@map_members
def rolling_vol(line: Line, n: Any, unit: str = "day") -> Line:
    """Return at each observation the annualised deviation of the simple returns of the last n days, in %.

    Days are observations of a daily series; of weeks, months, quarters and years all returns since then count. Raise
    ``InvalidArgument`` for rates, and for a length of fewer than three returns.
    """
    check_returns(line)
    returns, count = line.values.pct_change(), count_observations(line, n, unit)
    a_year = count_per_year(line.values.index, "line")
    if count:
        if count < FEWEST_RETURNS:
            raise InvalidArgument("n", f"is {count}: a deviation needs {FEWEST_RETURNS} returns")
        found = returns.rolling(count).std()
    else:
        found = measure_since(line, returns, make_offset(read_count(n, "n"), unit))
    note = write_note("rolling vol", length=name_length(n, unit), count=a_year)
    return line.derive(found * a_year**0.5 * 100, unit="%", kind="rate", indicator="", notes=(*line.notes, note))


def measure_since(line: Line, returns: Any, offset: Any) -> Any:
    """Return the deviation of the returns after the same day an offset earlier; none where the series begins later."""
    days = line.values.index
    begins = days.searchsorted(days - offset, side="right")
    rows = [
        returns.iloc[first : at + 1].std() if first > 0 and at + 1 - first >= FEWEST_RETURNS else None
        for at, first in enumerate(begins)
    ]
    return pd.Series(rows, days, dtype=float)


@map_members
def rolling_ret(line: Line, n: Any, unit: str = "day") -> Line:
    """Return at each observation the % change on n days (observations), weeks, months, quarters or years before.

    A month's last observation counts from the last one of the month so many before, any other day from the last value
    up to that day. Raise ``InvalidArgument`` for rates.
    """
    check_returns(line)
    values, count = line.values, count_observations(line, n, unit)
    base = values.shift(count).to_numpy() if count else find_bases(values, read_count(n, "n"), unit)
    note = write_note("rolling ret", length=name_length(n, unit))
    return line.derive((values / base - 1) * 100, unit="%", kind="move", indicator="", notes=(*line.notes, note))


def find_bases(values: Any, n: int, unit: str) -> Any:
    """Return for each observation the value a length before; none that lies more than a week before that day."""
    days = values.index
    wanted = days - make_offset(n, unit)
    if unit in MONTHS:
        months = days.to_period("M")
        is_last = ~months.duplicated(keep="last")
        # The last day of a month is seldom the same day of another one: 29 March 2019 counts from 31 December 2018.
        ends = (months - n * MONTHS[unit]).end_time.normalize()
        wanted = wanted.where(~is_last, ends)
    places = days.searchsorted(wanted, side="right") - 1
    known = (places >= 0) & ((wanted - days[places.clip(0)]).days <= max(MOST_FILLED_DAYS, measure_gap(values)))
    return np.where(known, values.to_numpy()[places.clip(0)], np.nan)


def name_length(n: Any, unit: str) -> tuple[str, str]:
    """Return a length in words, in English and Chinese."""
    count = read_count(n, "n")
    return f"{count} {unit}{'s' if count > 1 else ''}", f"{count}{'个' if unit in MONTHS else ''}{EVERY[unit][1]}"
