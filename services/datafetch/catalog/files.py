"""Reader of users' tables (parquet, CSV, XLSX); errors name the file and, for CSV, the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fathom.core.errors import CorruptData, InvalidField, MissingExtra

FORMATS = (".parquet", ".csv", ".tsv", ".xlsx")
# A file of this size or more is read in place; a CSV of it is first written as Parquet.
LARGE_BYTES = 64 << 20
# What the conversion of a large CSV may hold; it takes as much whether the file has one gigabyte or five.
SCAN_MEMORY = "512MB"
# DuckDB takes no line of more than 2 MB either, and finds that out by reading it again and again.
LINE_BYTES = 2_000_000


def import_duckdb() -> Any:
    """Import and return the duckdb module; raises ``MissingExtra``."""
    try:
        import duckdb as module
    except ImportError as error:
        raise MissingExtra("duckdb", "data") from error
    return module


def quote(name: str) -> str:
    """Quote a SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(value: str) -> str:
    """Quote a SQL string."""
    return "'" + value.replace("'", "''") + "'"


def resolve_inside(root: Path, path: str) -> Path:
    """Resolve a path below ``root``.

    Raises ``InvalidField("path")`` for a path outside or another file format, and ``CorruptData`` for a missing file.
    """
    target = (root / path).resolve()
    # After resolving, so that neither ".." nor a link leads out of the folder.
    if not target.is_relative_to(root.resolve()):
        raise InvalidField("path", f"{path!r} leaves the folder {root}")
    if not target.is_file():
        raise CorruptData(str(target), "is not there")
    if target.suffix.lower() not in FORMATS:
        raise InvalidField("path", f"{path!r} is none of {', '.join(FORMATS)}")
    return target


def is_large_csv(path: Path) -> bool:
    """Return whether a file is a CSV that is scanned instead of held in memory."""
    return path.suffix.lower() in (".csv", ".tsv") and path.stat().st_size >= LARGE_BYTES


def read_csv_sql(path: Path) -> str:
    """Return SQL that reads a CSV or TSV strictly, with the types that all of its rows allow."""
    # DuckDB guesses the comma by itself; a TSV with commas in its texts would mislead it.
    separator = ", delim='\t'" if path.suffix.lower() == ".tsv" else ""
    return (
        f"select * from read_csv({quote_literal(str(path))}, header=true, strict_mode=true, sample_size=-1{separator})"
    )


def refuse_long_lines(path: Path) -> None:
    """Raise ``CorruptData`` with the number of the first line that has far more than ``LINE_BYTES`` bytes."""
    # A line of twice the limit fills one block at least, and nothing of the file is held but that.
    with path.open("rb") as file:
        lines = 1
        while block := file.read(LINE_BYTES):
            ends = block.count(b"\n")
            if len(block) == LINE_BYTES and not ends and b"\r" not in block:
                raise CorruptData(f"{path}:{lines}", f"the line has over {LINE_BYTES:,} bytes")
            lines += ends


def convert_csv(path: Path, target: Path) -> None:
    """Write a CSV as Parquet by scanning it, within a bound of memory; raises ``CorruptData`` like ``create_table``."""
    refuse_long_lines(path)
    module = import_duckdb()
    limits = {"threads": 2, "memory_limit": SCAN_MEMORY, "temp_directory": str(target.parent)}
    try:
        with module.connect(":memory:", config=limits) as connection:
            connection.execute(f"copy ({read_csv_sql(path)}) to {quote_literal(str(target))} (format parquet)")
    except module.Error as error:
        raise CorruptData(str(path), " ".join(str(error).split())[:300]) from error


def create_table(connection: Any, name: str, path: Path, sheet: str = "", *, view: bool = False) -> list[str]:
    """Create the table ``name`` (with ``view``, for a parquet file, a view) from a file and return its columns.

    Raises ``CorruptData`` with file and line for a row that does not match the header; no row is dropped silently.
    """
    module = import_duckdb()
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            kind = "view" if view else "table"
            connection.execute(f"create {kind} {quote(name)} as select * from read_parquet({quote_literal(str(path))})")
        elif suffix == ".xlsx":
            frame = read_workbook(path, sheet)
            connection.register("incoming", frame)
            connection.execute(f"create table {quote(name)} as select * from incoming")
            connection.unregister("incoming")
        else:
            refuse_long_lines(path)
            connection.execute(f"create table {quote(name)} as {read_csv_sql(path)}")
    except module.Error as error:
        # DuckDB's messages repeat the row that failed, which may be long.
        raise CorruptData(str(path), " ".join(str(error).split())[:300]) from error
    rows = connection.execute(f"describe {quote(name)}").fetchall()
    return [row[0] for row in rows]


def read_workbook(path: Path, sheet: str) -> Any:
    """Read a sheet of an Office Open XML workbook as a frame; raises ``CorruptData`` and ``MissingExtra``."""
    try:
        import pandas as pd

        return pd.read_excel(path, sheet_name=sheet or 0)
    except ImportError as error:
        raise MissingExtra("openpyxl", "data") from error
    except (ValueError, KeyError, OSError, TypeError) as error:
        raise CorruptData(str(path), f"cannot be read as a workbook: {error}") from error
    except Exception as error:  # a broken file makes zipfile and XML readers raise classes of their own
        raise CorruptData(str(path), f"cannot be read as a workbook: {type(error).__name__}") from error


def require_columns(columns: list[str], wanted: list[str], path: Path) -> None:
    """Raise ``CorruptData`` with the columns that are absent, such as those that an upstream dropped or renamed."""
    absent = [name for name in wanted if name and name not in columns]
    if absent:
        raise CorruptData(str(path), f"has no column {', '.join(map(repr, absent))}; it has {', '.join(columns[:40])}")
