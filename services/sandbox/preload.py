"""What a cell finds in its namespace besides the sheets."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

COMPACT = re.compile(r"\d{8}")


def to_date(value: Any) -> Any:
    """Dates in any of the usual formats as pandas timestamps; what is no date becomes ``NaT``.

    Reads 2025/7/27, 20250207 (text or number), 2025-02-07, 2025年2月7日, timestamps and datetimes; takes a
    single value, or a Series, list or Index, and gives the like.
    """
    if isinstance(value, pd.Series):
        return pd.to_datetime(value.map(one_date))
    if isinstance(value, (list, tuple, pd.Index)):
        return pd.DatetimeIndex([one_date(item) for item in value])
    return one_date(value)


def one_date(value: Any) -> Any:
    """One value as a timestamp or ``NaT``."""
    if value is None or value is pd.NaT or (isinstance(value, float) and value != value):
        return pd.NaT
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(int(value))
    if isinstance(value, str):
        text = value.strip().replace("年", "-").replace("月", "-").replace("日", "").replace("/", "-").replace(".", "-")
        if COMPACT.fullmatch(text):
            text = f"{text[:4]}-{text[4:6]}-{text[6:]}"
        elif text.isdigit():
            return pd.NaT
        return pd.to_datetime(text, errors="coerce")
    return pd.to_datetime(value, errors="coerce")
