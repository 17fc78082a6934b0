"""The tables in DuckDB: users' files brought to one schema, and an index of the series in them."""

from __future__ import annotations

import asyncio
import calendar
import shutil
import tempfile
import threading
import weakref
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fathom.core.errors import CorruptData, DeadlineExceeded, DependencyFailed, InvalidField
from fathom.services.datafetch.catalog.codes import CN_SQL
from fathom.services.datafetch.catalog.files import (
    LARGE_BYTES,
    convert_csv,
    create_table,
    import_duckdb,
    is_large_csv,
    quote,
    quote_literal,
    require_columns,
    resolve_inside,
)
from fathom.services.datafetch.catalog.layer import Failure, Layer
from fathom.services.datafetch.catalog.schema import Frequency, IndicatorSpec, TableSpec
from fathom.services.datafetch.warehouse import relations
from fathom.services.datafetch.warehouse.elsewhere import Database
from fathom.services.datafetch.warehouse.statements import run_statement

# Frequencies whose periods have one value, dated with their last day.
REGULAR = (Frequency.MONTHLY, Frequency.QUARTERLY, Frequency.ANNUAL)
# try_ forms give null instead of an error: ``_check`` names the first row that has no date.
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
class SeriesFacts:
    """Metadata of a stored series.

    ``regular`` if its dates are the last days of its periods; ``basis`` says what a value stands for; ``title`` is its
    source's name of it.
    """

    unit: str
    frequency: Frequency
    source: str
    vendor: str
    first: date
    last: date
    regular: bool
    basis: str = ""
    title: str = ""


@dataclass(frozen=True)
class StoredIndicator:
    """An indicator in a table: the relation of its rows, and the facts of each entity that has it."""

    indicator: IndicatorSpec
    table: TableSpec
    relation: str
    vintages: bool
    members: Mapping[str, SeriesFacts]

    @property
    def source(self) -> str:
        """Return SQL for the relation: its name, or for a table of another database what reads it."""
        return self.relation if self.table.database else quote(self.relation)


@dataclass(frozen=True)
class Placement:
    """Place where a statement runs: in the ``database``, or here ("") with ``rows`` that were fetched from others."""

    database: str = ""
    rows: Mapping[str, Any] = field(default_factory=dict)


HERE = Placement()
# The codes go into a prompt; more would crowd out the question.
HINTED = 120


