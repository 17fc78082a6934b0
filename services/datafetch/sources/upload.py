"""Reader of users' CSV, XLSX and Parquet files as typed tables; broken rows are reported by number, the rest is loaded.

Nothing is fetched and nothing in a file is executed: formulas give their stored values.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain, islice
from pathlib import PurePath
from typing import Any

from fathom.core.errors import CorruptData, InvalidField, PayloadTooLarge
from fathom.domain.frames import MONTHS, arrow, widen_floats
from fathom.domain.text.addresses import find_runs, name_range
from fathom.domain.text.encodings import decode_text
from fathom.services.datafetch.sources.base import EmptySchema, Fetched, RowIssue, make_provenance
from fathom.services.datafetch.sources.columns import MOST_ISSUES, Column, infer_types, make_header
from fathom.services.datafetch.sources.files.header import PEEKED, find_header
from fathom.services.datafetch.sources.files.workbook import open_book, read_sheet_rows, trim_cells

SUFFIXES = (".csv", ".tsv", ".txt", ".xlsx", ".xlsm", ".parquet")
DELIMITERS = ",\t;|"
# An unclosed quote must not swallow the rest of the file; real fields seldom hold more lines.
JOINED_LINES = 20
LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class UploadLimits:
    """Limits of one file, in bytes, rows, columns and characters."""

    # The whole file is in memory, and its cells a second time.
    file_bytes: int = 64 << 20
    # Workbooks and Parquet files are compressed: a small one may unpack to anything.
    unpacked_bytes: int = 512 << 20
    rows: int = 2_000_000
    columns: int = 1_000
    cell_chars: int = 100_000


Row = tuple[int, Sequence[Any]]


def read_upload(data: bytes, name: str, sheet: str = "", limits: UploadLimits | None = None) -> Fetched:
    """Read the table in a file; ``name`` determines the format, ``sheet`` selects a worksheet (the first by default).

    ``issues`` have the line of a CSV or the row of a sheet, from 1 with the header counted. Raises ``InvalidField`` for
    ``name``, ``columns`` and ``sheet``, ``PayloadTooLarge``, ``EmptySchema``, ``CorruptData`` and ``MissingExtra``.
    """
    bounds = limits or UploadLimits()
    suffix = PurePath(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidField("name", f"{name!r} ends in none of {', '.join(SUFFIXES)}")
    if len(data) > bounds.file_bytes:
        raise PayloadTooLarge(len(data), bounds.file_bytes)
    if suffix == ".parquet":
        return read_parquet(data, name, bounds)
    issues: list[RowIssue] = []
    if suffix in {".xlsx", ".xlsm"}:
        book = open_book(data, name, bounds.unpacked_bytes)
        rows = read_sheet_rows(book, data, name, sheet, bounds.unpacked_bytes, issues)
        pages = tuple(page.title for page in book.worksheets)
        return replace(build_table(rows, name, bounds, issues, is_padded=True), worksheets=pages)
    return build_table(read_csv_rows(read_text(data, name, issues), bounds, issues), name, bounds, issues)


def build_table(
    rows: Iterator[Row], name: str, limits: UploadLimits, issues: list[RowIssue], *, is_padded: bool = False
) -> Fetched:
    """Build the table below its header; rows of another width are reported, or filled up where ``is_padded``."""
    peeked = list(islice(rows, PEEKED))
    if not peeked:
        raise EmptySchema(name, ("a header row",))
    header = find_header(peeked)
    for issue in header.issues:
        append_issue(issues, issue)
    named = trim_cells(header.cells)
    if is_padded:
        # A last cell that was merged over several columns names the first of them; the others have data all the same.
        width = max((len(trim_cells(row)) for _, row in peeked[header.rows :]), default=0)
        named += [None] * (width - len(named))
    names = make_header(named)
    if len(names) > limits.columns:
        raise InvalidField("columns", f"{name} has {len(names):,}, over the limit of {limits.columns:,}")
    columns, numbers = [Column(column) for column in names], list[int]()
    for number, cells in chain(peeked[header.rows :], rows):
        # Spreadsheets leave empty cells behind the last column; only filled ones make a row too wide.
        cells = cells if len(cells) <= len(names) else [*cells[: len(names)], *trim_cells(cells[len(names) :])]
        if is_padded:
            cells = [*cells, *[None] * (len(names) - len(cells))]
        if len(cells) != len(names):
            append_issue(issues, RowIssue(number, f"has {len(cells)} fields, not {len(names)}"))
            continue
        if len(numbers) >= limits.rows:
            append_issue(
                issues, RowIssue(number, f"the limit of {limits.rows:,} rows is reached, the rest is left out")
            )
            break
        numbers.append(number)
        for column, cell in zip(columns, cells, strict=True):
            column.cells.append(cell)
    found = infer_types(columns, numbers)
    for result in found.values():
        for issue in result.issues:
            append_issue(issues, issue)
    pa = arrow()
    # Behind days nobody sees any more that values are of whole periods.
    fields = [
        pa.field(key, result.array.type, metadata={MONTHS: str(result.months)} if result.months else None)
        for key, result in found.items()
    ]
    table = pa.table([result.array for result in found.values()], schema=pa.schema(fields))
    units = {key: result.unit for key, result in found.items() if result.unit}
    ordered = tuple(sorted(issues, key=lambda issue: (issue.row, issue.column))[:MOST_ISSUES])
    runs = find_runs(numbers)
    ranges = {key: name_range(place, runs) for place, key in enumerate(names)} if numbers else {}
    return Fetched(table, units, make_provenance("upload", name, None), ordered, {"name": name}, ranges)


def append_issue(issues: list[RowIssue], issue: RowIssue) -> None:
    """Append an issue, up to a thousand."""
    if len(issues) < MOST_ISSUES:
        issues.append(issue)


def read_text(data: bytes, name: str, issues: list[RowIssue]) -> str:
    """Decode a file and report an encoding that is only likely; raise ``CorruptData`` for what is no text."""
    decoded = decode_text(data)
    if decoded is None:
        raise CorruptData(name, "is no text in UTF-8, UTF-16, GB 18030 or Windows-1252")
    if decoded.is_guess:
        append_issue(issues, RowIssue(0, "the file names no encoding and was read as Windows-1252"))
    return decoded.text


def read_csv_rows(text: str, limits: UploadLimits, issues: list[RowIssue]) -> Iterator[Row]:
    """Yield records with the line on which they begin; an unclosed quote loses its line, not the rest."""
    lines = LINE_END.split(text)  # not splitlines(): U+2028 and its like may stand in a field
    delimiter = detect_delimiter([line for line in islice(filter(str.strip, lines), PEEKED)])
    index, width = 0, 0
    while index < len(lines):
        start, taken = index, 1
        if not lines[index].strip():
            index += 1
            continue
        cells: list[str] | None = parse_record(lines[index], delimiter)
        # An odd number of quotes: the field goes on in the next line.
        if lines[index].count('"') % 2:
            cells, taken = join_lines(lines, index, delimiter, width)
        index += taken
        if cells is None:
            append_issue(issues, RowIssue(start + 1, "has a quotation mark that is not closed"))
        elif max((len(cell) for cell in cells), default=0) > limits.cell_chars:
            append_issue(issues, RowIssue(start + 1, f"has a field of more than {limits.cell_chars:,} characters"))
        else:
            # A title above the table has a single field.
            width = width if width > 1 else len(cells)
            yield start + 1, cells


def join_lines(lines: Sequence[str], start: int, delimiter: str, width: int) -> tuple[list[str] | None, int]:
    """Return a record over several lines and their number; None when it does not end soon or has another width."""
    text = lines[start]
    for taken in range(2, JOINED_LINES + 2):
        if start + taken > len(lines):
            break
        text += "\n" + lines[start + taken - 1]
        if text.count('"') % 2 == 0:
            cells = parse_record(text, delimiter)
            # Joined lines must have the table's width; otherwise the quote was a mistake within one line.
            if cells is not None and (not width or len(cells) == width):
                return cells, taken
            break
    return None, 1


def parse_record(text: str, delimiter: str) -> list[str]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        return next(reader, [])
    except csv.Error:
        return []


def detect_delimiter(lines: Sequence[str]) -> str:
    """Return the separator that stands equally often in most of the first lines, a comma when there is none."""

    def rate(delimiter: str) -> tuple[int, int, int]:
        counts = Counter(line.count(delimiter) for line in lines)
        # A decimal comma stands in each line, too, but seldom as often in the header.
        usual = max((count for count in counts if count), key=lambda count: (counts[count], count), default=0)
        return counts[usual] if usual else 0, usual, -DELIMITERS.index(delimiter)

    return max(DELIMITERS, key=rate)


def read_parquet(data: bytes, name: str, limits: UploadLimits) -> Fetched:
    """Read row groups one by one, with the file's types; an unreadable one is reported with its first row.

    Single precision is widened, since results are computed and written in double. Raises ``CorruptData`` and
    ``EmptySchema``.
    """
    pa = arrow()
    import pyarrow.parquet as parquet

    try:
        file = parquet.ParquetFile(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise CorruptData(name, f"is no Parquet file that can be read: {error}") from error
    meta = file.metadata
    # As the file's own metadata state them, before a row group is read.
    unpacked = sum(meta.row_group(group).total_byte_size for group in range(meta.num_row_groups))
    if unpacked > limits.unpacked_bytes or meta.num_rows > limits.rows or meta.num_columns > limits.columns:
        size = f"{unpacked:,} bytes, {meta.num_rows:,} rows, {meta.num_columns:,} columns"
        raise CorruptData(name, f"is over the limits: {size}")
    if not file.schema_arrow.names:
        raise EmptySchema(name, ("a column",))
    parts, issues, row = [], list[RowIssue](), 1
    for group in range(meta.num_row_groups):
        try:
            # One by one, so that a broken group costs its own rows only.
            parts.append(file.read_row_group(group))
        except (pa.ArrowException, OSError) as error:
            rows = meta.row_group(group).num_rows
            append_issue(issues, RowIssue(row, f"rows {row} to {row + rows - 1} cannot be read: {str(error)[:120]}"))
        row += meta.row_group(group).num_rows
    table = pa.concat_tables(parts) if parts else file.schema_arrow.empty_table()
    for place, field in enumerate(table.schema):
        if pa.types.is_float32(field.type):
            table = table.set_column(place, field.name, widen_floats(table.column(place)))
    return Fetched(
        table.replace_schema_metadata(None), {}, make_provenance("upload", name, None), tuple(issues), {"name": name}
    )


def filter_published(fetched: Fetched, column: str, as_of: date) -> Fetched:
    """Return the rows whose ``column`` of days is not after ``as_of``.

    Raises ``InvalidField`` for another type of column.
    """
    pa = arrow()
    import pyarrow.compute as compute

    if column not in fetched.table.column_names or not pa.types.is_date(fetched.table.schema.field(column).type):
        raise InvalidField("published_column", f"{column!r} is no column of days")
    known = compute.less_equal(fetched.table.column(column), pa.scalar(as_of, pa.date32()))
    where = make_provenance(fetched.provenance.vendor, fetched.provenance.place, as_of)
    return Fetched(fetched.table.filter(known), fetched.units, where, fetched.issues, fetched.facts)
