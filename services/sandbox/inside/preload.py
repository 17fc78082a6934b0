"""Function for dates in a cell's namespace, and the cells with which the fork server warms up its worker."""

from __future__ import annotations

import datetime
import math
import re
import unicodedata
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})(?:\.0)?")
# Year, month and optional day with -, /, . or 年月日 between them, then optionally a time: "2025.2.7", "2025年2月7日",
# "2025-02-07T09:30". Separators may differ within one date, as they do in vendors' tables.
YEAR_FIRST = re.compile(r"(\d{4})\s*[-/.年]\s*(\d{1,2})\s*(?:[-/.月]\s*(\d{1,2})\s*日?|月)?(?:[T\s]\s*(\S.*))?")

# Guard for pandas' own parser: a month's name with a year ("7 Feb 2025"), or day and month before the year
# ("2/7/2025").
YEAR_ELSEWHERE = re.compile(r"[A-Za-z].*\d{4}|\d{4}.*[A-Za-z]|\d{1,2}[-/]\d{1,2}[-/]\d{4}")

# Run once before any session is forked. They take the ways of most cells: a table's text, a figure by plotly express
# and one by graph objects with two axes, each as the last expression and by ``show``.
WARM_UP_CELLS = (
    "repr(pd.DataFrame({'a': [1.0, None]}).describe())",
    """
import mimetypes
import plotly.express as px
table = pd.DataFrame({'date': pd.date_range('2020-01-01', periods=3), 'value': [1.0, None, 2.0]})
figure = px.line(table, x='date', y='value', title='value')
figure.show()
figure
""",
    """
import plotly.graph_objects as go
from plotly.subplots import make_subplots
figure = make_subplots(specs=[[{'secondary_y': True}]])
figure.add_trace(go.Bar(x=[1, 2], y=[1, 2]), secondary_y=True)
figure.add_trace(go.Scatter(x=[1, 2], y=[1, 2]))
figure.update_layout(template='plotly_white')
figure.show()
figure
""",
    """
import finance
dates = pd.date_range('2020-01-01', periods=80)
prices = pd.DataFrame({'date': dates, 'one': np.arange(1.0, 81.0), 'two': np.arange(1.0, 81.0) ** 2})
repr(finance.summary(prices, risk_free=0))
one, two = (finance.steps.line(prices, name) for name in ('one', 'two'))
finance.steps.show(1, finance.steps.corr(one, two, 'week'))
finance.steps.show(2, finance.steps.mom(one))
for measure in ('drawdown', 'bars', 'correlation', 'histogram'):
    finance.chart(prices, measure, every='month').show()
""",
)


def to_date(value: Any) -> Any:
    """Convert dates in any of the usual formats to pandas timestamps without a zone, all else to ``NaT``.

    Reads 2025/7/27, 20250207 (text or number), 2025-02-07, 2025.2.7, 2025年2月7日, 7 Feb 2025, 2/7/2025 (month
    first), timestamps, dates and datetimes; times with a zone become UTC. A bare year is no date. Takes a single
    value, or a Series, Index, array, list or tuple; returns a Series for a Series, a DatetimeIndex for the others.
    """
    if isinstance(value, pd.Series):
        return pd.Series(parse_dates(value), index=value.index, name=value.name)
    if isinstance(value, pd.Index):
        return pd.DatetimeIndex(parse_dates(value), name=value.name)
    if isinstance(value, (list, tuple, np.ndarray)):
        return pd.DatetimeIndex(parse_dates(value))
    return parse_date(value)


def parse_dates(values: Any) -> Any:
    """Return the dates of all values; each distinct hashable value is converted once."""
    # Long columns repeat their dates.
    known: dict[Any, Any] = {}
    found = []
    for value in values:
        key = (type(value), value) if isinstance(value, Hashable) else None
        if key not in known:
            known[key] = parse_date(value)
        found.append(known[key])
    return pd.DatetimeIndex(found).as_unit("us")


def parse_date(value: Any) -> Any:
    """Return one value as a timestamp or ``NaT``."""
    # For Python a truth value is a number too.
    if isinstance(value, (bool, np.bool_)):
        return pd.NaT
    if isinstance(value, (int, float, np.integer, np.floating)):
        whole = math.isfinite(value) and value == int(value)
        value = str(int(value)) if whole else ""
    if isinstance(value, str):
        return parse_date_text(unicodedata.normalize("NFKC", value).strip())
    if isinstance(value, np.datetime64) and np.isnat(value):
        return pd.NaT
    if isinstance(value, (datetime.date, np.datetime64)):
        return strip_zone(pd.to_datetime(value, errors="coerce"))
    return pd.NaT


def parse_date_text(text: str) -> Any:
    """Return a date written as text, with a year of four digits, as a timestamp; ``NaT`` for anything else."""
    if match := COMPACT.fullmatch(text):
        text = "-".join(match.groups())
    elif match := YEAR_FIRST.fullmatch(text):
        year, month, day, time = match.groups()
        text = f"{year}-{int(month):02}-{int(day or 1):02} {time or ''}".strip()
    elif not YEAR_ELSEWHERE.search(text):  # pandas would fill in what is missing from today's date
        return pd.NaT
    try:
        return strip_zone(pd.to_datetime(text, errors="coerce"))
    except (ValueError, TypeError, OverflowError):
        return pd.NaT


def strip_zone(moment: Any) -> Any:
    """Return the time in UTC if it has a zone, without the zone, so that all dates can be compared."""
    return moment if moment is pd.NaT or moment.tzinfo is None else moment.tz_convert("UTC").tz_localize(None)
