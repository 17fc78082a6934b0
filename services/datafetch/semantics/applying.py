"""A table as series over time, by what its columns mean: a column of days, and one for each thing and measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa

from fathom.core.errors import InvalidField
from fathom.core.ids import sha256
from fathom.domain import frames
from fathom.domain.periods.period import count_whole_months, name_length
from fathom.domain.text.addresses import join_cells, list_cells
from fathom.services.datafetch.catalog.column_periods import ANCHOR, find_row_period
from fathom.services.datafetch.query.model import Column, Sheet
from fathom.services.datafetch.semantics.meaning import Aggregation, ColumnMeaning, TableMeaning, check_meaning
from fathom.services.datafetch.semantics.row_periods import join_row_periods
from fathom.services.datafetch.sources.base import RowIssue
from fathom.services.datafetch.sources.columns import MOST_ISSUES

DATE = "date"
# More are no table that a reader could look through, nor names that a question could tell apart.
MOST_SERIES = 64
# Of more cells or runs of them the columns are named.
MOST_CELLS = 64


@dataclass
class Series:
    """Values of one measure of one thing by day, and where they stand in the table.

    ``per`` names their period where the table has others of the same measure: quarters beside whole years.
    """

    meaning: ColumnMeaning
    label: str
    per: str = ""
    values: dict[date, float] = field(default_factory=dict)
    cells: list[tuple[date, str, int]] = field(default_factory=list)
    """Place of the values: day, column of the file and row."""

    @property
    def name(self) -> str:
        """Return the name of its column."""
        return name_series(self.label, self.meaning.name, self.per)


def name_series(label: str, measure: str, per: str = "") -> str:
    """Return the name of the column of a series: "Porto Revenue", "Porto Revenue per year"."""
    return " ".join(filter(None, (label, measure, f"per {per}" if per else "")))


def name_periods(lengths: Sequence[int]) -> dict[int, str]:
    """Return what the periods of a measure are called by their months: "" for the shortest ones, as of the only ones.

    A whole year and its last quarter end on one day, and are two values all the same.
    """
    return {months: name_length(months) if months > lengths[0] else "" for months in lengths}


def apply_meaning(
    table: pa.Table, title: str, meaning: TableMeaning, sources: Mapping[str, str] | None = None
) -> tuple[Sheet, list[RowIssue]]:
    """Return the sheet of a table's series and the rows that are in none, numbered from 1.

    ``sources`` say where the columns stand in their file: "plants.xlsx B5:B7".

    Raises ``InvalidField`` for a meaning that does not fit, and for more than 64 series.
    """
    table = join_row_periods(table)
    check_meaning(meaning, table)
    periods = {measure: name_periods(lengths) for measure, lengths in meaning.list_lengths().items()}
    pers = {
        one.column: periods[one.name][count_whole_months(*days)] if (days := one.find_days(ANCHOR.year)) else ""
        for one in meaning.values
    }
    found: dict[str, Series] = {}
    issues: list[RowIssue] = []
    for number, label, one, day, value in iter_cells(table, meaning, issues):
        name = name_series(label, one.name, pers[one.column])
        if name not in found and len(found) == MOST_SERIES:
            raise InvalidField("meaning", f"gives more than {MOST_SERIES} series: ignore some of the columns")
        series = found.setdefault(name, Series(one, label, pers[one.column]))
        if day in series.values and one.aggregation is not Aggregation.SUM:
            if len(issues) < MOST_ISSUES:
                issues.append(RowIssue(number, f"a second value for {day}, the first one is kept", one.column))
            continue
        series.cells.append((day, one.column, number))
        series.values[day] = series.values.get(day, 0.0) + value
    if not any(series.values for series in found.values()):
        raise InvalidField("meaning", "gives no value with a day")
    places = {
        name: name_cells(one, title, sources or {}, table.num_rows, has_label=meaning.label is not None)
        for name, one in found.items()
    }
    return make_series_sheet(list(found.values()), title, meaning, places), issues


def can_apply(table: pa.Table, title: str, meaning: TableMeaning) -> bool:
    """Return whether series can be made of a table: there are some, and not too many."""
    try:
        apply_meaning(table, title, meaning)
    except InvalidField:
        return False
    return True


def iter_cells(
    table: pa.Table, meaning: TableMeaning, issues: list[RowIssue]
) -> Iterator[tuple[int, str, ColumnMeaning, date, float]]:
    """Yield the values with the row, the label and the day; rows without one are reported."""
    count = table.num_rows
    labels = [str(cell or "").strip() for cell in table[meaning.label.column].to_pylist()] if meaning.label else []
    days = read_days(table[meaning.date.column]) if meaning.date else []
    for row in range(count):
        if (labels and not labels[row]) or (days and days[row] is None):
            what = "label" if labels and not labels[row] else "day"
            if len(issues) < MOST_ISSUES:
                issues.append(RowIssue(row + 1, f"has no {what} and is in no series"))
    for one in meaning.values:
        dated = date_values(one, days, count)
        for row, cell in enumerate(table[one.column].to_pylist()):
            day = dated[row]
            if cell is not None and day is not None and (not labels or labels[row]):
                yield row + 1, labels[row] if labels else "", one, day, float(cell)


def date_values(one: ColumnMeaning, days: Sequence[date | None], count: int) -> Sequence[date | None]:
    """Return the last day of the period of each value: of its row, of its column, or of a part of the row's year."""
    if not days:
        said = one.find_days()
        return [said[1] if said else None] * count
    if not one.period:
        return days
    years = {day.year: said[1] for day in days if day is not None and (said := one.find_days(day.year))}
    return [years.get(day.year) if day is not None else None for day in days]


