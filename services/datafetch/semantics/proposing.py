"""Proposal of what the columns of a table mean: by their cells, by periods in their names, and by the catalogue."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fathom.services.datafetch.catalog.column_periods import (
    ColumnPeriod,
    find_row_period,
    open_brackets,
    read_column_period,
    read_part,
)
from fathom.services.datafetch.catalog.matching import Scored
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.programs.own import JOINTS, is_day, is_number, read_unit, strip_unit
from fathom.services.datafetch.semantics.applying import can_apply
from fathom.services.datafetch.semantics.meaning import (
    MOST_NAMES,
    NAME_CHARS,
    Aggregation,
    ColumnMeaning,
    Role,
    TableMeaning,
    has_years,
    is_text,
)
from fathom.services.datafetch.semantics.row_periods import has_years_of_rows, join_row_periods

# Where the name of a file ends, before that of a workbook's sheet; and names of sheets that nobody has chosen.
FILE_END = re.compile(r"\.(?:csv|tsv|txt|xlsx|xlsm|parquet)(?=\s|$)", re.IGNORECASE)
NUMBERED = re.compile(r"\s*[^\W\d]+\s?\d{1,2}")
# Periods of a column that are read; longer tables have days.
MOST_PERIODS = 1_000
# As many series as a table's programs may name.
MOST_LABELS = 64
# Likeness from which a column is taken for the catalogue's indicator, and from which it is one of its kind.
SAME, ALIKE = 0.95, 0.55
# Share of the like indicators, weighted, that have to add up in the same way.
AGREED = 0.75
MOST_LIKE = 5
Match = Callable[[str, int], Awaitable[Sequence[Scored]]]


@dataclass(frozen=True)
class Proposal:
    """A proposed meaning, and whether it says more than the table itself."""

    meaning: TableMeaning
    adds: bool


async def propose_meaning(
    table: pa.Table, units: Mapping[str, str], title: str, match: Match, indicators: Mapping[str, IndicatorSpec]
) -> Proposal:
    """Propose what the columns mean; ``match`` finds indicators of the catalogue that are called like a text."""
    table = join_row_periods(table)
    date = find_date(table)
    label = find_label(table, date)
    # Beside measures of several years the days of rows are those of something else: when a lease or a loan ends.
    if date and is_day(table.schema.field(date).type) and has_periods(table) and (named := find_label(table, "")):
        date, label = "", named
    roles = [describe_column(table, name, date, label, units.get(name, ""), title) for name in table.column_names]
    taken = {one.name.casefold() for one in roles}
    found = [await describe_measure(one, match, indicators, taken) for one in roles]
    values = [one for one in found if one.role is Role.VALUE]
    says_more = any(len(one.names) > 1 or one.aggregation is not Aggregation.UNKNOWN for one in values)
    # Only days of a type of their own are series without more.
    is_plain = date != "" and is_day(table.schema.field(date).type) and label == "" and not says_more
    # Rows that nothing tells apart would be one series, of which all but the first are lost.
    is_told_apart = bool(date or label) or table.num_rows == 1
    meaning, says_series = TableMeaning(tuple(found)), bool(values) and is_told_apart and not is_plain
    # A table of which too much could be made is of use as it is, and of none where it is refused.
    adds = says_series and await asyncio.to_thread(can_apply, table, title, meaning)
    return Proposal(meaning, adds)


def has_periods(table: pa.Table) -> bool:
    """Return whether the names of columns say a measure of several periods: "Rent 2024" beside "Rent 2025"."""
    found: dict[str, set[str]] = {}
    for field in table.schema:
        if is_number(field.type) and (period := read_column_period(field.name)) and period.rest:
            found.setdefault(period.rest, set()).add(period.words)
    return any(len(periods) > 1 for periods in found.values())


def find_date(table: pa.Table) -> str:
    """Return the column of the rows' days, or else of their years or of texts that are periods; "" without one."""
    days = [field.name for field in table.schema if is_day(field.type)]
    if days:
        return str(days[0])
    for field in table.schema:
        if is_text(field.type) and names_periods(table[field.name]):
            return str(field.name)
        if has_years_of_rows(table, field):
            return str(field.name)
    return ""


def names_periods(column: pa.ChunkedArray) -> bool:
    """Return whether the cells of a column of texts are periods: "Q1 2024", "2024-03"."""
    cells = pc.unique(column).to_pylist()
    if not cells or len(cells) > MOST_PERIODS or None in cells:
        return False
    # The first one that is none ends it: most columns of texts cost one reading.
    return all(find_row_period(cell) is not None for cell in cells)


