"""Frames over Arrow, and the digest that a model sees (rows R15, R16)."""

from __future__ import annotations

import pandas as pd
import pytest

from fathom import frames
from fathom.errors import CorruptData


def sample(rows: int) -> pd.DataFrame:
    dates = pd.date_range("2020-01-01", periods=rows)
    return pd.DataFrame({"date": dates, "AAPL.close": [float(i) for i in range(rows)], "note": ["x"] * rows})


def test_round_trip_keeps_values_types_and_nulls() -> None:
    frame = pd.DataFrame({"d": pd.to_datetime(["2020-01-01", None]), "v": [1.5, None], "s": ["a", None], "i": [1, 2]})
    again = frames.from_arrow(frames.to_arrow(frame))
    assert again["v"].isna().tolist() == again["s"].isna().tolist() == again["d"].isna().tolist() == [False, True]
    assert again["i"].tolist() == [1, 2]
    assert again["d"].iloc[0] == pd.Timestamp("2020-01-01")


@pytest.mark.parametrize("data", [b"", b"garbage", frames.to_arrow(sample(50))[:-200]])
def test_bytes_that_are_no_table_are_named(data: bytes) -> None:
    with pytest.raises(CorruptData, match="sheet_1"):
        frames.from_arrow(data, "sheet_1")


def test_digest_of_a_long_frame_has_head_tail_and_nulls_per_column() -> None:
    frame = sample(1250)
    frame.loc[3, "AAPL.close"] = None
    text = frames.digest(frame, "sheet_1")
    assert text.startswith("sheet_1: 1,250 rows × 3 columns")
    for part in ("head(5)", "tail(5)", "2020-01-01", "2023-06-03", "AAPL.close | float64 | 1249 | 1"):
        assert part in text
    assert "00:00:00" not in text
    assert len(text) < 1500


@pytest.mark.parametrize("rows", range(11))
def test_every_row_of_a_short_frame_stands_once(rows: int) -> None:
    text = frames.digest(sample(rows), "s")
    assert all(text.count(day.date().isoformat()) == 1 for day in sample(rows)["date"])
    assert ("tail(5)" in text) == (rows > 5)


def test_wide_frames_and_long_cells_are_cut_and_it_is_said() -> None:
    frame = pd.DataFrame({f"column_{i}": ["y" * 500] for i in range(40)})
    text = frames.digest(frame, "s")
    assert "28 more" in text
    assert "16 more columns" in text
    assert len(text) < 4000
