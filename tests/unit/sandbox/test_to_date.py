"""Dates in the formats of vendors' tables."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from fathom.services.sandbox.inside.preload import to_date

DAY = pd.Timestamp("2025-02-07")


@pytest.mark.parametrize(
    "value",
    [
        "2025/2/7", "2025/02/07", "2025-02-07", "2025-2-7", "20250207", "20250207.0", 20250207, 20250207.0,
        np.int64(20250207), np.float64(20250207), "2025.02.07", "2025.2.7", "2025年2月7日", "2025 年 2 月 7 日",
        " 2025-02-07 ", "２０２５／２／７", "7 Feb 2025", "2/7/2025", "Fri, 7 February 2025", "Feb 7, 2025", "2025-02-07T00:00:00", "2025-02-07 00:00",
        "2025-02-07T00:00:00Z", "2025-02-07T08:00:00+08:00", datetime.date(2025, 2, 7), datetime.datetime(2025, 2, 7),
        pd.Timestamp("2025-02-07"), pd.Timestamp("2025-02-07", tz="UTC"), np.datetime64("2025-02-07"),
    ],
)  # fmt: skip
def test_a_date_in_any_format(value: object) -> None:
    assert to_date(value) == DAY


@pytest.mark.parametrize(
    "value",
    [
        None, pd.NaT, pd.NA, float("nan"), np.datetime64("NaT"), "", "  ", "abc", "now", "10:30", "May 1", "A1", "1e5", "N/A", "-", "2025-13-40", "2025/2/30",
        99999999, "99999999", "20251345", "2025-13-01", "123", 7, 2025, "2025", 0, -1, 20250207.5, float("inf"), True, np.bool_(True), [1], {}, b"x", object(),
    ],
)  # fmt: skip
def test_what_is_no_date(value: object) -> None:
    result = to_date(value)
    assert result is pd.NaT or list(result) == [pd.NaT]


def test_times_are_kept_and_months_begin() -> None:
    assert to_date("2025/2/7 10:30:15.250") == pd.Timestamp("2025-02-07 10:30:15.250")
    assert to_date("2025年2月") == to_date("2025-02") == to_date("2025/2") == pd.Timestamp("2025-02-01")


def test_columns_keep_index_and_name() -> None:
    column = pd.Series(["2025/7/27", 20250207, None, "x", ["list"]], index=[5, 6, 7, 8, 9], name="date")
    expected = pd.Series(
        pd.DatetimeIndex([pd.Timestamp("2025-07-27"), DAY, pd.NaT, pd.NaT, pd.NaT]), index=column.index, name="date"
    )
    pd.testing.assert_series_equal(to_date(column), expected.astype("datetime64[us]"))


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Index])
def test_other_sequences_become_an_index(kind: type) -> None:
    result = to_date(kind(["20250207", "2025-02-07"]))
    assert isinstance(result, pd.DatetimeIndex)
    assert list(result) == [DAY, DAY]


def test_columns_of_dates_and_numbers() -> None:
    assert list(to_date(pd.Series([20250207, 20250207]))) == [DAY, DAY]
    assert list(to_date(pd.Series([DAY, pd.NaT]))) == [DAY, pd.NaT]
    assert list(to_date(pd.Series([], dtype=object))) == []
