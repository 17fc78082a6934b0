"""Sheets as workbooks: what somebody else needs to know of the numbers, and nothing that runs on opening."""

from __future__ import annotations

import io

import pandas as pd
from openpyxl import load_workbook

from fathom.domain import frames
from fathom.services.datafetch.query.export import as_csv, as_xlsx
from fathom.services.datafetch.query.model import Column


def to_arrow(frame: pd.DataFrame) -> bytes:
    return frames.write_table(frames.arrow().Table.from_pandas(frame, preserve_index=False))


def test_a_workbook_has_units_and_sources_beside_the_data() -> None:
    frame = pd.DataFrame({"date": pd.to_datetime(["2020-01-02"]), "AAPL.close": [75.09]})
    close = Column("AAPL.close", "double", unit="USD", source="an exchange", as_of="2020-12-31")
    book = load_workbook(io.BytesIO(as_xlsx(to_arrow(frame), [Column("date", "timestamp"), close])))
    assert book.sheetnames == ["data", "source"]
    assert book["data"].freeze_panes == "A2"
    assert [cell.value for cell in book["source"][3]][:4] == ["AAPL.close", "USD", "an exchange", "2020-12-31"]


def test_a_text_like_a_formula_stays_a_text() -> None:
    frame = pd.DataFrame({"=1+1": ['=HYPERLINK("x")', "plain"]})
    book = load_workbook(io.BytesIO(as_xlsx(to_arrow(frame), [])))
    assert {cell.data_type for row in book["data"].iter_rows() for cell in row} == {"s"}
    assert book["data"]["A2"].value == '=HYPERLINK("x")'


def test_negative_numbers_stand_in_parentheses_and_stay_numbers_in_a_workbook() -> None:
    frame = pd.DataFrame(
        {
            "date": pd.to_datetime(["2020-01-02", "2020-01-03", "2020-01-06"]),
            "change": [-1.5, 2.25, None],
            "count": [-3, 4, 5],
            "name": ["-x", "y", "z"],
        }
    )
    arrow = to_arrow(frame)
    rows = as_csv(arrow, has_parentheses=True).decode("utf-8-sig").splitlines()[1:]
    assert rows == ["2020-01-02,(1.5),(3),-x", "2020-01-03,2.25,4,y", "2020-01-06,,5,z"]
    assert "-1.5,-3" in as_csv(arrow).decode()
    data = load_workbook(io.BytesIO(as_xlsx(arrow, [], has_parentheses=True)))["data"]
    assert (data["B2"].value, data["B2"].number_format) == (-1.5, "General;(General)")
    assert data["C2"].value == -3
    assert data["A2"].is_date
