"""Type inference for the columns of users' tables; values that do not fit are reported by row."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from fathom.frames import arrow
from services.datafetch.connectors.base import RowIssue
from services.datafetch.connectors.cells import NOTHING, PACKED, day, number

# Share of cells that must fit a type; misfits are then reported. Below it the column stays text.
MOST = 0.95
CODE = re.compile(r"0\d+")
CODE_NAME = re.compile(r"(^|_|\b)(code|ticker|symbol|isin|cusip|cik|figi)(_|\b|$)|代码|编码", re.IGNORECASE)
WHOLE = re.compile(r"[+-]?\d{1,18}|[+-]?\d{1,3}(,\d{3}){1,5}")
DAY_NAME = re.compile(r"date|day|日期|日|时间|period|report", re.IGNORECASE)
ERRORS = frozenset({"#REF!", "#DIV/0!", "#VALUE!", "#NAME?", "#NUM!", "#NULL!", "#GETTING_DATA"})
MOST_ISSUES = 1_000
NAME_CHARS = 200


@dataclass
class Column:
    """A column to be parsed: its name and raw cells."""

    name: str
    cells: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Typed:
    """A parsed column: Arrow array, unit, and the cells that became null because they did not fit."""

    array: Any
    unit: str
    issues: tuple[RowIssue, ...]


def header(cells: Sequence[Any]) -> list[str]:
    """Return column names: an empty one becomes ``column_<place>``, a repeated one gets a number."""
    names: list[str] = []
    for place, cell in enumerate(cells, start=1):
        name = " ".join(str(cell).split())[:NAME_CHARS] if cell is not None else ""
        name = name or f"column_{place}"
        taken, again = name, 2
        while taken in names:
            taken, again = f"{name}_{again}", again + 1
        names.append(taken)
    return names


def typed(column: Column, rows: Sequence[int]) -> Typed:
    """Parse the column as integers, floats, percentages, days or text.

    ``rows`` are the cells' row numbers in the source. Codes stay text, detected by the column's name or a leading zero:
    000001 is a security, not the number one.
    """
    pa = arrow()
    cells = [cleaned(cell) for cell in column.cells]
    there = [cell for cell in cells if cell is not None]
    if not there:
        return Typed(pa.nulls(len(cells), pa.string()), "", ())
    codes = CODE_NAME.search(column.name) or any(isinstance(cell, str) and CODE.fullmatch(cell) for cell in there)
    if not codes:
        best = narrowest(column.name, cells, there)
        if best is not None:
            values, wrong, kind, unit = best
            issues = tuple(
                RowIssue(rows[index], f"{str(cells[index])[:40]!r} is no {kind}", column.name)
                for index in wrong[:MOST_ISSUES]
            )
            return Typed(pa.array(values, getattr(pa, TYPES[kind])()), unit, issues)
    return Typed(pa.array([None if cell is None else as_text(cell) for cell in cells], pa.string()), "", ())


def narrowest(name: str, cells: Sequence[Any], there: Sequence[Any]) -> tuple[list[Any], list[int], str, str] | None:
    """Return values, misfits, kind and unit of the parser with the fewest misfits; None if more than 5 % do not fit."""
    best: tuple[list[Any], list[int], str, str] | None = None
    for read, kind, unit in readers(name, there):
        values, wrong = attempt(read, cells)
        if best is None or len(wrong) < len(best[1]):
            best = values, wrong, kind, unit
        if not wrong:
            break
    return best if best is not None and len(best[1]) <= (1 - MOST) * len(there) else None


TYPES = {"whole number": "int64", "number": "float64", "percentage": "float64", "day": "date32"}
Reader = Callable[[Any], Any]


def readers(name: str, there: Sequence[Any]) -> list[tuple[Reader, str, str]]:
    """Return the possible parsers of a column, the narrowest first, with kind and unit."""
    packed = bool(DAY_NAME.search(name)) and all(PACKED.fullmatch(as_text(cell)) for cell in there)
    days: tuple[Reader, str, str] = (lambda cell: strict_day(cell, packed), "day", "")
    if packed:
        return [days]
    return [(whole, "whole number", ""), (figure, "number", ""), (percent, "percentage", "%"), days]


def attempt(read: Reader, cells: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return the parsed values, with null for those that the parser rejects, and the indices of the rejected ones."""
    values: list[Any] = []
    wrong: list[int] = []
    for index, cell in enumerate(cells):
        try:
            values.append(None if cell is None else read(cell))
        except (ValueError, OverflowError):
            values.append(None)
            wrong.append(index)
    return values, wrong


def cleaned(cell: Any) -> Any:
    """Return the stripped cell, or None for the usual words for "no value" and for spreadsheet errors."""
    if isinstance(cell, str):
        text = cell.strip()
        return None if text.lower() in NOTHING or text in ERRORS else text
    return cell


def whole(cell: Any) -> int:
    if isinstance(cell, str) and WHOLE.fullmatch(cell):
        return int(cell.replace(",", ""))
    if isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) < 2**63:
        return cell
    raise ValueError("no whole number")


def figure(cell: Any) -> float | None:
    if isinstance(cell, date):
        raise ValueError("a day is no number")
    return number(cell)


def percent(cell: Any) -> float | None:
    text = str(cell)
    if not text.endswith(("%", "％")):
        raise ValueError("no percentage")
    return number(text[:-1].strip())


def strict_day(cell: Any, packed: bool) -> date | None:
    if isinstance(cell, datetime) and (cell.hour, cell.minute, cell.second) != (0, 0, 0):
        raise ValueError("a time, not a day")
    if isinstance(cell, int | float) and not packed:
        raise ValueError("a number is no day")
    return day(cell)


def as_text(cell: Any) -> str:
    return cell.isoformat(" ") if isinstance(cell, datetime) else str(cell)
