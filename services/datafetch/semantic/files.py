"""Reader of users' tables (parquet, CSV, XLSX); errors name the file and, for CSV, the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fathom.errors import CorruptData, InvalidField, MissingExtra

FORMATS = (".parquet", ".csv", ".tsv", ".xlsx")


def duckdb() -> Any:
    """Import and return the duckdb module; raises ``MissingExtra``."""
    try:
        import duckdb as module
    except ImportError as error:
        raise MissingExtra("duckdb", "data") from error
    return module


def quoted(name: str) -> str:
    """Quote a SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """Quote a SQL string."""
    return "'" + value.replace("'", "''") + "'"


def inside(root: Path, path: str) -> Path:
    """Resolve a path below ``root``.

    Raises ``InvalidField("path")`` for a path outside or another file format, and ``CorruptData`` for a missing file.
    """
    target = (root / path).resolve()
    if not target.is_relative_to(root.resolve()):
        raise InvalidField("path", f"{path!r} leaves the folder {root}")
    if not target.is_file():
        raise CorruptData(str(target), "is not there")
    if target.suffix.lower() not in FORMATS:
        raise InvalidField("path", f"{path!r} is none of {', '.join(FORMATS)}")
    return target


def create(connection: Any, name: str, path: Path, sheet: str = "", *, view: bool = False) -> list[str]:
    """Create the table ``name`` (with ``view``, for a parquet file, a view) from a file and return its columns.

    Raises ``CorruptData`` with file and line for a row that does not match the header; no row is dropped silently.
    """
    module = duckdb()
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            kind = "view" if view else "table"
            connection.execute(f"create {kind} {quoted(name)} as select * from read_parquet({literal(str(path))})")
        elif suffix == ".xlsx":
            frame = workbook(path, sheet)
            connection.register("incoming", frame)
            connection.execute(f"create table {quoted(name)} as select * from incoming")
            connection.unregister("incoming")
        else:
            separator = ", delim='\t'" if suffix == ".tsv" else ""
            connection.execute(
                f"create table {quoted(name)} as select * from read_csv({literal(str(path))}, header=true,"
                f" strict_mode=true, sample_size=-1{separator})"
            )
    except module.Error as error:
        raise CorruptData(str(path), " ".join(str(error).split())[:300]) from error
    rows = connection.execute(f"describe {quoted(name)}").fetchall()
    return [row[0] for row in rows]


def workbook(path: Path, sheet: str) -> Any:
    """Read a sheet of an Office Open XML workbook as a frame; raises ``CorruptData`` and ``MissingExtra``."""
    try:
        import pandas as pd

        return pd.read_excel(path, sheet_name=sheet or 0)
    except ImportError as error:
        raise MissingExtra("openpyxl", "data") from error
    except (ValueError, KeyError, OSError, TypeError) as error:
        raise CorruptData(str(path), f"cannot be read as a workbook: {error}") from error
    except Exception as error:  # zipfile and XML raise classes of their own
        raise CorruptData(str(path), f"cannot be read as a workbook: {type(error).__name__}") from error


def require(columns: list[str], wanted: list[str], path: Path) -> None:
    """Raise ``CorruptData`` with the columns that are absent, such as those that an upstream dropped or renamed."""
    absent = [name for name in wanted if name and name not in columns]
    if absent:
        raise CorruptData(str(path), f"has no column {', '.join(map(repr, absent))}; it has {', '.join(columns[:40])}")
