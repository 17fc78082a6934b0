"""Sheets as files: parquet to keep, CSV and XLSX to take away."""

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


def as_parquet(arrow: bytes) -> bytes:
    """The form that a sheet is kept in: from a thousand rows on it has a half to a sixth of the bytes."""
    return frames.write_parquet(frames.read_table(arrow))


def as_arrow(parquet: bytes, sheet_id: str) -> bytes:
    """The Arrow stream of a sheet that is kept as parquet; raises ``CorruptData``."""
    return frames.write_table(frames.read_parquet(parquet, sheet_id))
