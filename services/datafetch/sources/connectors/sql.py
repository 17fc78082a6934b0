"""Connector to tables of SQL databases; the connection itself is read-only, whatever a statement says.

SQLite: the file is opened read-only and an authorizer permits reading only. PostgreSQL and MySQL: a read-only
transaction, and only statements built here, since a text of several statements could end that transaction; still,
connect with a user without write permission. Other databases are refused. SQLite and PostgreSQL have been tried, MySQL
has not.
"""

from __future__ import annotations

import asyncio
import difflib
import importlib
import math
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any
from urllib.parse import quote

from fathom.core.errors import DeadlineExceeded, DependencyFailed, InvalidField, MissingExtra, NotFound
from fathom.domain.frames import arrow
from fathom.services.datafetch.sources.base import (
    DataRequest,
    Fetched,
    Kind,
    NoVintage,
    Offer,
    RowIssue,
    Vintage,
    make_provenance,
)

# What the authorizer lets through; PRAGMA and ATTACH are not among them.
READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
# Functions that reach outside the database; some exist in certain builds of SQLite only.
FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})
# SQLite's instructions between two looks at the clock: rare enough to cost nothing, at most some milliseconds apart.
STEPS = 10_000
ColumnsOf = dict[str, tuple[str, ...]]


class SqlRefused(InvalidField):
    """The statement does more than read, or is invalid."""

    def __init__(self, message: str) -> None:
        super().__init__("sql", message)


@dataclass(frozen=True)
class SqlSource:
    """A database with its limits; ``url`` is in SQLAlchemy's format (``sqlite:////data/a.db``).

    By table, ``published`` names the column with the day on which a row became known, ``dates`` the column with the day
    that it is about.
    """

    name: str
    url: str = field(repr=False)
    published: Mapping[str, str] = field(default_factory=dict)
    dates: Mapping[str, str] = field(default_factory=dict)
    rows: int = 100_000
    seconds: float = 30.0


class SqlDatabase:
    """A connector to one database; ``symbol`` is the name of a table or view, ``fields`` are its columns."""

    def __init__(self, source: SqlSource) -> None:
        """Create the engine without connecting.

        Raises ``MissingExtra``, and ``InvalidField("url")`` for an unknown database.
        """
        self.name = source.name
        self._source, self._alchemy = source, import_sqlalchemy()
        self._engine = create_engine(self._alchemy, source)

    def offers(self) -> tuple[Offer, ...]:
        return (Offer(Kind.TABLE, (), {}, "", bool(self._source.published)),)

    async def list_tables(self, deadline: float | None = None) -> ColumnsOf:
        """Return the columns of each table and view."""
        found: ColumnsOf = await self._run_in_thread(self._inspect_tables, deadline)
        return found

    async def fetch(self, request: DataRequest, as_of: date | None = None, deadline: float | None = None) -> Fetched:
        """Fetch a table, see ``Connector``.

        With ``as_of``, raise ``NoVintage`` for a table without a known ``published`` column, unless the request accepts
        ``Vintage.LATEST``.
        """
        known = await self.list_tables(deadline)
        table = resolve_name("table", request.symbol, known)
        columns = [resolve_name("column", name, known[table]) for name in request.fields] or list(known[table])
        published = self._source.published.get(table)
        revised = as_of is not None and published is None
        if revised and as_of is not None and request.vintage is Vintage.STRICT:
            raise NoVintage(self.name, as_of, f"it is not said which column of {table} tells when a row became known")
        bounds = [(published, "<=", as_of)] if published and as_of else []
        if when := self._source.dates.get(table):
            days = (("<=", request.end), ("<=", as_of), (">=", request.start))
            bounds += [(when, sign, value) for sign, value in days if value is not None]
        statement = self._select(table, columns, bounds)
        return await self._read(statement, f"{self.name}/{table}", as_of, revised, deadline)

    async def query(self, statement: str, deadline: float | None = None) -> Fetched:
        """Run one reading statement, on SQLite only; meant for experts, hence without ``as_of``.

        Raises ``SqlRefused`` and ``DeadlineExceeded``.
        """
        if self._engine.dialect.name != "sqlite":
            raise SqlRefused(f"free statements are not taken on {self._engine.dialect.name}")
        return await self._read(self._alchemy.text(escape_colons(statement)), f"{self.name}/sql", None, False, deadline)

    async def aclose(self) -> None:
        await asyncio.to_thread(self._engine.dispose)

    def _select(self, table: str, columns: Sequence[str], bounds: Sequence[tuple[str, str, Any]]) -> Any:
        """Build the SELECT; SQLAlchemy quotes the names and binds the values."""
        sa = self._alchemy
        query = sa.select(*(sa.column(name) for name in columns)).select_from(sa.table(table))
        for name, sign, value in bounds:
            text = value.isoformat() if self._engine.dialect.name == "sqlite" else value
            query = query.where(sa.column(name) <= text if sign == "<=" else sa.column(name) >= text)
        # One row more than shown tells whether the table was cut.
        return query.limit(self._source.rows + 1)

    async def _read(
        self, statement: Any, place: str, as_of: date | None, revised: bool, deadline: float | None
    ) -> Fetched:
        names, rows = await self._run_in_thread(lambda end: self._run_statement(statement, end), deadline)
        notes = (f"cut to {self._source.rows:,} rows",) if len(rows) > self._source.rows else ()
        table, issues = make_table(names, rows[: self._source.rows])
        return Fetched(table, {}, make_provenance(self.name, place, as_of, revised=revised, notes=notes), issues)

    async def _run_in_thread(self, work: Callable[[float], Any], deadline: float | None) -> Any:
        """Run ``work`` in a thread; the database itself stops at the deadline."""
        end = time.monotonic() + self._source.seconds
        end = end if deadline is None else min(end, deadline)
        if end <= time.monotonic():
            raise DeadlineExceeded(f"{self.name} was given no time", metadata={"culprit": self.name})
        return await asyncio.to_thread(work, end)

    def _inspect_tables(self, _: float) -> ColumnsOf:
        sa = self._alchemy
        try:
            seen = sa.inspect(self._engine)
            names = [*seen.get_table_names(), *seen.get_view_names()]
            return {name: tuple(column["name"] for column in seen.get_columns(name)) for name in names}
        except sa.exc.SQLAlchemyError as error:
            raise DependencyFailed(self.name, f"cannot be read ({get_database_message(error)})") from error

    def _run_statement(self, statement: Any, end: float) -> tuple[list[str], list[Any]]:
        sa = self._alchemy
        try:
            with self._engine.connect() as connection:
                try:
                    self._limit_connection(connection, end)
                    result = connection.execute(statement)
                    if not result.returns_rows:
                        raise SqlRefused("gives no rows")
                    return list(result.keys()), result.fetchmany(self._source.rows + 1)
                finally:
                    connection.invalidate()  # nothing that a statement set stays, nothing is committed
        except sa.exc.SQLAlchemyError as error:
            if time.monotonic() >= end:
                late = f"{self.name} did not answer in time"
                raise DeadlineExceeded(late, metadata={"culprit": self.name}) from error
            raise SqlRefused(get_database_message(error)) from error

    def _limit_connection(self, connection: Any, end: float) -> None:
        """Make the connection read-only and let it stop at ``end`` (monotonic seconds)."""
        milliseconds = max(1, math.ceil((end - time.monotonic()) * 1000))
        if self._engine.dialect.name == "sqlite":
            raw = connection.connection.driver_connection
            # SQLite has no time limit of its own; the handler stops a statement by returning non-zero.
            raw.set_progress_handler(lambda: int(time.monotonic() >= end), STEPS)
            raw.set_authorizer(authorize_reads)
        elif self._engine.dialect.name == "postgresql":
            # Before any statement: the transaction cannot be made writable afterwards.
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = {milliseconds}")
        else:
            connection.exec_driver_sql(f"SET SESSION max_execution_time = {milliseconds}")
            # SQLAlchemy has begun a transaction by the SET; MySQL takes READ ONLY at the start of one only.
            connection.rollback()
            connection.exec_driver_sql("START TRANSACTION READ ONLY")


