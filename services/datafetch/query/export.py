"""Sheets as files: parquet for storage, CSV and XLSX for users."""

from __future__ import annotations

import io

from fathom.domain import frames

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def as_csv(arrow: bytes) -> bytes:
    """Return CSV as UTF-8 with a byte-order mark, which spreadsheet programs need to detect the encoding."""
    return frames.from_arrow(arrow).to_csv(index=False).encode("utf-8-sig")


def as_xlsx(arrow: bytes) -> bytes:
    """Return an Office Open XML workbook with one sheet."""
    buffer = io.BytesIO()
    frames.from_arrow(arrow).to_excel(buffer, index=False, sheet_name="data")
    return buffer.getvalue()


def as_parquet(arrow: bytes) -> bytes:
    """Return the stored form of a sheet; from a thousand rows on, parquet needs a half to a sixth of the bytes."""
    return frames.write_parquet(frames.read_table(arrow))


def as_arrow(parquet: bytes, sheet_id: str) -> bytes:
    """Return the Arrow stream of a sheet stored as parquet; raises ``CorruptData``."""
    return frames.write_table(frames.read_parquet(parquet, sheet_id))
