"""DuckDB over the bundled parquet files; every call has a cursor and a thread of its own."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fathom import frames
from fathom.errors import DeadlineExceeded, InvalidField, MissingExtra
from fathom.ids import sha256
from services.datafetch.model import Column, Frequency, Query, Series, Sheet

SELECT = re.compile(r"\s*(select|with)\b", re.IGNORECASE)
BUCKETS = {
    Frequency.WEEKLY: "week",
    Frequency.MONTHLY: "month",
    Frequency.QUARTERLY: "quarter",
    Frequency.ANNUAL: "year",
}


def duckdb() -> Any:
    """The duckdb module; raises ``MissingExtra``."""
    try:
        import duckdb as module
    except ImportError as error:
        raise MissingExtra("duckdb", "data") from error
    return module


class Tables:
    """The bundle in memory, read-only."""

    def __init__(self, folder: Path) -> None:
        self._connection = duckdb().connect(":memory:")
        for name in ("observations", "series"):
            path = str(folder / f"{name}.parquet").replace("'", "''")
            self._connection.execute(f"create table {name} as select * from read_parquet('{path}')")
        self._connection.execute("set enable_external_access = false")
        self._connection.execute("set lock_configuration = true")

    def close(self) -> None:
        self._connection.close()

    async def series(self) -> list[Series]:
        """All stored series."""
        rows = await asyncio.to_thread(
            lambda: (
                self._connection.cursor()
                .execute("select entity, indicator, name, unit, frequency, source, first_date, as_of from series")
                .fetchall()
            )
        )
        return [Series(*row) for row in rows]

    async def sheet(self, group: Sequence[Series], query: Query, title: str) -> Sheet:
        """A wide sheet: ``date``, then one column per series, dates ascending, missing values null."""
        return await asyncio.to_thread(self._sheet, group, query, title)

    def _sheet(self, group: Sequence[Series], query: Query, title: str) -> Sheet:
        statement, parameters = compile_query(group, query)
        table = as_table(self._connection.cursor().sql(statement, params=parameters))
        facts = {f"{series.entity}.{series.indicator}": series for series in group}
        columns = tuple(described(table, name, facts.get(name)) for name in table.column_names)
        return make_sheet(table, title, columns)

    async def sql(self, statement: str, sheets: Mapping[str, bytes], rows: int, seconds: float) -> Sheet:
        """One SELECT over Arrow streams by name, in a database of its own without any access to the outside.

        Raises ``InvalidField("sql")`` for anything else or a failing statement, and ``DeadlineExceeded``.
        """
        if not SELECT.match(statement) or ";" in statement.rstrip().rstrip(";"):
            raise InvalidField("sql", "must be one SELECT")
        return await asyncio.to_thread(run_sql, statement.rstrip().rstrip(";"), sheets, rows, seconds)


def compile_query(group: Sequence[Series], query: Query) -> tuple[str, list[Any]]:
    """The statement and its parameters; identifiers are those of stored series."""
    columns = []
    parameters: list[Any] = []
    for series in group:
        name = f"{series.entity}.{series.indicator}".replace('"', "")
        columns.append(f'max(value) filter (where entity = ? and indicator = ?) as "{name}"')
        parameters += [series.entity, series.indicator]
    conditions = ["(entity, indicator) in (" + ", ".join("(?, ?)" for _ in group) + ")"]
    for series in group:
        parameters += [series.entity, series.indicator]
    for operator, bound in ((">=", query.start), ("<=", query.end)):
        if bound is not None:
            conditions.append(f"date {operator} ?")
            parameters.append(bound)
    rows = f"select entity, indicator, date, value from observations where {' and '.join(conditions)}"
    bucket = BUCKETS.get(query.frequency)
    if bucket is not None:
        # The last value of each period, under the last day that has one.
        rows = (
            f"select entity, indicator, max(max(date)) over (partition by date_trunc('{bucket}', date)) as date,"
            f" arg_max(value, date) as value from ({rows}) group by entity, indicator, date_trunc('{bucket}', date)"
        )
    limit = f" limit {int(query.limit)}" if query.limit > 0 else ""
    return (
        f"select date::timestamp as date, {', '.join(columns)} from ({rows}) group by date order by date{limit}",
        parameters,
    )


def as_table(result: Any) -> Any:
    """An Arrow table of a DuckDB result."""
    frames.arrow()
    return result.to_arrow_table()


def described(table: Any, name: str, series: Series | None) -> Column:
    """A column with its provenance."""
    kind, nulls = str(table.schema.field(name).type), table.column(name).null_count
    if series is None:
        return Column(name, kind, nulls=nulls)
    return Column(
        name, kind, series.unit, series.indicator, series.entity, series.source, series.last.isoformat(), nulls
    )


def make_sheet(table: Any, title: str, columns: Sequence[Column]) -> Sheet:
    """A sheet whose id is the hash of its content."""
    arrow = frames.write_table(table.replace_schema_metadata(None))
    ident = f"t{sha256(arrow)[:24]}"
    return Sheet(ident, title, tuple(columns), table.num_rows, frames.digest(frames.from_arrow(arrow), ident), arrow)


def run_sql(statement: str, sheets: Mapping[str, bytes], rows: int, seconds: float) -> Sheet:
    """See ``Tables.sql``."""
    module = duckdb()
    with module.connect(":memory:") as connection:
        for name, arrow in sheets.items():
            connection.register(name, frames.read_table(arrow, name))
        connection.execute("set enable_external_access = false")
        connection.execute("set lock_configuration = true")
        timer = threading.Timer(seconds, connection.interrupt)
        timer.start()
        try:
            table = as_table(connection.sql(f"select * from ({statement}) limit {int(rows)}"))
        except module.InterruptException as error:
            raise DeadlineExceeded(f"the statement ran longer than {seconds:g} s") from error
        except module.Error as error:
            raise InvalidField("sql", str(error).splitlines()[0]) from error
        finally:
            timer.cancel()
    return make_sheet(table, statement[:120], [described(table, name, None) for name in table.column_names])