def import_sqlalchemy() -> Any:
    """Import and return the sqlalchemy module; raises ``MissingExtra``."""
    try:
        return importlib.import_module("sqlalchemy")
    except ImportError as error:
        raise MissingExtra("sqlalchemy", "connectors") from error


def create_engine(sa: Any, source: SqlSource) -> Any:
    """Create the engine; raises ``InvalidField("url")`` without the URL itself, which may contain a password."""
    try:
        url = sa.engine.make_url(source.url)
        dialect = url.get_backend_name()
        if dialect == "sqlite":
            # mode=ro keeps SQLite from creating or writing the file, whatever the statement.
            place = f"file:{quote(url.database or '')}?mode=ro"
            connect = partial(sqlite3.connect, place, uri=True, check_same_thread=False)
            return sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.NullPool)
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        if dialect in {"postgresql", "mysql"}:
            return sa.create_engine(url, poolclass=sa.pool.NullPool)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as error:
        raise InvalidField("url", f"the URL of {source.name} cannot be read") from error
    except ImportError as error:
        raise MissingExtra(str(error.name), "postgres" if dialect == "postgresql" else "connectors") from error
    raise InvalidField("url", f"{source.name}: {dialect} is none of sqlite, postgresql, mysql")


def authorize_reads(action: int, first: str | None, second: str | None, _: str | None, __: str | None) -> int:
    """Authorize an action for SQLite: selecting, reading, and functions that do not access files."""
    # For functions SQLite passes the name as the second argument.
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in READS else sqlite3.SQLITE_DENY


def resolve_name(kind: str, name: str, known: Any) -> str:
    """Return the known name, compared without case; raises ``NotFound`` with the nearest ones."""
    if name in known:
        return name
    folded = {str(other).casefold(): str(other) for other in known}
    if name.casefold() in folded:
        return folded[name.casefold()]
    nearest = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.4)
    raise NotFound(kind, name, [folded[key] for key in nearest])


def escape_colons(statement: str) -> str:
    """Escape colons, which would mark parameters; raises ``SqlRefused`` for an empty or too long statement."""
    if not statement.strip() or len(statement) > 100_000:
        raise SqlRefused("is empty or longer than 100,000 characters")
    return statement.replace(":", "\\:")


def get_database_message(error: Exception) -> str:
    """Return the database's own message, without the statement and its values."""
    return str(getattr(error, "orig", None) or type(error).__name__)[:300]


def make_table(names: Sequence[str], rows: Sequence[Any]) -> tuple[Any, tuple[RowIssue, ...]]:
    """Return an Arrow table; a column of mixed types becomes text and is reported."""
    pa = arrow()
    columns: dict[str, Any] = {}
    issues: list[RowIssue] = []
    for place, name in enumerate(names):
        # Figures are doubles everywhere else, too.
        values = [float(row[place]) if isinstance(row[place], Decimal) else row[place] for row in rows]
        unique = name if name not in columns else f"{name}_{place + 1}"
        try:
            columns[unique] = pa.array(values)
        except (pa.ArrowException, OverflowError):
            columns[unique] = pa.array([None if value is None else str(value) for value in values], pa.string())
            issues.append(RowIssue(1, "holds values of several types and is given as text", unique))
    return pa.table(columns), tuple(issues)
