"""A digest in bytes of the table that it stands for."""

from __future__ import annotations

import pandas as pd
import pytest

from fathom.domain import frames
from fathom.services.planner.tools.compression import measure_compression


@pytest.mark.parametrize(("rows", "least", "most"), [(0, 1.0, 1.0), (3, 0.2, 1.0), (1_250, 50.0, 90.0)])
def test_the_ratio_is_that_of_the_whole_table_written_in_the_same_way(rows: int, least: float, most: float) -> None:
    frame = pd.DataFrame(
        {"date": [f"2015-01-{n % 28 + 1:02d}" for n in range(rows)], "price": [n * 1.5 for n in range(rows)]}
    )
    digest = frames.digest(frame, "sheet_1")
    ratio = measure_compression(rows, digest)
    assert least <= ratio <= most
    if rows:
        whole = len(frames.plain(frame).encode())
        assert ratio == pytest.approx(whole / len(digest.encode()), rel=0.25)
