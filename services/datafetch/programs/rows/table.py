"""A user's own table as its rows stand in the file: columns of numbers, of days and of texts, totals and headings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

import pyarrow as pa

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.domain.periods.period import DAY
from fathom.services.datafetch.catalog.column_periods import find_row_period
from fathom.services.datafetch.programs.own import LEAST_PARTS, ROUNDING, is_day, is_number

# Longer tables are series or registers that nobody asks about by the words of their cells.
MOST_ROWS, MOST_COLUMNS = 2_000, 200


class Kind(StrEnum):
    """Kind of the cells of a column."""

    NUMBER = "number"
    DAY = "day"
    TEXT = "text"


@dataclass(frozen=True)
class RowColumn:
    """A column with its cells from the first row on: floats, stretches of days, or texts; None for an empty one."""

    name: str
    kind: Kind
    unit: str
    cells: tuple[Any, ...]


@dataclass(frozen=True)
class RowTable:
    """A table as it was sent."""

    sheet_id: str
    title: str
    columns: tuple[RowColumn, ...]
    count: int

    def list_kind(self, kind: Kind) -> list[RowColumn]:
        """Return the columns of a kind."""
        return [one for one in self.columns if one.kind is kind]

    @cached_property
    def heading_rows(self) -> frozenset[int]:
        """Return the rows that have a text and nothing else."""
        filled = [[one for one in self.columns if one.cells[row] is not None] for row in range(self.count)]
        is_wide = len(self.columns) > 1
        return frozenset(
            row for row, found in enumerate(filled) if is_wide and len(found) == 1 and found[0].kind is Kind.TEXT
        )

    @cached_property
    def headings(self) -> tuple[str, ...]:
        """Return for each row the text that stands alone in a row above it: "VEGETABLES"; "" without one."""
        found, last = [], ""
        for row in range(self.count):
            if row in self.heading_rows:
                last = next(one.cells[row] for one in self.columns if one.cells[row] is not None)
            found.append("" if row in self.heading_rows else last)
        return tuple(found)

    def find_totals(self, column: RowColumn) -> frozenset[int]:
        """Return the rows whose value is the sum of those above, since the last such row or of all others."""
        totals: set[int] = set()
        block, whole = list[float](), list[float]()
        for row, value in enumerate(column.cells):
            if value is None:
                continue
            if any(len(parts) >= LEAST_PARTS and is_sum(parts, value) for parts in (block, whole)):
                totals.add(row)
                block = []
            else:
                block.append(value)
                whole.append(value)
        return frozenset(totals)


def is_sum(parts: Sequence[float], whole: float) -> bool:
    """Return whether a value is the sum of others, but for their rounding."""
    size = sum(map(abs, parts))
    return size > 0 and abs(sum(parts) - whole) <= ROUNDING * size


def is_of_rows(sheet: pb.Sheet) -> bool:
    """Return whether a sheet is as the user has sent it, and short enough to be read row by row: no sheet of series."""
    is_short = 0 < sheet.rows <= MOST_ROWS and len(sheet.columns) <= MOST_COLUMNS
    return is_short and not any(one.indicator_names for one in sheet.columns)


def make_row_table(sheet: pb.Sheet, table: pa.Table) -> RowTable:
    """Return the rows of a sheet."""
    units = {one.name: one.unit for one in sheet.columns}
    columns = tuple(
        read_column(field, table[field.name].to_pylist(), units.get(field.name, "")) for field in table.schema
    )
    return RowTable(sheet.id, sheet.title, columns, table.num_rows)


def read_column(field: pa.Field, cells: Sequence[Any], unit: str) -> RowColumn:
    """Return a column by its type; texts that are all periods ("2027-03") are days."""
    if is_number(field.type):
        return RowColumn(field.name, Kind.NUMBER, unit, tuple(None if cell is None else float(cell) for cell in cells))
    if is_day(field.type):
        days = [cell.date() if isinstance(cell, datetime) else cell for cell in cells]
        return RowColumn(field.name, Kind.DAY, unit, tuple(None if day is None else (day, day) for day in days))
    texts = [str(cell).strip() or None if cell is not None else None for cell in cells]
    periods = {text: find_row_period(text) for text in dict.fromkeys(texts) if text}
    if periods and all(periods.values()):
        stretches: list[tuple[date, date] | None] = []
        for text in texts:
            one = periods[text] if text else None
            stretches.append((one.start, one.end) if one else None)
        return RowColumn(field.name, Kind.DAY, unit, tuple(stretches))
    return RowColumn(field.name, Kind.TEXT, unit, tuple(texts))


def is_within(cell: tuple[date, date] | None, periods: Sequence[tuple[date, date]]) -> bool:
    """Return whether a stretch of days lies in one of some periods, or in several that follow each other."""
    if cell is None:
        return False
    first, last = cell
    for start, end in sorted(periods):
        if start <= first <= end:
            if last <= end:
                return True
            first = end + DAY
    return False
