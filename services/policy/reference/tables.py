"""The tables of the data tool: their columns of values, and the values of their ends in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Sheet = Mapping[str, Any]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?")


def list_columns(sheet: Sheet) -> list[Mapping[str, Any]]:
    """Return the columns of a sheet that hold values."""
    columns: Sequence[Mapping[str, Any]] = sheet.get("columns", ())
    return [column for column in columns if not str(column.get("type", "")).startswith(("time", "date", "string"))]


def write_ends(sheet: Sheet, body: str) -> list[str]:
    """Return the values of the first and the last row that the data tool shows in words, with unit and date.

    Where there are several columns a value has the name of its own.
    """
    names, columns = [str(column["name"]) for column in sheet["columns"]], list_columns(sheet)
    shown = body.partition(f"{sheet['variable']}: ")[2].partition("\ncolumn | dtype")[0]
    cells = [line.split()[1:] for line in shown.splitlines()[1:] if line[:1].isdigit()]
    rows = [dict(zip(names, row, strict=True)) for row in cells if len(row) == len(names)]
    said = []
    for row in [*rows[:1], *rows[1:][-1:]]:
        days = " – ".join(row[name] for name in ("date", "from", "to") if name in row)
        for column in columns:
            name, text = str(column["name"]), row[str(column["name"])]
            value = write_value(text, str(column.get("unit", "")).partition(" (")[0]) if NUMBER.fullmatch(text) else ""
            said += [f"{f'{name}: ' if len(columns) > 1 else ''}{value} ({days})"] if value else []
    return said


def write_value(text: str, unit: str) -> str:
    """Return a number as a reader writes it, with its unit: a fraction in per cent."""
    if unit == "fraction":
        return f"{100 * float(text):.2f}%"
    # "2017=100" is the base of an index and no unit of its values.
    shown = unit if unit.startswith("%") else f" {unit}" if unit and "=" not in unit else ""
    return f"{float(text):,.6g}{shown}"