def find_label(table: pa.Table, date: str) -> str:
    """Return the first column of texts that says whose the rows are: with the date it names each row once."""
    dates = table[date].to_pylist() if date else [None] * table.num_rows
    # With a date per row there is one thing, of which all is said.
    if date and len(set(dates)) == len(dates):
        return ""
    for field in table.schema:
        if not is_text(field.type):
            continue
        cells = table[field.name].to_pylist()
        is_filled = all(cell and cell.strip() for cell in cells)
        is_once = len(set(zip(dates, cells, strict=True))) == len(cells)
        if is_filled and is_once and 1 <= len(set(cells)) <= MOST_LABELS:
            return str(field.name)
    return ""


def describe_column(table: pa.Table, name: str, date: str, label: str, unit: str, title: str) -> ColumnMeaning:
    """Return the role of a column and what it is called, without the period and the unit of its name."""
    if name in (date, label):
        return ColumnMeaning(name, Role.DATE if name == date else Role.LABEL, (name,))
    if not is_number(table.schema.field(name).type):
        return ColumnMeaning(name, Role.IGNORED)
    # Brackets hold the unit, or else the period.
    unit = unit or read_unit(open_brackets(name))
    # The name first: whether the rows have years is read of all of them, for each column that is asked about.
    if date and (part := read_part(name)) and has_years(table, date):
        return ColumnMeaning(name, Role.VALUE, name_rest(part, title), unit or read_unit(part.rest), period=part.words)
    if date:
        return ColumnMeaning(name, Role.VALUE, list_own_names(strip_unit(name) or name), unit)
    # Without a year in its name, that of the file holds for all.
    of_title = next(filter(None, map(read_column_period, list_titles(title))), None)
    found = read_column_period(name, of_title.year if of_title else 0)
    if found is None:
        return ColumnMeaning(name, Role.IGNORED, (), unit)
    names, unit = name_rest(found, title), unit or read_unit(found.rest)
    period = "" if found.year else found.words
    return ColumnMeaning(name, Role.VALUE, names, unit, year=found.year, period=period)


def name_rest(found: ColumnPeriod, title: str) -> tuple[str, ...]:
    """Return what a column says beside its period, or else what its file says."""
    return list_own_names(strip_unit(found.rest)) if found.rest else (name_measure(title),)


def name_measure(title: str) -> str:
    """Return what is measured where no column says it: "harvest" of the file harvest_2025.csv."""
    said = list_titles(title)[0]
    found = read_column_period(said)
    return list_own_names((found.rest if found else "") or said)[0]


def list_titles(title: str) -> list[str]:
    """Return the name of a workbook's sheet, where a title has one that says something, and that of the file."""
    file, sheet = FILE_END.split(title, maxsplit=1) if FILE_END.search(title) else (title, "")
    said = "" if NUMBERED.fullmatch(sheet) else sheet.strip()
    return [*filter(None, [said]), PurePath(file).name]


def list_own_names(name: str) -> tuple[str, ...]:
    """Return a name with blanks for joints, as answers write it."""
    return (JOINTS.sub(" ", name).strip()[:NAME_CHARS] or name[:NAME_CHARS],)


async def describe_measure(
    one: ColumnMeaning, match: Match, indicators: Mapping[str, IndicatorSpec], taken: set[str]
) -> ColumnMeaning:
    """Return a column of values with the names of the indicator that it is, and how those like it add up."""
    if one.role is not Role.VALUE:
        return one
    like = [item for item in await match(one.name, MOST_LIKE) if item.score >= ALIKE]
    if not like:
        return one
    best = indicators[like[0].id] if like[0].score >= SAME else None
    # The table's own columns keep their names.
    more = [name for name in (best.name, best.name_zh, *best.synonyms) if name.casefold() not in taken] if best else []
    names = tuple(dict.fromkeys([*one.names, *(name for name in more if len(name) <= NAME_CHARS)]))[:MOST_NAMES]
    ident = best.id if best else ""
    return replace(one, names=names, indicator=ident, aggregation=choose_aggregation(like, indicators))


def choose_aggregation(like: Sequence[Scored], indicators: Mapping[str, IndicatorSpec]) -> Aggregation:
    """Return how most of the like indicators add up; UNKNOWN where they do not agree."""
    if like[0].score >= SAME:
        like = like[:1]
    votes: dict[Aggregation, float] = {}
    for item in like:
        way = read_aggregation(indicators[item.id])
        votes[way] = votes.get(way, 0.0) + item.score
    best = max(votes, key=lambda way: votes[way])
    return best if votes[best] >= AGREED * sum(votes.values()) else Aggregation.UNKNOWN


def read_aggregation(spec: IndicatorSpec) -> Aggregation:
    """Return how an indicator adds up: amounts of a period do, states do not."""
    if spec.flow or spec.aggregate == "sum":
        return Aggregation.SUM
    return Aggregation.MEAN if spec.aggregate == "mean" else Aggregation.LAST


def list_units(columns: Sequence[Any]) -> dict[str, str]:
    """Return the units of a sheet's columns by their names."""
    return {column.name: column.unit for column in columns if column.unit}
