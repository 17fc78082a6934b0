"""Sheets as workbooks: what somebody else needs to know of the numbers, and nothing that runs on opening."""

from __future__ import annotations

import io

import pandas as pd
from openpyxl import load_workbook

from fathom.domain import frames
from fathom.services.datafetch.query.export import as_xlsx
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
