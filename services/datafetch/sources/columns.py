"""Type inference for the columns of users' tables; values that do not fit are reported by row."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Any

from fathom.domain.frames import arrow
from fathom.domain.periods.period import name_length
from fathom.domain.text.numerals import NUMBER_WORDS
from fathom.services.datafetch.catalog.column_periods import ColumnPeriod, find_row_period
from fathom.services.datafetch.sources.base import RowIssue
from fathom.services.datafetch.sources.cells import NOTHING, PACKED, parse_day, parse_number
from fathom.services.datafetch.sources.files.written import (
    GROUPED_BY_POINTS,
    find_currency,
    parse_comma_number,
    parse_written_day,
    split_currency,
)

# Share of cells that must fit a type; misfits are then reported. Below it the column stays text.
MOST = 0.95
# Share of words up to which a column of numbers lacks their values; a single one may be more in a short table.
MOST_WORDS = 0.25
# Cells of a column of which a single one may be a remark with a number in it: "about 12, see note 3".
LEAST_REMARKED = 4
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


class Style(StrEnum):
    """Way of writing numbers and days."""

    POINT = "point"
    """1,234.5; days in an order that they show themselves, or month first."""
    COMMA = "comma"
    """1.234,5."""
    DAY_FIRST = "day_first"
    """31/12/2025."""


@dataclass
class Column:
    """A column to be parsed: its name and raw cells."""

    name: str
    cells: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class ParsedColumn:
    """A parsed column: Arrow array, unit, and the cells that became null because they did not fit.

    ``months`` are those of the periods that its days are the last ones of; 0 for days.
    """

    array: Any
    unit: str
    issues: tuple[RowIssue, ...]
    style: Style = Style.POINT
    months: int = 0


@dataclass(frozen=True)
class Reader:
    """Parser of cells, the kind of what it gives, its unit, and the way of writing that it takes for granted."""

    parse: Callable[[Any], Any]
    kind: str
    unit: str = ""
    style: Style = Style.POINT


@dataclass(frozen=True)
class Reading:
    """Cells of a column as a parser has read them: values, and the places of those that do not fit."""

    reader: Reader
    values: list[Any]
    wrong: list[int]


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


def infer_types(columns: Sequence[Column], rows: Sequence[int]) -> dict[str, ParsedColumn]:
    """Parse the columns of a table; ``rows`` are the cells' row numbers in the source.

    Where one column has decimal commas, points group the digits of the others: "1.234" is a thousand there.
    """
    found = {column.name: infer_type(column, rows) for column in columns}
    if any(result.style is Style.COMMA for result in found.values()):
        for column in columns:
            there = [cell for cell in map(clean_cell, column.cells) if cell is not None]
            if there and all(isinstance(cell, str) and GROUPED_BY_POINTS.fullmatch(cell) for cell in there):
                found[column.name] = infer_type(column, rows, Style.COMMA)
    return found


def infer_type(column: Column, rows: Sequence[int], style: Style = Style.POINT) -> ParsedColumn:
    """Parse the column as integers, floats, percentages, amounts of a currency, days or text.

    Codes stay text, detected by the column's name or a leading zero: 000001 is a security, not the number one. Cells
    for which a column nearly has a type, and days of which day and month cannot be told apart, are reported.
    """
    pa = arrow()
    cells = [clean_cell(cell) for cell in column.cells]
    there = [cell for cell in cells if cell is not None]
    if not there:
        return ParsedColumn(pa.nulls(len(cells), pa.string()), "", ())
    plain = pa.array([None if cell is None else format_cell(cell) for cell in cells], pa.string())
    if CODE_NAME.search(column.name) or any(isinstance(cell, str) and CODE.fullmatch(cell) for cell in there):
        return ParsedColumn(plain, "", ())
    best = choose_reading(column.name, cells, there, style)
    if len(best.wrong) == len(there) and (dated := parse_periods(column.name, cells, rows)):
        return dated
    names = [str(cells[index])[:40] for index in best.wrong[:MOST_ISSUES]]
    if is_order_open(cells, best):
        issue = RowIssue(
            rows[0], "day and month cannot be told apart: write 2025-04-03, or both in one order", column.name
        )
        return ParsedColumn(plain, "", (issue,))
    if len(best.wrong) <= (1 - MOST) * len(there) or are_words(best, cells, there):
        issues = [
            RowIssue(rows[at], f"{name!r} is no {best.reader.kind}", column.name)
            for at, name in zip(best.wrong, names, strict=False)
        ]
        array = pa.array(best.values, getattr(pa, TYPES[best.reader.kind])())
        return ParsedColumn(array, best.reader.unit, tuple(issues), best.reader.style)
    if len(best.wrong) >= len(there) / 2:
        return ParsedColumn(plain, "", ())
    # Somebody will miss the numbers: which cells stand in the way?
    issues = [
        RowIssue(rows[at], f"{name!r} is no {best.reader.kind}, so that the column stays text", column.name)
        for at, name in zip(best.wrong, names, strict=False)
    ]
    return ParsedColumn(plain, "", tuple(issues))


def are_words(best: Reading, cells: Sequence[Any], there: Sequence[Any]) -> bool:
    """Return whether the few cells of a column that are no numbers are words that hold none: "see note".

    A single cell may be a remark with a number in it, but no code such as "104B", which has no blank.
    """
    words = [str(cells[at]).lower() for at in best.wrong]
    is_few = len(words) <= max(1, MOST_WORDS * len(there)) and len(words) < len(there) / 2
    spelt = NUMBER_WORDS.keys() & {part for word in words for part in word.split()}
    is_free = not spelt and not any(map(str.isnumeric, "".join(words)))
    is_remark = len(words) == 1 and len(there) >= LEAST_REMARKED and len(words[0].split()) > 1
    return is_few and (is_free or is_remark) and best.reader.kind in NUMBERS


def parse_periods(name: str, cells: Sequence[Any], rows: Sequence[int]) -> ParsedColumn | None:
    """Return the last days of periods of one length, "Jan 2020" or "FY2021"; None for a column of anything else."""
    known: dict[str, ColumnPeriod | None] = {}
    for cell in cells:
        # The first cell that is none ends it: most columns of texts cost one reading.
        if cell is not None and (not isinstance(cell, str) or known.setdefault(cell, find_row_period(cell)) is None):
            return None
    lengths = {one.months for one in known.values() if one is not None}
    if len(lengths) != 1 or 0 in lengths:
        return None
    (months,) = lengths
    days = [one.end if cell is not None and (one := known[cell]) else None for cell in cells]
    note = RowIssue(rows[0], f"each cell is a {name_length(months)}, dated by its last day", name)
    return ParsedColumn(arrow().array(days, arrow().date32()), "", (note,), months=months)


def choose_reading(name: str, cells: Sequence[Any], there: Sequence[Any], style: Style) -> Reading:
    """Return what the parser with the fewest misfits makes of the cells; of equals the narrower one."""
    best: Reading | None = None
    for reader in list_readers(name, there, style):
        reading = Reading(reader, *try_reader(reader.parse, cells))
        if best is None or len(reading.wrong) < len(best.wrong):
            best = reading
        if not reading.wrong:
            break
    assert best is not None
    return best


def is_order_open(cells: Sequence[Any], best: Reading) -> bool:
    """Return whether days were read by an order of day and month for which nothing in the column speaks."""
    if best.reader.style is not Style.DAY_FIRST or best.wrong:
        return False
    other, wrong = try_reader(lambda cell: parse_written_day(cell, False), cells)
    return not wrong and other != best.values


NUMBERS = frozenset({"whole number", "number", "percentage"})
TYPES = {"whole number": "int64", "number": "float64", "percentage": "float64", "day": "date32"}


def list_readers(name: str, there: Sequence[Any], style: Style) -> list[Reader]:
    """Return the possible parsers of a column, the narrowest first."""
    packed = bool(DAY_NAME.search(name)) and all(PACKED.fullmatch(format_cell(cell)) for cell in there)
    day = Reader(lambda cell: parse_strict_day(cell, packed), "day")
    if packed:
        return [day]
    with_comma = Reader(parse_comma_number, "number", style=Style.COMMA)
    readers = [
        Reader(parse_whole_number, "whole number"),
        Reader(parse_figure, "number"),
        with_comma,
        Reader(parse_percentage, "percentage", "%"),
        Reader(lambda cell: parse_comma_number(strip_percent(cell)), "percentage", "%", Style.COMMA),
        day,
        Reader(lambda cell: parse_ordered_day(cell, True), "day", style=Style.DAY_FIRST),
        Reader(lambda cell: parse_ordered_day(cell, False), "day"),
    ]
    if unit := find_currency(there):
        readers += [
            Reader(lambda cell: parse_figure(split_currency(cell)[1]), "number", unit),
            Reader(lambda cell: parse_comma_number(split_currency(cell)[1]), "number", unit, Style.COMMA),
        ]
    return [with_comma, *readers] if style is Style.COMMA else readers


def try_reader(read: Callable[[Any], Any], cells: Sequence[Any]) -> tuple[list[Any], list[int]]:
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
    return parse_number(strip_percent(cell))


def strip_percent(cell: Any) -> str:
    text = str(cell)
    if not text.endswith(("%", "％")):
        raise ValueError("no percentage")
    return text[:-1].strip()


def parse_ordered_day(cell: Any, is_day_first: bool) -> date | None:
    # Numbers are no days, and times are more than that.
    return parse_written_day(cell, is_day_first) if isinstance(cell, str) else parse_strict_day(cell, False)


def parse_strict_day(cell: Any, packed: bool) -> date | None:
    # A column of times would lose them as days, so it stays text.
    if isinstance(cell, datetime) and (cell.hour, cell.minute, cell.second) != (0, 0, 0):
        raise ValueError("a time, not a day")
    if isinstance(cell, int | float) and not packed:
        raise ValueError("a number is no day")
    return parse_day(cell)


def format_cell(cell: Any) -> str:
    return cell.isoformat(" ") if isinstance(cell, datetime) else str(cell)
