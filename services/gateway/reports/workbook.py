"""The tables of a run as one Excel workbook: values as numbers and days, with unit, source and date of each column."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.services.gateway.reports.report import CITED, PLACED, Report
from fathom.services.gateway.reports.word import clean
from fathom.services.gateway.reports.words import say

if TYPE_CHECKING:
    from openpyxl.worksheet._write_only import WriteOnlyWorksheet

# What Excel forbids in the name of a worksheet, and how long one may be.
UNFIT_IN_SHEETS = re.compile(r"[\[\]:*?/\\'\x00-\x1f]+")
MAX_NAME_CHARS = 31
# A cell of Excel holds no more; the library would cut without a word.
MAX_CELL_CHARS = 32_767
# The library takes some 2 µs and 50 bytes a cell, and other requests of this process wait meanwhile.
MAX_CELLS = 400_000
# Numbers as they are, the negative ones in parentheses.
ACCOUNTING = "General;(General)"
# Excel counts days from 1900 on.
FIRST_YEAR = 1900


class WorkbookWriter:
    """Writes a report's text, then its tables one by one, so that no more than one of them is in memory."""

    def __init__(self, report: Report, *, has_parentheses: bool = False) -> None:
        from openpyxl import Workbook

        self._report, self._has_parentheses = report, has_parentheses
        self._book = Workbook(write_only=True)
        self._book.properties.title, self._book.properties.creator = clean(report.question)[:255], "Fathom"
        self._names: set[str] = set()
        self._about: list[Sequence[Any]] = []
        self._left = MAX_CELLS
        self._write_text()

    def add_table(self, sheet: Sheet, variable: str, rows: Iterable[Sequence[Any]]) -> None:
        """Append a worksheet with the rows of a table, as many as fit."""
        from openpyxl.styles import Alignment, Font
        from openpyxl.utils import get_column_letter

        language, columns = self._report.language, sheet.columns
        page = self._begin_sheet(sheet.title or variable)
        page.freeze_panes = "B2"
        for at, column in enumerate(columns, 1):
            page.column_dimensions[get_column_letter(at)].width = min(max(len(column.name) + 8, 12), 40)
        heads = [f"{column.name} ({column.unit})" if column.unit else column.name for column in columns]
        page.append(
            [self._cell(page, head, font=Font(bold=True), alignment=Alignment(wrap_text=True)) for head in heads]
        )
        written = 0
        for row in rows:
            self._left -= len(row)
            if self._left < 0:
                break
            page.append([self._value(page, value) for value in row])
            written += 1
        shown = say(language, "rows", f"{written:,}", f"{sheet.rows:,}")
        for column in columns:
            origin = (column.unit, column.source, column.vendor, column.as_of, column.basis, column.formula)
            self._about.append((page.title, column.name, *origin, shown))

    def save(self) -> bytes:
        """Return the file, with a last worksheet that says of each column where it is from."""
        from openpyxl.styles import Font

        page = self._begin_sheet(say(self._report.language, "columns"))
        page.freeze_panes = "A2"
        for letter, width in zip("ABCDEFGHI", (28, 28, 10, 28, 20, 14, 36, 36, 20), strict=True):
            page.column_dimensions[letter].width = width
        heads = say(self._report.language, "column_heads").split("|")
        page.append([self._cell(page, head, font=Font(bold=True)) for head in heads])
        for line in self._about:
            page.append([self._value(page, text) for text in line])
        file = io.BytesIO()
        self._book.save(file)
        return file.getvalue()

    def _write_text(self) -> None:
        """Write the answer, its references and what is missing on the first worksheet."""
        from openpyxl.styles import Alignment, Font

        report = self._report
        page = self._begin_sheet(say(report.language, "answer"))
        page.column_dimensions["A"].width, page.column_dimensions["B"].width = 8, 110
        lines = [("", report.question), ("", report.facts), ("", "")]
        body = CITED.sub(lambda match: f"[{match[1].replace(',', '][')}]", report.body)
        body = PLACED.sub(lambda match: f"({report.places[int(match[1])].name})", body)
        lines += [("", line) for line in body.splitlines()]
        for title, texts in (("missing", report.missing), ("notes", report.notes)):
            lines += [("", ""), ("", say(report.language, title)), *(("–", text) for text in texts)] if texts else []
        lines += [("", ""), ("", say(report.language, "references"))] if report.sources else []
        for source in report.sources:
            told = " – ".join(part for part in (source.title, source.origin, source.url, source.excerpt) if part)
            lines.append((f"[{source.number}]", told))
        lines += [("", ""), ("", say(report.language, "compliance"))]
        for number, (mark, text) in enumerate(lines):
            style = {"alignment": Alignment(wrap_text=True, vertical="top")}
            page.append([self._cell(page, mark, **style), self._cell(page, text, font=Font(bold=number == 0), **style)])

    def _begin_sheet(self, title: str) -> WriteOnlyWorksheet:
        plain = " ".join(UNFIT_IN_SHEETS.sub(" ", clean(title)).split())[:MAX_NAME_CHARS] or "sheet"
        # Excel takes names that differ in case alone for the same.
        name, count = plain, 1
        while name.casefold() in self._names:
            count += 1
            name = f"{plain[: MAX_NAME_CHARS - len(str(count)) - 3]} ({count})"
        self._names.add(name.casefold())
        return self._book.create_sheet(name)

    def _value(self, page: WriteOnlyWorksheet, value: Any) -> Any:
        """Return a value as Excel has it: numbers and days as such, everything else as text that computes nothing."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            # Excel's numbers have 15 digits, and a longer one, an id for instance, would be changed.
            return self._number(page, value) if abs(value) < 10**15 else self._cell(page, str(value))
        if isinstance(value, float):
            if value - value == 0:
                return self._number(page, value)
            return None if value != value else self._cell(page, str(value))
        if isinstance(value, date) and value.year >= FIRST_YEAR:
            return self._day(page, value)
        return self._cell(page, str(value))

    def _number(self, page: WriteOnlyWorksheet, value: float) -> Any:
        """Return a number, with a format that shows it in parentheses where that is wanted."""
        from openpyxl.cell import WriteOnlyCell

        if not self._has_parentheses or value >= 0:
            return value
        cell = WriteOnlyCell(page, value=value)
        cell.number_format = ACCOUNTING
        return cell

    def _day(self, page: WriteOnlyWorksheet, value: date) -> Any:
        from openpyxl.cell import WriteOnlyCell

        moment = value.replace(tzinfo=None) if isinstance(value, datetime) else value
        is_day = not isinstance(moment, datetime) or moment.time() == datetime.min.time()
        cell = WriteOnlyCell(page, value=moment)
        cell.number_format = "yyyy-mm-dd" if is_day else "yyyy-mm-dd hh:mm:ss"
        return cell

    def _cell(self, page: WriteOnlyWorksheet, text: str, **style: Any) -> Any:
        from openpyxl.cell import WriteOnlyCell

        cell = WriteOnlyCell(page, value=clean(text)[:MAX_CELL_CHARS])
        # A text that begins like a formula came from a model or somebody's table, and is not computed on opening.
        if cell.data_type in "fe":
            cell.data_type = "s"
        for name, value in style.items():
            setattr(cell, name, value)
        return cell


def iterate_rows(table: Any) -> Iterable[Sequence[Any]]:
    """Yield the rows of an Arrow table as Python's values, a batch at a time."""
    for batch in table.to_batches(max_chunksize=4_096):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
