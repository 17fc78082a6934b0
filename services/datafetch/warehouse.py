"""The tables in DuckDB: users' files brought to one schema, and an index of the series in them."""

from __future__ import annotations

import asyncio
import calendar
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from fathom.errors import CorruptData, DeadlineExceeded, InvalidField
from services.datafetch.freesql import execute
from services.datafetch.semantic.codes import CN_SQL
from services.datafetch.semantic.files import create, duckdb, inside, literal, quoted, require
from services.datafetch.semantic.layer import Failure, Layer
from services.datafetch.semantic.schema import Frequency, IndicatorSpec, TableSpec

LONG_COLUMNS = ["entity", "indicator", "date", "value"]
REGULAR = (Frequency.MONTHLY, Frequency.QUARTERLY, Frequency.ANNUAL)
ANY_DATE = """coalesce(try_cast({0} as date),
 try_strptime({0}::varchar, ['%Y/%m/%d', '%Y%m%d', '%Y.%m.%d', '%Y年%m月%d日', '%Y-%m-%d %H:%M:%S'])::date)"""
PERIODS = {
    "date": ANY_DATE,
    "yyyymmdd": "try_strptime({0}::varchar, '%Y%m%d')::date",
    "year": "try_cast(left({0}::varchar, 4) || '-12-31' as date)",
    "quarter": "last_day(try_cast(left({0}::varchar, 4) || '-'"
    " || lpad((3 * try_cast(right({0}::varchar, 1) as int))::varchar, 2, '0') || '-01' as date))",
}


@dataclass(frozen=True)
class Facts:
    """Metadata of a stored series; ``regular`` if its dates are the last days of its periods."""

    unit: str
    frequency: Frequency
    source: str
    vendor: str
    first: date
    last: date
    regular: bool


@dataclass(frozen=True)
class Stored:
    """An indicator in a table: the relation of its rows, and the facts of each entity that has it."""

    indicator: IndicatorSpec
    table: TableSpec
    relation: str
    vintages: bool
    members: Mapping[str, Facts]


HINTED = 120


