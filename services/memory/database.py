"""The database of the memory service: a SQLite file, or PostgreSQL for several replicas. Every transaction is bounded.

Transactions run in threads of this class' own, one per connection, so that a slow database holds up nobody else.
"""

from __future__ import annotations

import asyncio
import contextvars
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, make_url, text

from fathom.core.call import current_call
from fathom.core.errors import CorruptData, DeadlineExceeded, DependencyFailed, InvalidField
from fathom.core.extras import require_modules
from fathom.core.retry import Retries, RetryPolicy, retry_blocking
from fathom.services.memory.migrating import ADVICE, migrate

T = TypeVar("T")
# A transaction takes milliseconds: what takes five seconds is a database, or another user of it, that hangs.
BUSY_S = 5.0
WAL_RETRY = RetryPolicy(attempts=None, first_delay_s=0.02, max_delay_s=0.2)
# A connection that the server has closed, or two replicas that insert one row: the next attempt succeeds. No attempt
# begins later than RETRY_S after the first.
RETRY = RetryPolicy(attempts=4, first_delay_s=0.05, max_delay_s=1.0)
RETRY_S = 5.0
# A database server may start together with the service.
START_RETRY, START_S = RetryPolicy(attempts=None, first_delay_s=0.2, max_delay_s=2.0), 30.0
PROBE_S = 5.0
# SQLSTATE of a PostgreSQL that has no room left: callers read of it as of a full SQLite file.
DISK_FULL = "53100"
# What callers read of a failure; address and path are the operator's affair, who reads them at the start.
NAME = "memory's database"


