"""Frames over Arrow, and the digest that a model sees."""

from __future__ import annotations

from datetime import date

import pandas as pd
import pyarrow as pa
import pytest

from fathom.core.errors import CorruptData, InvalidField
from fathom.domain import frames
from tests.support.tables import to_arrow


def sample(rows: int) -> pd.DataFrame:
    dates = pd.date_range("2020-01-01", periods=rows)
    return pd.DataFrame({"date": dates, "AAPL.close": [float(i) for i in range(rows)], "note": ["x"] * rows})


def test_round_trip_keeps_values_types_and_nulls() -> None:
    # One column of each kind with a gap, and integers without one, which must not become floats.
    frame = pd.DataFrame({"d": [pd.Timestamp("2020-01-01"), pd.NaT], "v": [1.5, None], "s": ["a", None], "i": [1, 2]})
    again = frames.from_arrow(to_arrow(frame))
    assert again["v"].isna().tolist() == again["s"].isna().tolist() == again["d"].isna().tolist() == [False, True]
    assert again["i"].tolist() == [1, 2]
    assert again["d"].iloc[0] == pd.Timestamp("2020-01-01")


def test_parquet_keeps_every_type_and_no_metadata() -> None:
    table = pa.table(
        {
            "day": pa.array([date(2020, 1, 1), None], pa.date32()),
            # A zone of its own: prices of Shanghai are no times of London.
            "time": pa.array([1, None], pa.timestamp("ns", tz="Asia/Shanghai")),
            "value": pa.array([1.5, float("inf")]),
            "name": pa.array(["价", None]).dictionary_encode(),
            "many": pa.array([[1, 2], None]),
            "none": pa.nulls(2),
        }
    ).replace_schema_metadata({"pandas": "{}"})
    again = frames.read_parquet(frames.write_parquet(table), "sheet_1")
    assert again.schema.equals(table.schema)
    assert again.schema.metadata is None
    assert again.equals(table)
    # Tables without rows and without columns.
    for empty in (table.slice(0, 0), pa.table({})):
        assert frames.decode_table(frames.write_parquet(empty), frames.PARQUET).schema.equals(empty.schema)


def test_what_is_stored_is_read_as_its_content_type_says() -> None:
    table = frames.read_table(to_arrow(sample(3)))
    for kind, data in (
        (frames.PARQUET, frames.write_parquet(table)), (frames.ARROW_STREAM, frames.write_table(table)),
        ("", frames.write_table(table)),
    ):  # fmt: skip
        assert frames.decode_table(data, kind).equals(table)
    with pytest.raises(InvalidField, match="text/csv"):
        frames.decode_table(b"a,b", "text/csv")
    with pytest.raises(CorruptData, match="sheet_1"):
        # The last nine bytes hold Parquet's own footer and its length.
        frames.decode_table(frames.write_parquet(table)[:-9], frames.PARQUET, "sheet_1")


@pytest.mark.parametrize("data", [b"", b"garbage", to_arrow(sample(50))[:-200]])
def test_bytes_that_are_no_table_are_named(data: bytes) -> None:
    with pytest.raises(CorruptData, match="sheet_1"):
        frames.from_arrow(data, "sheet_1")


def test_digest_of_a_long_frame_has_head_tail_and_nulls_per_column() -> None:
    frame = sample(1250)
    frame.loc[3, "AAPL.close"] = None
    # One null in the middle, where neither head nor tail show it.
    text = frames.digest(frame, "sheet_1")
    assert text.startswith("sheet_1: 1,250 rows × 3 columns")
    for part in ("head(5)", "tail(5)", "2020-01-01", "2023-06-03", "AAPL.close | float64 | 1249 | 1"):
        assert part in text
    assert "00:00:00" not in text
    assert len(text) < 1500


@pytest.mark.parametrize("rows", range(11))
def test_every_row_of_a_short_frame_stands_once(rows: int) -> None:
    text = frames.digest(sample(rows), "s")
    # Neither left out between head and tail nor shown in both.
    assert all(text.count(day.date().isoformat()) == 1 for day in sample(rows)["date"])
    assert ("tail(5)" in text) == (rows > 5)


def test_wide_frames_and_long_cells_are_cut_and_it_is_said() -> None:
    frame = pd.DataFrame({f"column_{i}": ["y" * 500] for i in range(40)})
    text = frames.digest(frame, "s")
    assert "28 more" in text
    assert "16 more columns" in text
    assert len(text) < 4000
