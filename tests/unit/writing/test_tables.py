"""Test how the values of a short table are written."""

from __future__ import annotations

import pytest

from fathom.domain.writing.tables import write_ends


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        ("0.0709655", "fraction", "7.10% (2021-12-31)"),
        ("4.4", "%", "4.4% (2021-12-31)"),
        ("1250.0", "USD", "1,250 USD (2021-12-31)"),
        ("98.5", "index 2017=100", "98.5 (2021-12-31)"),
    ],
)
def test_a_value_has_its_unit_and_its_date(value: str, unit: str, written: str) -> None:
    sheet = {"columns": [{"name": "date", "type": "date32"}, {"name": "US.cpiaucsl", "type": "double", "unit": unit}]}
    body = f"sheet_1: 1 rows × 2 columns\nhead(5)\n         date US.cpiaucsl\n0  2021-12-31 {value}\ncolumn | dtype"
    assert write_ends({"variable": "sheet_1", **sheet}, body) == [written]


def test_a_long_table_is_said_by_its_ends_and_several_columns_by_their_names() -> None:
    columns = [{"name": "date", "type": "date32"}, {"name": "A.x", "unit": "USD"}, {"name": "B.x", "unit": "USD"}]
    rows = "0 2020-01-31 1 NaN\n1 2020-02-29 2 20\n4 2020-05-31 5 1.5e+06"
    body = f"sheet_1: 5 rows × 3 columns\nhead(2)\n        date A.x B.x\n{rows}\ncolumn | dtype\n0 1 2 3"
    said = ["A.x: 1 USD (2020-01-31)", "A.x: 5 USD (2020-05-31)", "B.x: 1.5e+06 USD (2020-05-31)"]
    assert write_ends({"variable": "sheet_1", "columns": columns}, body) == said