def read_days(column: pa.ChunkedArray) -> list[date | None]:
    """Return the day of each cell, of a year or another period its last one."""
    cells = column.to_pylist()
    # Rows of several things repeat their periods.
    known = {cell: read_day(cell) for cell in dict.fromkeys(cells)}
    return [known[cell] for cell in cells]


def read_day(cell: Any) -> date | None:
    """Return the day of a cell, of a period its last one; None for an empty cell and for a text that is no period."""
    if cell is None or isinstance(cell, int):
        return date(cell, 12, 31) if cell is not None and 1 <= cell <= 9999 else None
    if isinstance(cell, str):
        return found.end if (found := find_row_period(cell)) else None
    return cell.date() if hasattr(cell, "date") else cell  # type: ignore[no-any-return]


def name_cells(series: Series, title: str, sources: Mapping[str, str], count: int, *, has_label: bool) -> str:
    """Return the cells of a file that a series is made of, by day: "plants.xlsx C5, E5"; of many their ranges."""
    columns = list(dict.fromkeys(column for _, column, _ in series.cells))
    known = {column: list_cells(sources.get(column, ""), count) for column in columns}
    if all(known.values()):
        by_day = sorted(series.cells, key=lambda cell: cell[0])
        runs = join_cells([known[column][row - 1] for _, column, row in by_day])
        if len(runs) <= MOST_CELLS:
            return f"{title} {', '.join(runs)}"
    where = f" of {series.label}" if has_label else ""
    return ", ".join(sources.get(column) or column for column in columns) + where


def make_series_sheet(found: list[Series], title: str, meaning: TableMeaning, places: Mapping[str, str]) -> Sheet:
    """Return the sheet of some series, all of which have a column of doubles beside that of days."""
    days = sorted({day for series in found for day in series.values})
    arrays = [pa.array([series.values.get(day) for day in days], pa.float64()) for series in found]
    table = pa.table([pa.array(days, pa.date32()), *arrays], names=[DATE, *(series.name for series in found)])
    columns = [Column(DATE, "date32[day]"), *(describe_series(one, places[one.name], len(days)) for one in found)]
    arrow = frames.write_table(table)
    # The same numbers of another meaning are another sheet.
    ident = f"t{sha256(arrow + repr(meaning).encode())[:24]}"
    return Sheet(ident, title, tuple(columns), table.num_rows, frames.digest(frames.from_arrow(arrow), ident), arrow)


def describe_series(one: Series, place: str, rows: int) -> Column:
    """Return the description of a series' column: whose it is, its names, and the cells of the file that it has."""
    return Column(
        one.name,
        "double",
        one.meaning.unit,
        entity=one.label,
        nulls=rows - len(one.values),
        vendor="upload",
        source=place,
        resampling=f"{one.meaning.aggregation} of a period's values" if one.meaning.aggregation else "",
        entity_names=(one.label,) if one.label else (),
        indicator_names=one.meaning.names or (one.meaning.column,),
    )