class Warehouse:
    """All tables of a layer, read-only; every call uses its own cursor.

    ``databases`` are those that have tables of their own, by the names that tables give for them.
    """

    def __init__(
        self, layer: Layer, threads: int = 2, databases: Mapping[str, Database] = MappingProxyType({})
    ) -> None:
        self._databases = databases
        # For files too large for memory; empty otherwise. It goes with the warehouse, closed or not.
        self._scratch = Path(tempfile.mkdtemp(prefix="fathom-tables-"))
        self._remove_scratch = weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self._connection = import_duckdb().connect(":memory:")
        self._connection.execute(f"set threads = {int(threads)}")
        self.stored: dict[str, list[StoredIndicator]] = defaultdict(list)
        self._layer = layer
        allowed = []
        for spec, root in layer.tables:
            try:
                if spec.database:
                    self._register_elsewhere(spec)
                    continue
                path = resolve_inside(root, spec.path)
                allowed += [str(path), *(str(self._name_scratch(spec, kind)) for kind in ("raw", "copy"))]
                (self._register_long if spec.layout == "long" else self._copy_wide)(spec, path, root)
            # One broken table must not take the others away; its reason is shown by ListSources.
            except (CorruptData, InvalidField, DependencyFailed, DeadlineExceeded) as error:
                layer.failures.append(Failure(spec.id, error.message))
        # Large tables are read in place, so their files stay readable; everything else is closed for every statement,
        # also for those that a model writes.
        self._connection.execute(f"set allowed_paths = [{', '.join(map(quote_literal, allowed))}]")
        self._connection.execute("set enable_external_access = false")
        # Last, since it forbids the settings above.
        self._connection.execute("set lock_configuration = true")

    @property
    def databases(self) -> Mapping[str, Database]:
        """Return the databases that have tables of their own, by name."""
        return self._databases

    @property
    def connection(self) -> Any:
        """Return the database, which has no access to anything outside its tables."""
        return self._connection

    def list_columns(self) -> dict[str, list[tuple[str, str]]]:
        """Return the columns, with their types, of every relation that holds values."""
        relations = {one.relation for found in self.stored.values() for one in found}
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        statement = "select table_name, column_name, data_type from duckdb_columns() order by 1, column_index"
        for table, column, kind in self._fetch_all(statement):
            # Raw and helper tables are not shown to a model.
            if table in relations:
                found[table].append((column, kind))
        return dict(found)

    def describe_indicators(self) -> str:
        """Return a comment with the indicator codes of the tables, for a model that writes SQL over them."""
        some = [f"{ident} ({self._layer.indicators[ident].name})" for ident in list(self.stored)[:HINTED]]
        return f"-- indicator codes: {', '.join(some)}" if some else ""

    async def fetch_rows(self, statement: str, rows: int, seconds: float) -> Any:
        """Return at most ``rows`` rows of a checked statement.

        Raises ``InvalidField("sql")`` and ``DeadlineExceeded``.
        """
        return await asyncio.to_thread(run_statement, self._connection, statement, rows, seconds)

    def close(self) -> None:
        self._connection.close()
        self._remove_scratch()
        for database in self._databases.values():
            database.close()

    def find_series(self, entity: str, indicator: str) -> tuple[StoredIndicator, SeriesFacts] | None:
        """Return the table and facts of a series, or None; of several tables the first one declared."""
        for stored in self.stored.get(indicator, ()):
            facts = stored.members.get(entity)
            if facts is not None:
                return stored, facts
        return None

    def list_entities(self, indicator: str) -> list[str]:
        """Return all entities that have an indicator."""
        return list(dict.fromkeys(entity for stored in self.stored.get(indicator, ()) for entity in stored.members))

    async def fetch(self, statement: str, parameters: Sequence[Any], seconds: float, plan: Placement = HERE) -> Any:
        """Return the Arrow table of a statement; raises ``DeadlineExceeded`` after ``seconds``.

        ``plan`` says in which database it runs, or which rows of others it reads here.
        """
        if plan.database:
            return await asyncio.to_thread(self._databases[plan.database].run, statement, parameters, seconds)
        return await asyncio.to_thread(self._fetch, statement, parameters, seconds, plan.rows)

    def _fetch(self, statement: str, parameters: Sequence[Any], seconds: float, rows: Mapping[str, Any]) -> Any:
        cursor = self._connection.cursor()
        for name, table in rows.items():
            cursor.register(name, table)
        # DuckDB has no time limit of its own.
        timer = threading.Timer(seconds, cursor.interrupt)
        timer.start()
        try:
            return cursor.sql(statement, params=list(parameters)).to_arrow_table()
        except import_duckdb().InterruptException as error:
            raise DeadlineExceeded(f"the query ran longer than {seconds:g} s") from error
        finally:
            timer.cancel()
            cursor.close()

    def _name_scratch(self, spec: TableSpec, kind: str) -> Path:
        return self._scratch / f"{spec.id}.{kind}.parquet"

    def _convert_large(self, path: Path, spec: TableSpec) -> Path:
        """Return the file to read: a large CSV as Parquet, any other one as it is."""
        if not is_large_csv(path):
            return path
        target = self._name_scratch(spec, "raw")
        convert_csv(path, target)
        return target

    def _register_elsewhere(self, spec: TableSpec) -> None:
        """Register a table of a database; nothing of it is copied."""
        database = self._databases.get(spec.database)
        if database is None:
            where = f"semantic.{spec.id}.database"
            raise InvalidField(where, f"{spec.database!r} is not in datafetch.databases")
        unknown = [ident for ident in spec.columns.values() if ident not in self._layer.indicators]
        if unknown:
            raise InvalidField(f"semantic.{spec.id}.columns", f"no indicator {', '.join(map(repr, unknown))}")
        texts = [ident for ident in spec.columns.values() if self._layer.indicators[ident].text]
        source = relations.compile_source(spec, database, texts)
        if spec.layout == "wide":
            self._add_wide(spec, source, *relations.list_wide_entities(database, source))
            return
        rows = relations.list_long_series(spec, database, source)
        self._add_long(spec, source, rows if spec.series else self._complete_series(spec, rows))

    def _register_long(self, spec: TableSpec, path: Path, root: Path) -> None:
        """Register a long table and its series; a parquet file of 64 MiB or more is read in place."""
        read = self._convert_large(path, spec)
        columns = create_table(self._connection, f"t_{spec.id}", read, spec.sheet, view=True)
        require_columns(columns, [*relations.LONG_COLUMNS, spec.published.column if spec.published else ""], path)
        relation = f"t_{spec.id}"
        if path.stat().st_size < LARGE_BYTES and read == path:
            # Small enough for memory, where a lookup takes a third of the time.
            self._connection.execute(f"create table m_{spec.id} as select * from {quote(relation)}")
            relation = f"m_{spec.id}"
        self._add_long(spec, relation, self._list_series(spec, relation, root))

    def _add_long(self, spec: TableSpec, relation: str, listed: Sequence[tuple[Any, ...]]) -> None:
        """Add the series of a long table, with their indicators."""
        members: dict[str, dict[str, SeriesFacts]] = defaultdict(dict)
        names: dict[str, tuple[str, str, Frequency]] = {}
        for series in listed:
            entity, indicator, name, unit, frequency, source, first, last, basis = series
            density = Frequency(frequency)
            # The first and the last date stand for all: a series is dated by one rule.
            regular = density in REGULAR and is_end(first, density) and is_end(last, density)
            facts = SeriesFacts(
                unit, density, source, spec.vendor or source, first, last, regular, basis or "", name or ""
            )
            members[indicator][entity] = facts
            names[indicator] = (name or indicator, unit, density)
        for ident, (name, unit, density) in names.items():
            if ident not in self._layer.indicators:
                # An indicator that no file declares applies to the kinds of those that have it.
                kinds = {self._layer.entities[e].kind for e in members[ident] if e in self._layer.entities}
                self._layer.indicators[ident] = IndicatorSpec(
                    id=ident, name=name, unit=unit, frequency=density, kinds=sorted(kinds) or ["other"], lag_days=None
                )
            # A declared unit wins over that of the source.
            elif not self._layer.indicators[ident].unit and unit:
                self._layer.indicators[ident] = self._layer.indicators[ident].model_copy(update={"unit": unit})
        for ident, found in members.items():
            known = self._layer.indicators[ident]
            self.stored[ident].append(StoredIndicator(known, spec, relation, spec.published is not None, found))

    def _list_series(self, spec: TableSpec, relation: str, root: Path) -> list[tuple[Any, ...]]:
        """Return entity, indicator, name, unit, frequency, source, first and last date and basis of each series."""
        if spec.series:
            path = resolve_inside(root, spec.series)
            columns = create_table(self._connection, f"s_{spec.id}", path)
            wanted = [*relations.SERIES_COLUMNS]
            require_columns(columns, wanted, path)
            # A file of series need not say what its values stand for.
            basis = "basis" if "basis" in columns else "''"
            return self._fetch_all(f"select {', '.join(wanted)}, {basis} from {quote(f's_{spec.id}')}")
        rows = self._fetch_all(
            f"select entity, indicator, min(date)::date, max(date)::date from {quote(relation)} group by 1, 2"
        )
        return self._complete_series(spec, rows)

    def _complete_series(self, spec: TableSpec, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the facts of series of which entity, indicator, first and last date are known."""
        known, source = self._layer.indicators, get_source(spec)
        facts = {i: (known[i].name, known[i].unit, known[i].basis) if i in known else ("", "", "") for _, i, *_ in rows}
        return [(e, i, *facts[i][:2], spec.frequency, source, *span, facts[i][2]) for e, i, *span in rows]

    def _copy_wide(self, spec: TableSpec, path: Path, root: Path) -> None:
        """Copy a wide table with uniform keys: entity, date, published, n (row of the file), and its indicators."""
        read = self._convert_large(path, spec)
        columns = create_table(self._connection, f"r_{spec.id}", read, spec.sheet, view=read != path)
        own = spec.published.column if spec.published and not spec.published.path else ""
        require_columns(columns, [spec.entity, spec.period, own, *spec.columns], path)
        unknown = [ident for ident in spec.columns.values() if ident not in self._layer.indicators]
        if unknown:
            raise InvalidField(f"semantic.{spec.id}.columns", f"no indicator {', '.join(map(repr, unknown))}")
        relation = f"t_{spec.id}"
        self._check(spec, path)
        chosen = compile_wide_copy(spec, self._load_publication_dates(spec, root))
        if read != path:
            target = quote_literal(str(self._name_scratch(spec, "copy")))
            # Not sorted, which would need the whole of it; the file's own order lets rows be skipped where it is by
            # entity or day.
            self._connection.execute(f"copy ({chosen}) to {target} (format parquet)")
            self._connection.execute(f"create view {quote(relation)} as select * from read_parquet({target})")
        else:
            self._connection.execute(f"create table {quote(relation)} as {chosen} order by entity, date")
            # The raw copy would double the memory.
            self._connection.execute(f"drop table {quote(f'r_{spec.id}')}")
        rows = self._fetch_all(
            f"select entity, min(date), max(date), count(*) > count(distinct date) from {quote(relation)} group by 1"
        )
        if not rows:
            raise CorruptData(str(path), "has no row")
        # Several rows for one entity and date are versions of it.
        vintages = any(row[3] for row in rows)
        self._add_wide(
            spec, relation, [row[0] for row in rows], min(row[1] for row in rows), max(row[2] for row in rows), vintages
        )

    def _add_wide(
        self, spec: TableSpec, relation: str, entities: Sequence[str], first: date, last: date, vintages: bool
    ) -> None:
        """Add the indicators of a wide table."""
        span = first, last
        for ident in dict.fromkeys(spec.columns.values()):
            known = self._layer.indicators[ident]
            facts = SeriesFacts(
                known.unit, spec.frequency, get_source(spec), spec.vendor, *span, spec.frequency in REGULAR, known.basis
            )
            found = dict.fromkeys(entities, facts)
            self.stored[ident].append(StoredIndicator(known, spec, relation, vintages, found))

    def _check(self, spec: TableSpec, path: Path) -> None:
        """Raise ``CorruptData`` with the first row whose period or number cannot be parsed, rather than drop it."""
        period = PERIODS[spec.period_kind].format(quote(spec.period))
        tests = {spec.period: f"({period}) is null"}
        for column, ident in spec.columns.items():
            if not self._layer.indicators[ident].text:
                tests[column] = f"{quote(column)} is not null and try_cast({quote(column)} as double) is null"
        counted = ", ".join(f"count(*) filter (where {test})" for test in tests.values())
        counts = self._fetch_all(f"select {counted} from {quote(f'r_{spec.id}')}")[0]
        for (column, test), count in zip(tests.items(), counts, strict=True):
            if count:
                bad = self._fetch_all(
                    f"select n, v from (select row_number() over () as n, {quote(column)}::varchar as v, {test} as bad"
                    f" from {quote(f'r_{spec.id}')}) where bad order by n limit 1"
                )[0]
                raise CorruptData(str(path), f"column {column!r} holds {bad[1]!r} in row {bad[0]} ({count} such rows)")

    def _load_publication_dates(self, spec: TableSpec, root: Path) -> str:
        """Create ``p_<table>`` from a file of publication dates; return its name, or "" without such a file."""
        note = spec.published
        if note is None or not note.path:
            return ""
        path, name = resolve_inside(root, note.path), f"p_{spec.id}"
        require_columns(
            create_table(self._connection, f"{name}_raw", path), [note.entity, note.period, note.column], path
        )
        entity, period = (
            compile_entity(note.entity, spec.codes),
            PERIODS[spec.period_kind].format(quote(note.period)),
        )
        self._connection.execute(
            f"create table {quote(name)} as select {entity} as entity, {period} as date,"
            f" min({ANY_DATE.format(quote(note.column))}) as published from {quote(f'{name}_raw')} group by 1, 2"
        )
        return name

    def _fetch_all(self, statement: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._connection.cursor().execute(statement).fetchall()
        return rows


def compile_wide_copy(spec: TableSpec, published: str) -> str:
    """Return SQL for the rows of a raw table with uniform keys."""
    values = [f"r.{quote(column)} as {quote(ident)}" for column, ident in spec.columns.items()]
    period = PERIODS[spec.period_kind].format(quote(spec.period))
    own = spec.published is not None and not spec.published.path
    day = ANY_DATE.format(quote(spec.published.column)) if own and spec.published else "null::date"
    # Keys end in two underscores, so that they cannot meet a column of the file.
    inner = (
        f"select *, {compile_entity(spec.entity, spec.codes)} as entity__, ({period}) as date__,"
        f" ({day}) as published__, row_number() over () as n__ from {quote(f'r_{spec.id}')}"
    )
    join = f" left join {quote(published)} p on p.entity = r.entity__ and p.date = r.date__" if published else ""
    public = "coalesce(p.published, r.published__)" if published else "r.published__"
    return (
        f"select r.entity__ as entity, r.date__ as date, {public} as published, r.n__ as n, {', '.join(values)}"
        f" from ({inner}) r{join}"
    )


def compile_entity(column: str, codes: str) -> str:
    """Return SQL for the canonical code of a row's entity."""
    text = f"{quote(column)}::varchar"
    return CN_SQL.format(f"({text})") if codes == "CN" else text


def get_source(spec: TableSpec) -> str:
    return spec.source or spec.id


def is_end(day: date, frequency: Frequency) -> bool:
    """Return whether a day is the last of a month, quarter or year."""
    last = calendar.monthrange(day.year, day.month)[1] == day.day
    step = {Frequency.MONTHLY: 1, Frequency.QUARTERLY: 3, Frequency.ANNUAL: 12}[frequency]
    return last and day.month % step == 0
