"""One SQLite file with one writer; every transaction runs in a thread."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fathom.core.errors import CorruptData, DependencyFailed
from fathom.core.retry import RetryPolicy, retry_blocking

T = TypeVar("T")
# Raise it with SCHEMA, and say in UPGRADES how a file of the version before becomes one; a newer file is refused.
VERSION = 2
# A transaction takes milliseconds: who holds the file for five seconds is another program.
BUSY_S = 5.0
WAL_RETRY = RetryPolicy(attempts=None, first_delay_s=0.02, max_delay_s=0.2)
SCHEMA = (
    "create table conversations ("
    " id text primary key, title text not null, pinned integer not null default 0, updated real not null)",
    "create table turns ("
    " conversation text not null references conversations(id) on delete cascade, number integer not null,"
    " request text not null unique, question text not null, rewritten text not null, answer text not null,"
    " run text not null, ended real not null, bullets text not null, primary key (conversation, number))",
    "create table feedback ("
    " request text primary key, run text not null, helpful integer not null, tags text not null,"
    " comment text not null, created real not null, edited text not null default '')",
)
# From each earlier version to the next one; files of the oldest version that is named here are still read.
UPGRADES = {1: "alter table feedback add column edited text not null default ''"}
TABLES = {"conversations", "turns", "feedback"}
ADVICE = "restore a backup or move the file away"
# What callers read of a failure; its path is the operator's affair, who reads it at the start and in the log.
NAME = "memory's database"


class Database:
    """SQLite database, usable after ``open``; ``user_version`` in the file's header is the schema version."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open the file, or create it with its folder.

        Raises ``CorruptData`` when it is no database of this version, and ``DependencyFailed`` when it cannot be
        opened: no permission, a folder, another process that holds it for more than ``BUSY_S`` seconds.
        """
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        connection = None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # check_same_thread=False: each transaction runs in a thread of the pool, and the lock below admits one at a
            # time. isolation_level=None leaves BEGIN and COMMIT to this class.
            connection = sqlite3.connect(self._path, timeout=BUSY_S, check_same_thread=False, isolation_level=None)
            switch_to_wal(connection, str(self._path))
            # SQLite does not enforce foreign keys unless each connection asks for it.
            connection.execute("pragma foreign_keys = on")
            self._prepare(connection)
        except (OSError, sqlite3.Error, CorruptData, DependencyFailed) as error:
            if connection is not None:
                connection.close()
            raise to_typed_error(error, str(self._path)) from error
        self._connection = connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Check the file; create the tables in an empty one. Raises ``CorruptData``."""
        connection.execute("begin immediate")
        # The lock comes first, since two processes may start at once.
        (version,) = connection.execute("pragma user_version").fetchone()
        names = connection.execute("select name from sqlite_master where type = 'table'")
        tables = {name for (name,) in names}
        if version == 0 and not tables:
            for statement in (*SCHEMA, f"pragma user_version = {VERSION}"):
                connection.execute(statement)
        elif version in UPGRADES and tables >= TABLES:
            for earlier in range(version, VERSION):
                connection.execute(UPGRADES[earlier])
            connection.execute(f"pragma user_version = {VERSION}")
        elif version != VERSION or not tables >= TABLES:
            raise CorruptData(str(self._path), f"is no memory of version {VERSION}, but {version}; {ADVICE}")
        connection.execute("commit")
        # A damaged page is found now, with its remedy, instead of in the middle of someone's request.
        if (found := connection.execute("pragma quick_check(1)").fetchone()) != ("ok",):
            raise CorruptData(str(self._path), f"{found[0]}; {ADVICE}")

    async def close(self) -> None:
        """Write the log's contents into the file and close it; idempotent."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    async def run_transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` in one transaction: all of it or nothing. Raises like ``open``, and the errors of ``work``."""
        return await asyncio.to_thread(self._run_transaction, work)

    def _run_transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            connection = self._connection
            if connection is None:
                raise DependencyFailed(NAME, "is not open")
            try:
                connection.execute("begin immediate")
                result = work(connection)
                connection.execute("commit")
            except BaseException as error:
                # Whatever ends the work, also an interrupt, must not leave a transaction open for the next caller.
                # Some failures end the transaction by themselves.
                if connection.in_transaction:
                    connection.execute("rollback")
                if isinstance(error, sqlite3.Error):
                    raise to_typed_error(error, NAME) from error
                raise
            return result


def to_typed_error(error: Exception, name: str) -> Exception:
    """Convert errors of SQLite and the system to typed ones about what is called ``name``.

    An unreachable file and a damaged one need different remedies.
    """
    # OperationalError is a subclass of DatabaseError, so it must be tested first.
    if isinstance(error, OSError):
        return DependencyFailed(name, error.strerror or type(error).__name__)
    if isinstance(error, sqlite3.OperationalError):
        return DependencyFailed(name, str(error))
    if isinstance(error, sqlite3.DatabaseError):
        return CorruptData(name, f"{error}; {ADVICE}")
    return error


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
