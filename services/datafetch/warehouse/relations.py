"""Registration of the tables that lie in a database: checks of their columns, SQL that reads them, and their series."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from fathom.core.errors import CorruptData, InvalidField
from fathom.services.datafetch.catalog.files import quote
from fathom.services.datafetch.catalog.schema import TableSpec
from fathom.services.datafetch.warehouse.elsewhere import Database

PERIODS = {
    "date": "cast({0} as date)",
    "year": "cast(left(cast({0} as varchar), 4) || '-12-31' as date)",
    "yyyymmdd": "cast(substr(cast({0} as varchar), 1, 4) || '-' || substr(cast({0} as varchar), 5, 2) || '-'"
    " || substr(cast({0} as varchar), 7, 2) as date)",
    "quarter": "last_day(cast(left(cast({0} as varchar), 4) || '-'"
    " || lpad(cast(3 * cast(right(cast({0} as varchar), 1) as int) as varchar), 2, '0') || '-01' as date))",
}
LONG_COLUMNS = ("entity", "indicator", "date", "value")
SERIES_COLUMNS = ("entity", "indicator", "name", "unit", "frequency", "source", "first_date", "as_of")


def quote_relation(name: str) -> str:
    """Quote the name of a table, with its schema where it has one."""
    return ".".join(quote(part) for part in name.split("."))


def read_columns(database: Database, spec: TableSpec, relation: str) -> dict[str, str]:
    """Return the types of the columns of a relation by name; raises ``CorruptData``."""
    table = database.run(f"select * from {quote_relation(relation)} limit 0", [])
    found = {one.name: str(one.type) for one in table.schema}
    if not found:
        raise CorruptData(f"{spec.database}/{relation}", "has no column")
    return found


def require(spec: TableSpec, relation: str, found: dict[str, str], wanted: Sequence[str]) -> None:
    """Raise ``CorruptData`` with the columns that are absent."""
    absent = [name for name in wanted if name and name not in found]
    if absent:
        listed = f"{', '.join(map(repr, absent))}; it has {', '.join(list(found)[:40])}"
        raise CorruptData(f"{spec.database}/{relation}", f"has no column {listed}")


def require_numbers(spec: TableSpec, found: dict[str, str], columns: Sequence[str]) -> None:
    """Raise ``CorruptData`` for a column that is to hold numbers and does not."""
    for column in columns:
        if found[column] not in ("double", "int64"):
            where = f"{spec.database}/{spec.relation}"
            raise CorruptData(where, f"column {column!r} is no column of numbers ({found[column]})")


def compile_source(spec: TableSpec, database: Database, texts: Sequence[str]) -> str:
    """Return SQL that reads a table with uniform keys, as the copies of files have them.

    ``texts`` are the indicators whose values are words. Raises ``CorruptData``, and ``InvalidField`` for what is
    supported for files alone.
    """
    if spec.codes or (spec.published is not None and spec.published.path):
        raise InvalidField(f"semantic.{spec.id}", "codes and files of publication dates are for tables in files")
    found = read_columns(database, spec, spec.relation)
    published = spec.published.column if spec.published else ""
    relation = quote_relation(spec.relation)
    if spec.layout == "long":
        require(spec, spec.relation, found, [*LONG_COLUMNS, published])
        require_numbers(spec, found, ["value"])
        public = f", cast({quote(published)} as date) as published" if published else ""
        return f"(select entity, indicator, cast(date as date) as date, value{public} from {relation})"
    require(spec, spec.relation, found, [spec.entity, spec.period, published, *spec.columns])
    require_numbers(spec, found, [column for column, ident in spec.columns.items() if ident not in texts])
    period = PERIODS[spec.period_kind].format(quote(spec.period))
    public = f"cast({quote(published)} as date)" if published else "cast(null as date)"
    values = ", ".join(f"{quote(column)} as {quote(ident)}" for column, ident in spec.columns.items())
    # A database has no order of rows, so of two versions of one day none is the later one.
    return (
        f"(select cast({quote(spec.entity)} as varchar) as entity, {period} as date, {public} as published, 0 as n,"
        f" {values} from {relation})"
    )


def list_long_series(spec: TableSpec, database: Database, source: str) -> list[tuple[Any, ...]]:
    """Return entity, indicator, name, unit, frequency, source, first and last date and basis of each series."""
    if spec.series:
        found = read_columns(database, spec, spec.series)
        require(spec, spec.series, found, SERIES_COLUMNS)
        basis = "basis" if "basis" in found else "'' as basis"
        return list_rows(database, f"select {', '.join(SERIES_COLUMNS)}, {basis} from {quote_relation(spec.series)}")
    return list_rows(
        database, f"select entity, indicator, min(date) as a, max(date) as b from {source} group by entity, indicator"
    )


def list_wide_entities(database: Database, source: str) -> tuple[list[str], date, date, bool]:
    """Return the entities of a wide table, its first and last date, and whether a date has several versions."""
    spans = "min(date) as first, max(date) as last, count(*) > count(distinct date) as versions"
    rows = list_rows(database, f"select entity, {spans} from {source} group by entity")
    if not rows:
        raise CorruptData(source, "has no row")
    entities, firsts, lasts, versions = zip(*rows, strict=True)
    return list(entities), min(firsts), max(lasts), any(versions)


def list_rows(database: Database, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement."""
    table = database.run(statement, [])
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
