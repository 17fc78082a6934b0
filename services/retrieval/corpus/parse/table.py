"""Parsers of Parquet and CSV: one document per row, under the same field names as JSONL."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import count
from typing import Any

from fathom.core.errors import MissingExtra
from fathom.domain.text.encodings import decode_text
from fathom.services.retrieval.corpus.parse.model import Limits, ParsedDocument, ParseIssue, Unreadable
from fathom.services.retrieval.corpus.parse.records import KNOWN, TEXT, read_record

# Rows held as Python objects at once; each may hold a long text.
BATCH = 256
# What separates the cells of a CSV: the one under which its header names a text.
DELIMITERS = (",", ";", "\t")


def import_pyarrow() -> Any:
    """Import and return the pyarrow module; raise ``MissingExtra``."""
    try:
        import pyarrow as module
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("pyarrow", "retrieval") from error
    return module


def read_parquet(data: bytes, source: str, limits: Limits) -> Iterator[ParsedDocument | ParseIssue]:
    """Yield the documents of all rows, reading one row group after the other.

    A row group that cannot be read is reported with its rows. Sizes are checked against the file's own figures before
    anything is decompressed.
    """
    pa = import_pyarrow()
    try:
        file = open_parquet(pa, data)
        check_columns(pa, file, limits)
    except (Unreadable, pa.ArrowException, OSError, ValueError) as error:
        yield ParseIssue(source, "file", f"is no Parquet file that can be read: {error}")
        return
    row = taken = 0
    for group in range(file.metadata.num_row_groups):
        start, row = row, row + file.metadata.row_group(group).num_rows
        try:
            for offset, values in iter_rows(file, group):
                if taken >= limits.documents:
                    reason = f"the limit of {limits.documents:,} documents is reached"
                    yield ParseIssue(source, f"row {start + offset + 1}", reason)
                    return
                taken += 1
                yield from read_record(values, source, f"row {start + offset + 1}", limits)
        except (pa.ArrowException, OSError, ValueError) as error:
            yield ParseIssue(source, f"rows {start + 1} to {row}", f"cannot be read: {error}")


def read_csv(data: bytes, source: str, limits: Limits) -> Iterator[ParsedDocument | ParseIssue]:
    """Yield the document or issue of each row; an issue alone when no column is a text.

    By Arrow: the limit of a cell in the standard library's reader is one of the whole process.
    """
    pa = import_pyarrow()
    decoded = decode_text(data)
    if decoded is None:
        yield ParseIssue(source, "file", "is no text in an encoding that is known")
        return
    if decoded.is_guess:
        yield ParseIssue(source, "file", "names no encoding and was read as Windows-1252", lost=False)
    ragged: list[Any] = []
    try:
        rows = open_csv(pa, decoded.text, ragged)
    except (Unreadable, pa.ArrowException) as error:
        yield ParseIssue(source, "file", f"is no CSV that can be read: {error}")
        return
    for row in ragged:
        reason = f"has {row.actual_columns} cells where the header has {row.expected_columns}"
        yield ParseIssue(source, f"row {row.number}", reason)
    skipped = {row.number for row in ragged}
    # The header is row 1.
    numbers = (number for number in count(2) if number not in skipped)
    values = (row for batch in rows.to_batches(BATCH) for row in batch.to_pylist())
    for taken, (number, row) in enumerate(zip(numbers, values, strict=False)):
        if taken >= limits.documents:
            yield ParseIssue(source, f"row {number}", f"the limit of {limits.documents:,} documents is reached")
            return
        yield from read_record(row, source, f"row {number}", limits)


def open_csv(pa: Any, text: str, ragged: list[Any]) -> Any:
    """Return the rows of a CSV as a table of text, those with too few or too many cells in ``ragged``.

    Raises ``Unreadable`` when no column is a text.
    """
    delimiter, names = find_columns(text)

    def skip(row: Any) -> str:
        ragged.append(row)
        return "skip"

    # A header alone is a table only with the end of its line.
    data = f"{text}\n".encode()
    # A block holds the whole file, so that no row lies in two; one thread, so that rows have their numbers.
    reading = pa.csv.ReadOptions(block_size=len(data) + 1, use_threads=False)
    form = pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip)
    texts = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    rows = pa.csv.read_csv(pa.BufferReader(data), reading, form, texts)
    return rows.rename_columns([name_field(name) for name in rows.column_names])


def name_field(column: str) -> str:
    """Return the field that a column of a CSV is, whose header people write ("Date "); other names as they are."""
    field = column.strip().casefold()
    return field if field in KNOWN else column


def find_columns(text: str) -> tuple[str, list[str]]:
    """Return what separates the cells of a CSV, and the names in its header; raise ``Unreadable`` without a text."""
    headers = (next(csv.reader(io.StringIO(text, newline=""), delimiter=mark), []) for mark in DELIMITERS)
    try:
        found = dict(zip(DELIMITERS, headers, strict=True))
    except csv.Error as error:
        raise Unreadable(f"its header is none: {error}") from error
    for mark, names in found.items():
        if {name_field(name) for name in names} & set(TEXT):
            return mark, names
    most = max(found.values(), key=len)
    raise Unreadable(f"no column of {', '.join(TEXT)}; there are {', '.join(most[:20]) or 'none'}")


def open_parquet(pa: Any, data: bytes) -> Any:
    """Open a Parquet file, keeping dictionary-encoded text columns."""
    plain = pa.parquet.ParquetFile(pa.BufferReader(data))
    # Kept as dictionaries, so that a long text that repeats is held once.
    texts = [field.name for field in plain.schema_arrow if pa.types.is_string(field.type)]
    return pa.parquet.ParquetFile(pa.BufferReader(data), read_dictionary=texts, pre_buffer=False)


def check_columns(pa: Any, file: Any, limits: Limits) -> None:
    """Raise ``Unreadable`` when no column is a text or the file would decompress to too much."""
    names = file.schema_arrow.names
    if not set(names) & set(TEXT):
        raise Unreadable(f"no column of {', '.join(TEXT)}; there are {', '.join(names[:20])}")
    unpacked = sum(file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups))
    if unpacked > limits.unpacked_bytes:
        raise Unreadable(f"unpacks to {unpacked:,} bytes, over the limit of {limits.unpacked_bytes:,}")


def iter_rows(file: Any, group: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the offset within the group and the values of each row."""
    offset, names = 0, file.schema_arrow.names
    # A file that repeats a name would hide columns; columns without a place are kept out when there are many.
    wanted = names if len(names) <= 64 else [name for name in names if name in KNOWN]
    for batch in file.iter_batches(BATCH, row_groups=[group], columns=wanted):
        for index in range(batch.num_rows):
            yield offset + index, {name: batch.column(name)[index].as_py() for name in batch.schema.names}
        offset += batch.num_rows
