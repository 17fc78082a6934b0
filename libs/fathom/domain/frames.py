"""Tables: DataFrame to and from Arrow IPC and parquet, and the digest shown to a model instead of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fathom.core.errors import CorruptData, InvalidField, MissingExtra

if TYPE_CHECKING:
    import pandas as pd

ARROW_STREAM = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
ARROW_TYPES = frozenset({"", ARROW_STREAM, "application/octet-stream"})
MAX_TABLE_BYTES = 1024 * 1024 * 1024
ZSTD_LEVEL = 1
# Name in a field's metadata of the months of the periods that its days are the last ones of.
MONTHS = "months"
MAX_COLUMNS = 12
MAX_CELL = 24
MAX_NAME = 64


class TableTooLarge(CorruptData):
    """A table holds more bytes than it may."""


def arrow() -> Any:
    """Import and return the pyarrow module; raise ``MissingExtra``."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise MissingExtra("pyarrow", "data") from error
    return pyarrow


def widen_floats(values: Any) -> Any:
    """Convert an Arrow array of float32 to float64 by the shortest decimal of each value: 3.4 stays 3.4.

    A plain cast keeps the binary value instead, which is 3.4000000953674316 when it is written out.
    """
    pa = arrow()
    return values.cast(pa.string()).cast(pa.float64())


def write_table(table: Any) -> bytes:
    """Serialise an Arrow table as an IPC stream."""
    pa = arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def read_table(data: bytes, key: str = "table", max_bytes: int = MAX_TABLE_BYTES) -> Any:
    """Read and fully validate the Arrow table of an IPC stream; raise ``CorruptData`` naming ``key``.

    Raise its kind ``TableTooLarge`` for a table of more than ``max_bytes`` bytes. A single batch may unpack to any
    size before it is measured: bytes from outside are read in a child process (``fathom.domain.decoding``).
    """
    pa = arrow()
    try:
        with pa.ipc.open_stream(data) as reader:
            table = pa.Table.from_batches(take_batches(reader, key, max_bytes), schema=reader.schema)
        table.validate(full=True)
    except MemoryError:  # also an ArrowException, and no word on the bytes
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptData(key, f"no Arrow IPC stream: {error}") from error
    return table.replace_schema_metadata(None)


def write_parquet(table: Any) -> bytes:
    """Serialise an Arrow table as parquet with zstd, the storage format; metadata beyond the Arrow types is dropped.

    Raises ``InvalidField("frame")`` for a type that parquet cannot represent.
    """
    pa, parquet = arrow(), parquet_module()
    sink = pa.BufferOutputStream()
    # Numbers and dates hardly repeat: a dictionary would only cost bytes and time.
    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    try:
        parquet.write_table(
            table.replace_schema_metadata(None), sink, use_dictionary=texts or False,
            compression="zstd", compression_level=ZSTD_LEVEL,
        )  # fmt: skip
    except pa.ArrowException as error:
        raise InvalidField("frame", f"cannot be kept: {error}") from error
    return bytes(sink.getvalue())


def read_parquet(data: bytes, key: str = "table", max_bytes: int = MAX_TABLE_BYTES) -> Any:
    """Read and fully validate the Arrow table of a parquet file; raise ``CorruptData`` naming ``key``.

    Raise its kind ``TableTooLarge`` for a table of more than ``max_bytes`` bytes.
    """
    pa, parquet = arrow(), parquet_module()
    try:
        file = parquet.ParquetFile(pa.BufferReader(data))
        batches = take_batches(file.iter_batches(use_threads=False), key, max_bytes)
        table = pa.Table.from_batches(batches, schema=file.schema_arrow)
        table.validate(full=True)
    except MemoryError:  # also an ArrowException, and no word on the bytes
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptData(key, f"no parquet file: {error}") from error
    return table.replace_schema_metadata(None)


def take_batches(batches: Iterable[Any], key: str, max_bytes: int) -> list[Any]:
    """Return all batches; raise ``TableTooLarge`` naming ``key`` as soon as they hold more than ``max_bytes`` bytes."""
    taken, size = [], 0
    for batch in batches:
        size += batch.nbytes
        if size > max_bytes:
            raise TableTooLarge(key, f"holds more than {max_bytes:,} bytes of table")
        taken.append(batch)
    return taken


def parquet_module() -> Any:
    """Import and return ``pyarrow.parquet``; raise ``MissingExtra``."""
    arrow()
    import pyarrow.parquet

    return pyarrow.parquet


