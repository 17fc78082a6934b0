"""Rows of a worksheet, with what its cells do not show: formulas without values, and further sheets."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

from fathom.core.errors import CorruptData, InvalidField, MissingExtra
from fathom.services.datafetch.sources.base import RowIssue
from fathom.services.datafetch.sources.columns import ERRORS

READ_BYTES = 1 << 20
# Beginning of a formula in the XML of a sheet.
FORMULA = (b"<f>", b"<f ")
Row = tuple[int, Sequence[Any]]


def open_book(data: bytes, name: str, unpacked_bytes: int, *, formulas: bool = False) -> Any:
    """Open a workbook to be read row by row, its values or else its formulas.

    Raises ``CorruptData`` and ``MissingExtra``.
    """
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtra("openpyxl", "data") from error
    try:
        # Sizes as the archive states them, before anything is unpacked.
        unpacked = sum(part.file_size for part in zipfile.ZipFile(io.BytesIO(data)).infolist())
        if unpacked > unpacked_bytes:
            raise CorruptData(name, f"unpacks to {unpacked:,} bytes, over the limit of {unpacked_bytes:,}")
        # data_only reads stored values instead of formulas; keep_links=False does not open other workbooks.
        return openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=not formulas, keep_links=False)
    except (zipfile.BadZipFile, OSError, ValueError, KeyError, SyntaxError) as error:
        raise CorruptData(name, f"is no workbook that can be read: {type(error).__name__}") from error


def read_sheet_rows(
    book: Any, data: bytes, name: str, sheet: str, unpacked_bytes: int, issues: list[RowIssue]
) -> Iterator[Row]:
    """Yield the rows of a sheet of an open book that are not empty, without empty cells at their ends.

    ``issues`` gets errors of cells and formulas whose values the file, ``data``, does not have. Raises ``CorruptData``,
    ``InvalidField("sheet")`` and ``MissingExtra``.
    """
    if sheet and sheet not in book.sheetnames:
        raise InvalidField("sheet", f"{sheet!r} is none of {', '.join(book.sheetnames)}")
    page = book[sheet] if sheet else book.worksheets[0]
    formulas: Iterator[Sequence[Any]] = iter(())
    if has_formulas(data):
        page_of_formulas = open_book(data, name, unpacked_bytes, formulas=True)[page.title]
        page_of_formulas.reset_dimensions()
        formulas = page_of_formulas.iter_rows(values_only=True)
    page.reset_dimensions()  # what the file says of its own size may be wrong
    for number, cells in enumerate(page.iter_rows(values_only=True), start=1):
        written = next(formulas, ())
        kept = trim_cells(cells)
        issues += [
            RowIssue(number, f"holds the error {cell} in column {place}")
            for place, cell in enumerate(kept, start=1)
            if isinstance(cell, str) and cell in ERRORS
        ]
        issues += [
            RowIssue(number, f"the formula {text[:80]} in column {place} has no stored value: save the file once more")
            for place, text in enumerate(written, start=1)
            if isinstance(text, str) and text.startswith("=") and (place > len(cells) or cells[place - 1] is None)
        ]
        if kept or any(written):
            yield number, kept


def has_formulas(data: bytes) -> bool:
    """Return whether some sheet has formulas, so that most files are read once."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for part in archive.namelist():
            if not part.startswith("xl/worksheets/") or not part.endswith(".xml"):
                continue
            with archive.open(part) as file:
                last = b""
                while block := file.read(READ_BYTES):
                    # The mark may lie across two blocks.
                    if any(mark in last + block for mark in FORMULA):
                        return True
                    last = block[-2:]
    return False


def trim_cells(cells: Sequence[Any]) -> list[Any]:
    """Return the cells without empty ones at the end, which spreadsheets leave behind."""
    kept = list(cells)
    while kept and (kept[-1] is None or not str(kept[-1]).strip()):
        kept.pop()
    return kept
