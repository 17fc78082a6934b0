"""Reading a user's tables: parquet, CSV and XLSX, with failures that name the file and, for CSV, the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fathom.errors import CorruptData, InvalidField, MissingExtra

FORMATS = (".parquet", ".csv", ".tsv", ".xlsx")


def duckdb() -> Any:
    """The duckdb module; raises ``MissingExtra``."""
    try:
        import duckdb as module
    except ImportError as error:
        raise MissingExtra("duckdb", "data") from error
    return module


def quoted(name: str) -> str:
    """A SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """A SQL string."""
    return "'" + value.replace("'", "''") + "'"


def inside(root: Path, path: str) -> Path:
    """A file below ``root``; raises ``InvalidField("path")`` for one outside and ``CorruptData`` for one not there."""
    target = (root / path).resolve()
    if not target.is_relative_to(root.resolve()):
        raise InvalidField("path", f"{path!r} leaves the folder {root}")
    if not target.is_file():
        raise CorruptData(str(target), "is not there")
    if target.suffix.lower() not in FORMATS:
        raise InvalidField("path", f"{path!r} is none of {', '.join(FORMATS)}")
    return target


def create(connection: Any, name: str, path: Path, sheet: str = "", *, view: bool = False) -> list[str]:
    """Makes ``name`` a table (or, of a parquet file, a view) of the file and gives its columns.

    Raises ``CorruptData`` naming file and line for a row that does not fit its header: no row is dropped silently.
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
    """A sheet of an Office Open XML workbook as a frame; raises ``CorruptData``."""
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
    """Raises ``CorruptData`` naming the columns that an upstream has dropped or renamed."""
    absent = [name for name in wanted if name and name not in columns]
    if absent:
        raise CorruptData(str(path), f"has no column {', '.join(map(repr, absent))}; it has {', '.join(columns[:40])}")
