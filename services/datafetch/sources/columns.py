"""Type inference for the columns of users' tables; values that do not fit are reported by row."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from fathom.domain.frames import arrow
from fathom.services.datafetch.sources.base import RowIssue
from fathom.services.datafetch.sources.cells import NOTHING, PACKED, parse_day, parse_number

# Share of cells that must fit a type; misfits are then reported. Below it the column stays text.
MOST = 0.95
# A leading zero: numbers are not written so, codes are.
CODE = re.compile(r"0\d+")
# Columns with security codes: their digits are names, and leading zeros count.
CODE_NAME = re.compile(r"(^|_|\b)(code|ticker|symbol|isin|cusip|cik|figi)(_|\b|$)|代码|编码", re.IGNORECASE)
# At most 18 digits fit 64 bits; "1,234,567" with groups of three.
WHOLE = re.compile(r"[+-]?\d{1,18}|[+-]?\d{1,3}(,\d{3}){1,5}")
# Only under such a name is 20250207 a day; elsewhere it is a number.
DAY_NAME = re.compile(r"date|day|日期|日|时间|period|report", re.IGNORECASE)
ERRORS = frozenset({"#REF!", "#DIV/0!", "#VALUE!", "#NAME?", "#NUM!", "#NULL!", "#GETTING_DATA"})
# A file that is wrong throughout must not make an answer as large as itself.
MOST_ISSUES = 1_000
NAME_CHARS = 200


@dataclass
class Column:
    """A column to be parsed: its name and raw cells."""

    name: str
    cells: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class ParsedColumn:
    """A parsed column: Arrow array, unit, and the cells that became null because they did not fit."""

    array: Any
    unit: str
    issues: tuple[RowIssue, ...]


def make_header(cells: Sequence[Any]) -> list[str]:
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


def infer_type(column: Column, rows: Sequence[int]) -> ParsedColumn:
    """Parse the column as integers, floats, percentages, days or text.

    ``rows`` are the cells' row numbers in the source. Codes stay text, detected by the column's name or a leading zero:
    000001 is a security, not the number one.
    """
    pa = arrow()
    cells = [clean_cell(cell) for cell in column.cells]
    there = [cell for cell in cells if cell is not None]
    if not there:
        return ParsedColumn(pa.nulls(len(cells), pa.string()), "", ())
    codes = CODE_NAME.search(column.name) or any(isinstance(cell, str) and CODE.fullmatch(cell) for cell in there)
    if not codes:
        best = choose_reader(column.name, cells, there)
        if best is not None:
            values, wrong, kind, unit = best
            issues = tuple(
                RowIssue(rows[index], f"{str(cells[index])[:40]!r} is no {kind}", column.name)
                for index in wrong[:MOST_ISSUES]
            )
            return ParsedColumn(pa.array(values, getattr(pa, TYPES[kind])()), unit, issues)
    return ParsedColumn(pa.array([None if cell is None else format_cell(cell) for cell in cells], pa.string()), "", ())


def choose_reader(
    name: str, cells: Sequence[Any], there: Sequence[Any]
) -> tuple[list[Any], list[int], str, str] | None:
    """Return values, misfits, kind and unit of the parser with the fewest misfits; None if more than 5 % do not fit."""
    best: tuple[list[Any], list[int], str, str] | None = None
    for read, kind, unit in list_readers(name, there):
        values, wrong = try_reader(read, cells)
        # Strictly fewer: of two parsers with equal misfits the narrower one, which comes first, wins.
        if best is None or len(wrong) < len(best[1]):
            best = values, wrong, kind, unit
        if not wrong:
            break
    return best if best is not None and len(best[1]) <= (1 - MOST) * len(there) else None


TYPES = {"whole number": "int64", "number": "float64", "percentage": "float64", "day": "date32"}
Reader = Callable[[Any], Any]


def list_readers(name: str, there: Sequence[Any]) -> list[tuple[Reader, str, str]]:
    """Return the possible parsers of a column, the narrowest first, with kind and unit."""
    packed = bool(DAY_NAME.search(name)) and all(PACKED.fullmatch(format_cell(cell)) for cell in there)
    days: tuple[Reader, str, str] = (lambda cell: parse_strict_day(cell, packed), "day", "")
    if packed:
        return [days]
    return [
        (parse_whole_number, "whole number", ""),
        (parse_figure, "number", ""),
        (parse_percentage, "percentage", "%"),
        days,
    ]


def try_reader(read: Reader, cells: Sequence[Any]) -> tuple[list[Any], list[int]]:
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


def clean_cell(cell: Any) -> Any:
    """Return the stripped cell, or None for the usual words for "no value" and for spreadsheet errors."""
    if isinstance(cell, str):
        text = cell.strip()
        return None if text.lower() in NOTHING or text in ERRORS else text
    return cell


def parse_whole_number(cell: Any) -> int:
    if isinstance(cell, str) and WHOLE.fullmatch(cell):
        return int(cell.replace(",", ""))
    if isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) < 2**63:
        return cell
    raise ValueError("no whole number")


def parse_figure(cell: Any) -> float | None:
    if isinstance(cell, date):
        raise ValueError("a day is no number")
    return parse_number(cell)


def parse_percentage(cell: Any) -> float | None:
    text = str(cell)
    if not text.endswith(("%", "％")):
        raise ValueError("no percentage")
    return parse_number(text[:-1].strip())


def parse_strict_day(cell: Any, packed: bool) -> date | None:
    # A column of times would lose them as days, so it stays text.
    if isinstance(cell, datetime) and (cell.hour, cell.minute, cell.second) != (0, 0, 0):
        raise ValueError("a time, not a day")
    if isinstance(cell, int | float) and not packed:
        raise ValueError("a number is no day")
    return parse_day(cell)


def format_cell(cell: Any) -> str:
    return cell.isoformat(" ") if isinstance(cell, datetime) else str(cell)