def decode_table(data: bytes, content_type: str, key: str = "table", max_bytes: int = MAX_TABLE_BYTES) -> Any:
    """Read the Arrow table of stored bytes by their content type; no content type means Arrow IPC.

    Raises ``CorruptData`` naming ``key``, and ``InvalidField("data")`` for another content type.
    """
    if content_type == PARQUET:
        return read_parquet(data, key, max_bytes)
    if content_type not in ARROW_TYPES:
        raise InvalidField("data", f"content type {content_type[:80]!r} is neither {ARROW_STREAM} nor {PARQUET}")
    return read_table(data, key, max_bytes)


def from_arrow(data: bytes, key: str = "table") -> pd.DataFrame:
    """Read the frame of an Arrow IPC stream; raise ``CorruptData`` naming ``key``. Nothing in it is executed."""
    return to_frame(read_table(data, key))


def to_frame(table: Any) -> pd.DataFrame:
    """Convert an Arrow table to a frame, ignoring its metadata; raise ``MissingExtra``."""
    try:
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    except ImportError as error:
        raise MissingExtra("pandas", "data") from error
    return frame


def digest(frame: pd.DataFrame, name: str, rows: int = 5) -> str:
    """Summarise a frame: name, shape, first and last rows, then dtype, non-null and null count of each column.

    A row never appears twice in a short frame. Wide frames are cut to 12 columns of values and 24 of counts, cells to
    24 characters; the summary says what is omitted. Of a series that ends before the last row, its last value is named
    with its own date.
    """
    shown = frame.iloc[:, :MAX_COLUMNS]
    left_out = frame.shape[1] - shown.shape[1]
    head, tail = shown.head(rows), shown.iloc[max(rows, len(frame) - rows) :]
    parts = [f"{name}: {len(frame):,} rows × {frame.shape[1]} columns"]
    if left_out:
        parts.append(f"(first {MAX_COLUMNS} columns shown, {left_out} more)")
    if len(head) and shown.shape[1]:
        parts.append(f"head({rows})\n{plain(head)}")
    if len(tail) and shown.shape[1]:
        parts.append(f"tail({rows})\n{plain(tail)}")
    early = list_early_ends(frame)
    if early:
        parts.append(f"last values of columns that end before the last row: {'; '.join(early)}")
    parts.append(info(frame))
    return "\n".join(parts)


def list_early_ends(frame: pd.DataFrame) -> list[str]:
    """Return name, last value and its date of each series that is null in the last row; [] without rising dates."""
    import pandas as pd

    found: list[str] = []
    is_date = [pd.api.types.is_datetime64_any_dtype(kind) for kind in frame.dtypes]
    if True not in is_date:
        return found
    dates = frame.iloc[:, is_date.index(True)]
    # Where several series stand below one another, the last row says nothing about the others.
    if not dates.is_monotonic_increasing or not dates.is_unique or dates.isna().any():
        return found
    for position in range(min(frame.shape[1], 2 * MAX_COLUMNS)):
        column = frame.iloc[:, position]
        known = column[column.notna()]
        if len(known) and known.index[-1] != frame.index[-1]:
            day = cell(dates[known.index[-1]])
            found.append(f"{short(str(frame.columns[position]), MAX_NAME)} {cell(known.iloc[-1])} on {day}")
    return found


def plain(frame: pd.DataFrame) -> str:
    """Format a frame as aligned text with its own row labels, ISO dates and short cells."""
    import pandas as pd

    columns = [[cell(value) for value in frame.iloc[:, position]] for position in range(frame.shape[1])]
    rows = list(zip(*columns, strict=True))
    labels = [cell(label) for label in frame.index]
    names = [short(str(name), MAX_NAME) for name in frame.columns]
    return str(pd.DataFrame(rows, index=labels, columns=names, dtype=object).to_string())


def cell(value: Any) -> str:
    """Format one value in at most 24 characters: significant digits for floats, ISO for times, "NaN" for nulls."""
    import pandas as pd

    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "NaN"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return short(text.removesuffix("T00:00:00"), MAX_CELL)


def short(text: str, limit: int) -> str:
    """Join the text to one line and cut it to ``limit`` characters."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def info(frame: pd.DataFrame) -> str:
    """Return one line per column: dtype, non-null and null count."""
    lines = ["column | dtype | non-null | null"]
    for position in range(min(frame.shape[1], 2 * MAX_COLUMNS)):
        column = frame.iloc[:, position]
        nulls = int(column.isna().sum())
        name = short(str(frame.columns[position]), MAX_NAME)
        lines.append(f"{name} | {column.dtype} | {len(frame) - nulls} | {nulls}")
    if frame.shape[1] > 2 * MAX_COLUMNS:
        lines.append(f"… {frame.shape[1] - 2 * MAX_COLUMNS} more columns")
    return "\n".join(lines)
