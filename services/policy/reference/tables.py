"""The tables of the data tool in words: their values where they are few, otherwise the first and the last row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Sheet = Mapping[str, Any]
ROW = re.compile(r"^\d+ +(\S.*)$", re.MULTILINE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def list_columns(sheet: Sheet) -> list[Mapping[str, Any]]:
    """Return the columns of a sheet that hold values."""
    columns: Sequence[Mapping[str, Any]] = sheet.get("columns", ())
    return [column for column in columns if not str(column.get("type", "")).startswith(("time", "date", "string"))]


def list_rows(body: str, sheet: Sheet) -> list[list[str]]:
    """Return all rows of a short table as the data tool shows them, of a long one the first and the last row."""
    _, _, rest = body.partition(f"{sheet['variable']}: ")
    shown = rest.partition("\ncolumn | dtype")[0].partition("\n")[2]
    rows = [match.group(1).split() for match in ROW.finditer(shown)]
    if not rows or any(len(row) != len(sheet.get("columns", ())) for row in rows):
        return []
    return rows if len(rows) == sheet.get("rows") else [rows[0], rows[-1]]


def write_row(row: Sequence[str], sheet: Sheet, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of a row, each with its series where there are several, its unit and its date.

    ``names`` are the question's words by the entities' ids.
    """
    cells = dict(zip([str(column["name"]) for column in sheet["columns"]], row, strict=True))
    columns = list_columns(sheet)
    days = " – ".join(cells[name] for name in ("date", "from", "to") if name in cells)
    for column in columns:
        name, unit = str(column["name"]), str(column.get("unit", "")).partition(" (")[0]
        value, (entity, _, rest) = cells[name], name.partition(".")
        label = f"{names.get(entity, entity)} {rest}: " if len(columns) > 1 else ""
        if NUMBER.fullmatch(value):
            value, unit = show_number(float(value), unit)
        # "2017=100" is the base of an index and no unit of its values.
        unit = unit if unit.startswith("%") else f" {unit}" if unit and "=" not in unit else ""
        if value != "NaN":
            yield f"{label}{value}{unit} ({days})"


def show_number(value: float, unit: str) -> tuple[str, str]:
    """Return a number as a reader writes it, with its unit: a fraction in per cent."""
    if unit != "fraction":
        return f"{value:,}".removesuffix(".0"), unit
    return f"{value * 100:,.{1 if abs(value) >= 0.1 else 2}f}", "%"
