"""A real PostgreSQL behind the SQL connector: what writes is refused by the transaction, what is slow is stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date

import pytest

from fathom.core.errors import DeadlineExceeded
from fathom.services.datafetch.sources import DataRequest, Kind
from fathom.services.datafetch.sources.connectors.sql import SqlDatabase, SqlRefused, SqlSource
from tests.support.postgres import serve_postgres

psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")

pytestmark = pytest.mark.slow

SETUP = (
    "create table prices (code text, day date, close numeric, known date)",
    "insert into prices values ('600519', '2024-01-02', 1685.01, '2024-01-02'), ('600519', '2024-01-03', 1690, '2024-02-01')",
    "create view slow as select pg_sleep(600)::text as slept",
    "create function written() returns int language plpgsql as "
    "$$ begin insert into prices values ('x', '2024-01-01', 1, '2024-01-01'); return 1; end $$",
    "create view sneaky as select written() as a",
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve_postgres() as found:
        with psycopg.connect(found, autocommit=True) as connection:
            for statement in SETUP:
                connection.execute(statement)
        yield found


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