class Warehouse:
    """All tables of a layer, read-only; every call uses its own cursor."""

    def __init__(self, layer: Layer, threads: int = 2) -> None:
        self._connection = duckdb().connect(":memory:")
        self._connection.execute(f"set threads = {int(threads)}")
        self.stored: dict[str, list[Stored]] = defaultdict(list)
        self._layer = layer
        allowed = []
        for spec, root in layer.tables:
            try:
                path = inside(root, spec.path)
                allowed.append(str(path))
                (self._long if spec.layout == "long" else self._wide)(spec, path, root)
            except (CorruptData, InvalidField) as error:
                layer.failures.append(Failure(spec.id, error.message))
        self._connection.execute(f"set allowed_paths = [{', '.join(map(literal, allowed))}]")
        self._connection.execute("set enable_external_access = false")
        self._connection.execute("set lock_configuration = true")

    @property
    def connection(self) -> Any:
        """Return the database, which has no access to anything outside its tables."""
        return self._connection

    def schema(self) -> dict[str, list[tuple[str, str]]]:
        """Return the columns, with their types, of every relation that holds values."""
        relations = {one.relation for found in self.stored.values() for one in found}
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        statement = "select table_name, column_name, data_type from duckdb_columns() order by 1, column_index"
        for table, column, kind in self._rows(statement):
            if table in relations:
                found[table].append((column, kind))
        return dict(found)

    def hints(self) -> str:
        """Return a comment with the indicator codes of the tables, for a model that writes SQL over them."""
        some = [f"{ident} ({self._layer.indicators[ident].name})" for ident in list(self.stored)[:HINTED]]
        return f"-- indicator codes: {', '.join(some)}" if some else ""

    async def fetch_rows(self, statement: str, rows: int, seconds: float) -> Any:
        """Return at most ``rows`` rows of a checked statement.

        Raises ``InvalidField("sql")`` and ``DeadlineExceeded``.
        """
        return await asyncio.to_thread(execute, self._connection, statement, rows, seconds)

    def close(self) -> None:
        self._connection.close()

    def of(self, entity: str, indicator: str) -> tuple[Stored, Facts] | None:
        """Return the table and facts of a series, or None; of several tables the first one declared."""
        for stored in self.stored.get(indicator, ()):
            facts = stored.members.get(entity)
            if facts is not None:
                return stored, facts
        return None

    def entities(self, indicator: str) -> list[str]:
        """Return all entities that have an indicator."""
        return list(dict.fromkeys(entity for stored in self.stored.get(indicator, ()) for entity in stored.members))

    async def fetch(self, statement: str, parameters: Sequence[Any], seconds: float) -> Any:
        """Return the Arrow table of a statement; raises ``DeadlineExceeded`` after ``seconds``."""
        return await asyncio.to_thread(self._fetch, statement, parameters, seconds)

    def _fetch(self, statement: str, parameters: Sequence[Any], seconds: float) -> Any:
        cursor = self._connection.cursor()
        timer = threading.Timer(seconds, cursor.interrupt)
        timer.start()
        try:
            return cursor.sql(statement, params=list(parameters)).to_arrow_table()
        except duckdb().InterruptException as error:
            raise DeadlineExceeded(f"the query ran longer than {seconds:g} s") from error
        finally:
            timer.cancel()
            cursor.close()

    def _long(self, spec: TableSpec, path: Path, root: Path) -> None:
        """Register a long table and its series; a parquet file of 64 MiB or more is read in place."""
        columns = create(self._connection, f"t_{spec.id}", path, spec.sheet, view=True)
        require(columns, [*LONG_COLUMNS, spec.published.column if spec.published else ""], path)
        relation = f"t_{spec.id}"
        if path.stat().st_size < 64 << 20:
            # Small enough for memory, where a lookup takes a third of the time.
            self._connection.execute(f"create table m_{spec.id} as select * from {quoted(relation)}")
            relation = f"m_{spec.id}"
        members: dict[str, dict[str, Facts]] = defaultdict(dict)
        names: dict[str, tuple[str, str, Frequency]] = {}
        for entity, indicator, name, unit, frequency, source, first, last in self._series(spec, relation, root):
            density = Frequency(frequency)
            regular = density in REGULAR and is_end(first, density) and is_end(last, density)
            facts = Facts(unit, density, source, spec.vendor or source, first, last, regular)
            members[indicator][entity] = facts
            names[indicator] = (name or indicator, unit, density)
        for ident, (name, unit, density) in names.items():
            if ident not in self._layer.indicators:
                kinds = {self._layer.entities[e].kind for e in members[ident] if e in self._layer.entities}
                self._layer.indicators[ident] = IndicatorSpec(
                    id=ident, name=name, unit=unit, frequency=density, kinds=sorted(kinds) or ["other"], lag_days=None
                )
            elif not self._layer.indicators[ident].unit and unit:
                self._layer.indicators[ident] = self._layer.indicators[ident].model_copy(update={"unit": unit})
        for ident, found in members.items():
            known = self._layer.indicators[ident]
            self.stored[ident].append(Stored(known, spec, relation, spec.published is not None, found))

    def _series(self, spec: TableSpec, relation: str, root: Path) -> list[tuple[Any, ...]]:
        """Return entity, indicator, name, unit, frequency, source, first and last date of each series."""
        if spec.series:
            path = inside(root, spec.series)
            columns = create(self._connection, f"s_{spec.id}", path)
            wanted = ["entity", "indicator", "name", "unit", "frequency", "source", "first_date", "as_of"]
            require(columns, wanted, path)
            return self._rows(f"select {', '.join(wanted)} from {quoted(f's_{spec.id}')}")
        rows = self._rows(
            f"select entity, indicator, min(date)::date, max(date)::date from {quoted(relation)} group by 1, 2"
        )
        known, source = self._layer.indicators, source_of(spec)
        facts = {i: (known[i].name, known[i].unit) if i in known else ("", "") for _, i, *_ in rows}
        return [(e, i, *facts[i], spec.frequency, source, *span) for e, i, *span in rows]

    def _wide(self, spec: TableSpec, path: Path, root: Path) -> None:
        """Copy a wide table with uniform keys: entity, date, published, n (row of the file), and its indicators."""
        columns = create(self._connection, f"r_{spec.id}", path, spec.sheet)
        own = spec.published.column if spec.published and not spec.published.path else ""
        require(columns, [spec.entity, spec.period, own, *spec.columns], path)
        unknown = [ident for ident in spec.columns.values() if ident not in self._layer.indicators]
        if unknown:
            raise InvalidField(f"semantic.{spec.id}.columns", f"no indicator {', '.join(map(repr, unknown))}")
        relation = f"t_{spec.id}"
        self._check(spec, path)
        self._connection.execute(wide_statement(spec, relation, self._published(spec, root)))
        self._connection.execute(f"drop table {quoted(f'r_{spec.id}')}")
        rows = self._rows(
            f"select entity, min(date), max(date), count(*) > count(distinct date) from {quoted(relation)} group by 1"
        )
        if not rows:
            raise CorruptData(str(path), "has no row")
        vintages = any(row[3] for row in rows)
        span = min(row[1] for row in rows), max(row[2] for row in rows)
        for ident in dict.fromkeys(spec.columns.values()):
            known = self._layer.indicators[ident]
            facts = Facts(known.unit, spec.frequency, source_of(spec), spec.vendor, *span, spec.frequency in REGULAR)
            found = dict.fromkeys((row[0] for row in rows), facts)
            self.stored[ident].append(Stored(known, spec, relation, vintages, found))

    def _check(self, spec: TableSpec, path: Path) -> None:
        """Raise ``CorruptData`` with the first row whose period or number cannot be parsed, rather than drop it."""
        period = PERIODS[spec.period_kind].format(quoted(spec.period))
        tests = {spec.period: f"({period}) is null"}
        for column, ident in spec.columns.items():
            if not self._layer.indicators[ident].text:
                tests[column] = f"{quoted(column)} is not null and try_cast({quoted(column)} as double) is null"
        counted = ", ".join(f"count(*) filter (where {test})" for test in tests.values())
        counts = self._rows(f"select {counted} from {quoted(f'r_{spec.id}')}")[0]
        for (column, test), count in zip(tests.items(), counts, strict=True):
            if count:
                bad = self._rows(
                    f"select n, v from (select row_number() over () as n, {quoted(column)}::varchar as v, {test} as bad"
                    f" from {quoted(f'r_{spec.id}')}) where bad order by n limit 1"
                )[0]
                raise CorruptData(str(path), f"column {column!r} holds {bad[1]!r} in row {bad[0]} ({count} such rows)")

    def _published(self, spec: TableSpec, root: Path) -> str:
        """Create ``p_<table>`` from a file of publication dates; return its name, or "" without such a file."""
        note = spec.published
        if note is None or not note.path:
            return ""
        path, name = inside(root, note.path), f"p_{spec.id}"
        require(create(self._connection, f"{name}_raw", path), [note.entity, note.period, note.column], path)
        entity, period = entity_sql(note.entity, spec.codes), PERIODS[spec.period_kind].format(quoted(note.period))
        self._connection.execute(
            f"create table {quoted(name)} as select {entity} as entity, {period} as date,"
            f" min({ANY_DATE.format(quoted(note.column))}) as published from {quoted(f'{name}_raw')} group by 1, 2"
        )
        return name

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._connection.cursor().execute(statement).fetchall()
        return rows


