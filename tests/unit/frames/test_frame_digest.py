"""The digest that a model sees, and tables to Arrow and back."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from fathom.core import errors
from fathom.domain import frames
from tests.support.tables import to_arrow


def series(rows: int, columns: int) -> pd.DataFrame:
    values = np.arange(rows * columns, dtype=float).reshape(rows, columns) / 7
    frame = pd.DataFrame(values, columns=[f"ENTITY.indicator_{i}" for i in range(columns)])
    frame.insert(0, "date", pd.date_range("2020-01-01", periods=rows))
    return frame


def test_digest_is_rendered_exactly() -> None:
    frame = pd.DataFrame(
        # Twelve rows are head and tail with two left out; a gap and a Chinese name show widths and nulls.
        {"date": pd.date_range("2020-01-01", periods=12), "close": [1.5, None, *range(2, 12)], "名": ["a"] * 12}
    )
    assert frames.digest(frame, "sheet_1").splitlines() == [
        "sheet_1: 12 rows × 3 columns",
        "head(5)",
        "         date close  名",
        "0  2020-01-01   1.5  a",
        "1  2020-01-02   NaN  a",
        "2  2020-01-03     2  a",
        "3  2020-01-04     3  a",
        "4  2020-01-05     4  a",
        "tail(5)",
        "          date close  名",
        "7   2020-01-08     7  a",
        "8   2020-01-09     8  a",
        "9   2020-01-10     9  a",
        "10  2020-01-11    10  a",
        "11  2020-01-12    11  a",
        "column | dtype | non-null | null",
        "date | datetime64[us] | 12 | 0",
        "close | float64 | 11 | 1",
        "名 | str | 12 | 0",
    ]


@pytest.mark.parametrize(("rows", "shown"), [(0, 0), (1, 1), (5, 5), (6, 6), (9, 9), (10, 10), (11, 10), (1250, 10)])
def test_no_row_stands_twice(rows: int, shown: int) -> None:
    lines = frames.digest(series(rows, 1), "s").splitlines()
    # Rows begin with their number, and each number is there once.
    dates = [line.split()[1] for line in lines if line[:1].isdigit()]
    assert (len(dates), len(set(dates))) == (shown, shown)


def test_a_series_that_ends_before_the_others_shows_its_last_value_with_its_own_date() -> None:
    """The last rows of a sheet of two series are empty for the one that ends earlier: its latest value stands above."""
    frame = series(40, 2)
    frame.loc[20:, "ENTITY.indicator_1"] = None
    line = "last values of columns that end before the last row: ENTITY.indicator_1 5.57143 on 2020-01-20"
    assert line in frames.digest(frame, "s").splitlines()


def test_rows_of_several_entities_below_one_another_have_no_last_values() -> None:
    one, other = series(3, 1), series(3, 1)
    # Ends of different entities in one column are no end of a series.
    other["ENTITY.indicator_0"] = None
    assert "last values" not in frames.digest(pd.concat([one, other], ignore_index=True), "s")
    assert "last values" not in frames.digest(pd.DataFrame({"item": ["a", "b"], "n": [1.0, None]}), "s")


def test_a_long_series_is_short_to_read() -> None:
    # Five series over five years: what a model reads at each question.
    assert len(frames.digest(series(1250, 5), "sheet_1")) < 5_000


def test_wide_frames_long_cells_and_names_are_bounded() -> None:
    # 400 columns with names of 500 characters and cells of 15,000.
    frame = pd.DataFrame({f"{i}_{'c' * 500}": ["x\ny" * 5_000] * 30 for i in range(400)})
    text = frames.digest(frame, "s")
    assert len(text) < 20_000
    assert "(first 12 columns shown, 388 more)" in text
    assert text.endswith("… 376 more columns")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pd.Timestamp("2020-01-02"), "2020-01-02"),
        (pd.Timestamp("2020-01-02 03:04"), "2020-01-02T03:04:00"),
        (datetime.date(2020, 1, 2), "2020-01-02"),
        (pd.NaT, "NaN"),
        (pd.NA, "NaN"),
        (None, "NaN"),
        (float("nan"), "NaN"),
        (1234567.891, "1.23457e+06"),
        (np.float64(0.1), "0.1"),
        (7, "7"),
        (np.array([1, 2]), "[1 2]"),
        ("a\n b", "a b"),
        # 23 characters and an ellipsis.
        ("x" * 25, "x" * 23 + "…"),
    ],
)
def test_cells(value: object, text: str) -> None:
    assert frames.cell(value) == text


def test_odd_frames_have_digests() -> None:
    # Two columns of one name, which a lookup by name would confuse.
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    nullable = pd.DataFrame({"n": pd.array([1, None], dtype="Int64")})
    assert "a | int64 | 1 | 0\na | int64 | 1 | 0" in frames.digest(twice, "s")
    assert "n | Int64 | 1 | 1" in frames.digest(nullable, "s")
    assert frames.digest(pd.DataFrame(), "s") == "s: 0 rows × 0 columns\ncolumn | dtype | non-null | null"


def test_arrow_round_trip_keeps_values_and_drops_pandas_metadata() -> None:
    frame = series(20, 2)
    data = to_arrow(frame)
    pd.testing.assert_frame_equal(frames.from_arrow(data), frame)
    assert frames.read_table(data).schema.metadata is None
    # An index that is named travels as a column.
    named = frame.set_index("date")
    assert list(frames.from_arrow(to_arrow(named)).columns)[-1] == "date"


# Nothing, no table, and lengths that claim more than there is.
@pytest.mark.parametrize("data", [b"", b"garbage", b"\xff\xff\xff\xff\x10\x00\x00\x00", b"\x80\x04N."])
def test_bytes_that_are_no_table_are_named(data: bytes) -> None:
    with pytest.raises(errors.CorruptData, match="sheet_1"):
        frames.from_arrow(data, "sheet_1")


def test_a_cut_table_is_corrupt() -> None:
    data = to_arrow(series(1_000, 2))
    with pytest.raises(errors.CorruptData):
        frames.from_arrow(data[: len(data) // 2])
