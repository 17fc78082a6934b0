"""Parsers of Parquet and CSV: one document per row, under the same field names as JSONL."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from fathom.core.errors import MissingExtra
from fathom.domain.text.encodings import decode_text
from fathom.services.retrieval.corpus.parse.model import Limits, ParsedDocument, ParseIssue, Unreadable
from fathom.services.retrieval.corpus.parse.records import KNOWN, TEXT, read_record

# Rows held as Python objects at once; each may hold a long text.
BATCH = 256


def import_pyarrow() -> Any:
    """Import and return the pyarrow module; raise ``MissingExtra``."""
    try:
        import pyarrow as module
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
    """Yield the document or issue of each row; an issue alone when no column is a text."""
    decoded = decode_text(data)
    if decoded is None:
        yield ParseIssue(source, "file", "is no text in an encoding that is known")
        return
    # A cell may be as long as a document; the default of the package is a fortieth of that.
    csv.field_size_limit(8 * limits.text_chars)
    rows = csv.DictReader(io.StringIO(decoded.text, newline=""))
    try:
        if not set(rows.fieldnames or ()) & set(TEXT):
            columns = ", ".join((rows.fieldnames or [])[:20])
            yield ParseIssue(source, "file", f"no column of {', '.join(TEXT)}; there are {columns or 'none'}")
            return
        for number, row in enumerate(rows, start=2):
            if number - 1 > limits.documents:
                yield ParseIssue(source, f"row {number}", f"the limit of {limits.documents:,} documents is reached")
                return
            # Cells beyond the header come under no name.
            yield from read_record({name: cell for name, cell in row.items() if name}, source, f"row {number}", limits)
    except csv.Error as error:
        yield ParseIssue(source, f"line {rows.line_num}", f"is no CSV that can be read: {error}")


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
