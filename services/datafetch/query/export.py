"""Sheets as files: parquet for storage, CSV and XLSX for users."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from fathom.core.extras import name_missing_extra
from fathom.domain import frames
from fathom.services.datafetch.query.model import Column

# Numbers as they are, the negative ones in parentheses.
ACCOUNTING = "General;(General)"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def as_csv(arrow: bytes, *, has_parentheses: bool = False) -> bytes:
    """Return CSV as UTF-8 with a byte-order mark, which spreadsheet programs need to detect the encoding.

    With ``has_parentheses``, -1.5 is written as (1.5), which spreadsheet programs read as the same number.
    """
    frame = frames.from_arrow(arrow)
    if has_parentheses:
        for at in range(frame.shape[1]):
            column = frame.iloc[:, at]
            if column.dtype.kind in "if" and (column < 0).any():
                shown = column.astype(object).map(enclose_negative, na_action="ignore")
                frame.isetitem(at, shown.to_numpy())
    return frame.to_csv(index=False).encode("utf-8-sig")


def enclose_negative(value: Any) -> Any:
    """Return a number below zero as text in parentheses, everything else as it is."""
    return f"({-value})" if value < 0 else value


def as_xlsx(arrow: bytes, columns: Sequence[Column], *, has_parentheses: bool = False) -> bytes:
    """Return an Office Open XML workbook: the data under a frozen head, and unit and source of each column.

    With ``has_parentheses``, numbers have a format that shows negative ones so, and stay numbers.
    """
    with name_missing_extra():
        import pandas as pd
    about = [(one.name, one.unit, one.source, one.as_of, one.formula) for one in columns]
    buffer = io.BytesIO()
    with pd.ExcelWriter(buffer, engine="openpyxl") as book:
        frames.from_arrow(arrow).to_excel(book, index=False, sheet_name="data", freeze_panes=(1, 0))
        heads = ["column", "unit", "source", "data as of", "formula"]
        pd.DataFrame(about, columns=heads).to_excel(book, index=False, sheet_name="source", freeze_panes=(1, 0))
        for cell in (cell for sheet in book.sheets.values() for row in sheet.iter_rows() for cell in row):
            # A text that begins like a formula came from somebody's table, and must not be computed on opening.
            if cell.data_type == "f":
                cell.data_type = "s"
            elif has_parentheses and cell.data_type == "n" and not cell.is_date:
                cell.number_format = ACCOUNTING
    return buffer.getvalue()


def as_parquet(arrow: bytes) -> bytes:
    """Return the stored form of a sheet; from a thousand rows on, parquet needs a half to a sixth of the bytes."""
    return frames.write_parquet(frames.read_table(arrow))


def as_arrow(parquet: bytes, sheet_id: str) -> bytes:
    """Return the Arrow stream of a sheet stored as parquet; raises ``CorruptData``."""
    return frames.write_table(frames.read_parquet(parquet, sheet_id))
