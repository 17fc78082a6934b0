"""Sheets as files: CSV and XLSX."""

from __future__ import annotations

import io

from fathom import frames

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def as_csv(arrow: bytes) -> bytes:
    """UTF-8 with byte-order mark, so that spreadsheet programs read it rightly."""
    return frames.from_arrow(arrow).to_csv(index=False).encode("utf-8-sig")


def as_xlsx(arrow: bytes) -> bytes:
    """An Office Open XML workbook with one sheet."""
    buffer = io.BytesIO()
    frames.from_arrow(arrow).to_excel(buffer, index=False, sheet_name="data")
    return buffer.getvalue()
