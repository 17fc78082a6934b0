"""Periods of rows that stand in two columns, a year and a part of it: "2031 | Q1", "2031 | March", "2031 | 3"."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from fathom.services.datafetch.catalog.column_periods import MONTHS_OF_YEAR, YEARS, find_row_period, read_part
from fathom.services.datafetch.programs.own import JOINTS
from fathom.services.datafetch.semantics.meaning import is_text

# A column of numbers is one of years only if it says so: units may be 1,900 to 2,100, too.
YEAR_NAME = re.compile(r"year|jahr|ann[ée]e|año|年", re.IGNORECASE)
# So is one of quarters or months: numbers up to 4 or 12 may count anything. With how many a year has, and how one is
# written with its year.
NUMBERED_PARTS = (
    (re.compile(r"\b(?:quarter|qtr|q|quartal|trimestre)\b|季度?$", re.IGNORECASE), 4, "Q{part} {year}"),
    (re.compile(r"\b(?:month|monat|mois|mes)\b|月份?$", re.IGNORECASE), MONTHS_OF_YEAR, "{year}-{part:02}"),
)


def join_row_periods(table: pa.Table) -> pa.Table:
    """Return a table whose column of years says the rows' quarters or months, too, where another column has these."""
    years = [field.name for field in table.schema if has_years_of_rows(table, field)]
    parts = [(name, form) for name in table.column_names if years and (form := find_form(table, name))]
    if not parts:
        return table
    column, form = parts[0]
    cells = [
        write_period(form, *row) for row in zip(table[column].to_pylist(), table[years[0]].to_pylist(), strict=True)
    ]
    # A table is left as it is rather than read by halves.
    if any(cell and find_row_period(cell) is None for cell in dict.fromkeys(cells)):
        return table
    # As a text, since numbers of parts measure nothing.
    table = table.set_column(table.column_names.index(column), column, table[column].cast(pa.string()))
    return table.set_column(table.column_names.index(years[0]), years[0], pa.array(cells, pa.string()))


def has_years_of_rows(table: pa.Table, field: pa.Field) -> bool:
    """Return whether a column of whole numbers has the years of the rows."""
    if not (pa.types.is_integer(field.type) and YEAR_NAME.search(field.name) and table.num_rows):
        return False
    ends = pc.min_max(table[field.name]).as_py()
    return ends["min"] is not None and ends["min"] in YEARS and ends["max"] in YEARS


def write_period(form: str, part: str | int, year: int | None) -> str | None:
    """Return the period of a row, None for one without its year."""
    return form.format(part=part.strip() if isinstance(part, str) else part, year=year) if year else None


def find_form(table: pa.Table, name: str) -> str:
    """Return how a cell of a column is written with its year as one period; "" where they are no parts of a year."""
    if has_parts(table[name]):
        return "{part} {year}"
    if not pa.types.is_integer(table.schema.field(name).type) or table[name].null_count or not table.num_rows:
        return ""
    ends = pc.min_max(table[name]).as_py()
    shown = JOINTS.sub(" ", name)
    forms = (form for called, most, form in NUMBERED_PARTS if called.search(shown) and ends["max"] <= most)
    return next(forms, "") if ends["min"] >= 1 else ""


def has_parts(column: pa.ChunkedArray) -> bool:
    """Return whether all cells of a column are parts of a year: "Q1", "March", 第一季度."""
    if not is_text(column.type):
        return False
    cells = pc.unique(column).to_pylist()
    # More are no quarters or months; the first one that is none ends the reading.
    return 1 < len(cells) <= MONTHS_OF_YEAR and all(cell and read_part(cell.strip()) for cell in cells)