def wide_statement(spec: TableSpec, relation: str, published: str) -> str:
    """Return SQL that copies a raw table with uniform keys."""
    values = [f"r.{quoted(column)} as {quoted(ident)}" for column, ident in spec.columns.items()]
    period = PERIODS[spec.period_kind].format(quoted(spec.period))
    own = spec.published is not None and not spec.published.path
    day = ANY_DATE.format(quoted(spec.published.column)) if own and spec.published else "null::date"
    inner = (
        f"select *, {entity_sql(spec.entity, spec.codes)} as entity__, ({period}) as date__, ({day}) as published__,"
        f" row_number() over () as n__ from {quoted(f'r_{spec.id}')}"
    )
    join = f" left join {quoted(published)} p on p.entity = r.entity__ and p.date = r.date__" if published else ""
    public = "coalesce(p.published, r.published__)" if published else "r.published__"
    return (
        f"create table {quoted(relation)} as select r.entity__ as entity, r.date__ as date,"
        f" {public} as published, r.n__ as n, {', '.join(values)} from ({inner}) r{join} order by entity, date"
    )


def entity_sql(column: str, codes: str) -> str:
    """Return SQL for the canonical code of a row's entity."""
    text = f"{quoted(column)}::varchar"
    return CN_SQL.format(f"({text})") if codes == "CN" else text


def source_of(spec: TableSpec) -> str:
    return spec.source or spec.id


def is_end(day: date, frequency: Frequency) -> bool:
    """Return whether a day is the last of a month, quarter or year."""
    last = calendar.monthrange(day.year, day.month)[1] == day.day
    step = {Frequency.MONTHLY: 1, Frequency.QUARTERLY: 3, Frequency.ANNUAL: 12}[frequency]
    return last and day.month % step == 0