class Database:
    """A SQLite file or a PostgreSQL database, usable after ``open``."""

    def __init__(self, place: Path | str, connections: int = 8) -> None:
        """Take the path of a SQLite file or a URL ``postgresql://…``, and the most connections to the latter.

        Raises ``InvalidField`` for another URL, ``MissingExtra`` without the driver.
        """
        self._path = place if isinstance(place, Path) else None
        self._url = parse_url(place) if isinstance(place, str) else URL.create("sqlite", database=str(place))
        self.name = str(self._path or self._url.set(username=None, password=None, query={}))
        # SQLite has one writer at a time: more threads would only wait for each other.
        self._connections = 1 if self._path else connections
        self._engine: Engine | None = None
        self._threads: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        """Connect, and create or upgrade the tables; a SQLite file is created with its folder.

        Raises ``CorruptData`` and ``FailedPrecondition`` when it is no database of this version or damaged, and
        ``DependencyFailed`` when it cannot be reached: a file at once or after ``BUSY_S`` seconds, a server after
        ``START_S``.
        """
        self._threads = ThreadPoolExecutor(self._connections, thread_name_prefix="memory-database")
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._open)
        except BaseException:  # cancellation included: the threads would outlive the start
            await self.close()
            raise

    def _open(self) -> None:
        if self._path:
            self._engine = create_sqlite_engine(self._url, self._path, self.name)
            self._prepare()
        else:
            self._engine = create_postgres_engine(self._url, self._connections)
            retry_blocking(self._prepare, START_RETRY, time.monotonic() + START_S)

    def _prepare(self) -> None:
        """Check the database and bring its tables to this version. Raises as ``open`` does."""
        assert self._engine is not None
        try:
            if self._path:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._engine.begin() as connection:
                migrate(connection, self.name)
            if self._path:
                # A damaged page is found now, with its remedy, instead of in the middle of someone's request.
                with self._engine.begin() as connection:
                    found = connection.execute(text("pragma quick_check(1)")).scalar_one()
                if found != "ok":
                    raise CorruptData(self.name, f"{found}; {ADVICE}")
        except (OSError, sqlite3.Error, exc.SQLAlchemyError) as error:
            raise to_typed_error(error, self.name, is_operator=True) from error

    async def close(self) -> None:
        """Close all connections when the transactions under way have ended; idempotent."""
        threads, engine, self._threads, self._engine = self._threads, self._engine, None, None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)
        if engine is not None:
            await asyncio.to_thread(engine.dispose)

    async def run_transaction(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in one transaction: all of it or nothing. It may run several times, until one is committed.

        Raises the errors of ``work``, ``DependencyFailed`` when the database is away, slow or full, and
        ``DeadlineExceeded`` when the call's deadline passes before a connection is free.
        """
        if self._threads is None:
            raise DependencyFailed(NAME, "is not open")
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: context.run(self._run_transaction, work)
        )

    def _run_transaction(self, work: Callable[[Connection], T]) -> T:
        call, latest = current_call(), time.monotonic() + RETRY_S
        deadline = latest if call is None or call.deadline is None else min(latest, call.deadline)
        if deadline <= time.monotonic():
            raise DeadlineExceeded(f"{NAME}: no connection was free before the deadline")
        retries = Retries(RETRY, deadline, lambda error: not isinstance(error, UnknownOutcome))
        while True:
            try:
                return self._attempt(work)
            except DependencyFailed as error:
                delay = retries.next_delay_s(error)
            time.sleep(delay)

    def _attempt(self, work: Callable[[Connection], T]) -> T:
        if self._engine is None:
            raise DependencyFailed(NAME, "is not open")
        try:
            with self._engine.connect() as connection, connection.begin() as transaction:
                result = work(connection)
                try:
                    transaction.commit()
                except exc.DBAPIError as error:
                    raise UnknownOutcome(NAME, "was lost while it stored; whether it did is not known") from error
                return result
        except (sqlite3.Error, exc.SQLAlchemyError) as error:
            raise to_typed_error(error, NAME) from error

    async def watch(self, probe_s: float = PROBE_S) -> AsyncIterator[bool]:
        """Yield whether the database answers, whenever that changes; it is asked every ``probe_s`` seconds."""
        answers = True
        while True:
            await asyncio.sleep(probe_s)
            try:
                await self.run_transaction(lambda connection: connection.execute(text("select 1")).scalar_one())
                found = True
            except (DependencyFailed, CorruptData):
                found = False
            if found != answers:
                answers = found
                yield answers


class UnknownOutcome(DependencyFailed):
    """A commit failed whose effect is not known: the caller, who has a request id, may ask again."""


def parse_url(place: str) -> URL:
    """Return the URL of a PostgreSQL database with this project's driver; raise ``InvalidField``, ``MissingExtra``."""
    try:
        url = make_url(place)
    except exc.ArgumentError:
        # Without the value: it may hold a password.
        raise InvalidField("memory.database_url", "is no URL") from None
    if url.get_backend_name() != "postgresql" or not url.database:
        raise InvalidField("memory.database_url", "must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
    require_modules("psycopg")
    return url.set(drivername="postgresql+psycopg")


def create_postgres_engine(url: URL, connections: int) -> Engine:
    """Return an engine whose connections, statements and waits for locks end within ``BUSY_S`` seconds."""
    milliseconds = round(BUSY_S * 1000)
    limits = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    return create_engine(
        url,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=BUSY_S,
        pool_pre_ping=True,
        # A server behind an address that moves is found anew.
        pool_recycle=600,
        hide_parameters=True,
        connect_args={
            "connect_timeout": max(2, round(BUSY_S)),
            # A server that vanishes without a word is noticed, too.
            "tcp_user_timeout": milliseconds,
            "options": " ".join(f"-c {limit}={milliseconds}" for limit in limits),
        },
    )


def create_sqlite_engine(url: URL, path: Path, name: str) -> Engine:
    """Return an engine with one connection, a write-ahead log and transactions that lock the file at their begin."""
    engine = create_engine(url, pool_size=1, max_overflow=0, hide_parameters=True, connect_args={"timeout": BUSY_S})

    def prepare(connection: sqlite3.Connection, _: Any) -> None:
        # BEGIN is given below, before the first statement, whatever that is.
        connection.isolation_level = None
        switch_to_wal(connection, name)
        # SQLite does not enforce foreign keys unless each connection asks for it.
        connection.execute("pragma foreign_keys = on")
        # What is erased is overwritten, instead of lying in free pages until these are used again. Some builds of
        # SQLite do so by default, others do not.
        connection.execute("pragma secure_delete = on")

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("begin immediate"))
    return engine


def to_typed_error(error: BaseException, name: str, *, is_operator: bool = False) -> CorruptData | DependencyFailed:
    """Convert errors of databases and the system to typed ones about what is called ``name``.

    An unreachable database and a damaged one need different remedies. Words of a server, which may name hosts and
    users, are for the operator.
    """
    if isinstance(error, OSError):
        return DependencyFailed(name, error.strerror or type(error).__name__)
    if isinstance(error, (exc.IntegrityError, exc.TimeoutError)):
        return DependencyFailed(name, "two callers wrote the same at once, or all connections are in use")
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    is_sqlite = isinstance(cause, sqlite3.Error)
    said = str(cause).strip().partition("\n")[0] if is_operator or is_sqlite else type(cause).__name__
    if getattr(cause, "sqlstate", None) == DISK_FULL:
        said = "database or disk is full"
    # OperationalError is a subclass of DatabaseError, so it must be tested first.
    temporary = (sqlite3.OperationalError, exc.OperationalError, exc.InterfaceError, exc.InternalError)
    if isinstance(error, temporary) or (isinstance(error, exc.DBAPIError) and error.connection_invalidated):
        return DependencyFailed(name, said)
    return CorruptData(name, f"{said}; {ADVICE}")


def switch_to_wal(connection: sqlite3.Connection, path: str) -> None:
    """Switch the file to a write-ahead log; raise ``DependencyFailed`` when it is busy for ``BUSY_S`` seconds."""

    def switch() -> None:
        try:
            connection.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            raise DependencyFailed(path, str(error)) from error

    # SQLite waits for another writer, but not for another process that is switching too.
    retry_blocking(switch, WAL_RETRY, time.monotonic() + BUSY_S)
