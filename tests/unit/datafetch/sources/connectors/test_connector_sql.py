"""A SQLite database read-only: writes are refused by the connection, whatever the statement looks like."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from datetime import date
from pathlib import Path

import pytest

from fathom.core.errors import DeadlineExceeded, DependencyFailed, InvalidField, NotFound
from fathom.services.datafetch.sources.base import DataRequest, Kind, NoVintage, Vintage
from fathom.services.datafetch.sources.connectors.sql import SqlDatabase, SqlRefused, SqlSource


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "house data.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "create table prices (code text, day text, close real, known text);"
            "insert into prices values ('600519', '2024-01-02', 1685.01, '2024-01-02'), ('600519', '2024-01-03', 1694.0, '2024-01-03'),"
            " ('600519', '2024-01-03', 1690.0, '2024-02-01');"
            "create table notes (id integer, what);"
            "insert into notes values (1, 'a'), (2, 3.5), (3, null);"
            "create view closes as select day, close from prices;"
        )
    connection.close()
    return path


def content(folder: Path) -> dict[str, str]:
    """Each file's checksum."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def database(path: Path, **more: object) -> SqlDatabase:
    return SqlDatabase(SqlSource("house", f"sqlite:///{path}", **more))  # type: ignore[arg-type]


WRITES = [
    "insert into prices values ('x', 'y', 1, 'z')", "update prices set close = 0", "delete from prices", "drop table prices",
    "create table t (a)", "create temp table t (a)", "alter table prices add column x", "replace into notes values (1, 'b')",
    "with x as (select 1) insert into notes select 9, 'w' from x", "vacuum", "vacuum into '/tmp/stolen.db'", "pragma journal_mode = delete",
    "pragma query_only = off", "attach database '/tmp/other.db' as other", "begin immediate", "select 1; drop table prices",
    "/* select */ delete from prices", "create view v as select 1", "reindex", "analyze", "select load_extension('x')", "explain drop table prices",
]  # fmt: skip


@pytest.mark.parametrize("statement", WRITES)
async def test_writes_are_refused_and_nothing_changes(place: Path, statement: str) -> None:
    before = content(place.parent)
    with pytest.raises(SqlRefused) as refused:
        await database(place).query(statement)
    assert refused.value.field == "sql"
    assert content(place.parent) == before


async def test_the_connection_itself_is_read_only(place: Path) -> None:
    with database(place)._engine.connect() as connection, pytest.raises(Exception, match="readonly"):
        connection.exec_driver_sql("delete from prices")


async def test_tables_columns_and_periods(place: Path) -> None:
    source = database(place, dates={"prices": "day"})
    assert (await source.list_tables())["closes"] == ("day", "close")
    found = await source.fetch(DataRequest(Kind.TABLE, "Prices", ("day", "Close"), start=date(2024, 1, 3)))
    assert found.table.to_pydict() == {"day": ["2024-01-03", "2024-01-03"], "close": [1694.0, 1690.0]}
    assert found.provenance.place == "house/prices"
    with pytest.raises(NotFound, match="prices"):
        await source.fetch(DataRequest(Kind.TABLE, "price"))
    with pytest.raises(NotFound, match="close"):
        await source.fetch(DataRequest(Kind.TABLE, "prices", ("closing",)))
    with pytest.raises(NotFound):
        await source.fetch(DataRequest(Kind.TABLE, 'prices"; drop table prices; --'))
    await source.aclose()


async def test_as_of_needs_a_column_that_says_when(place: Path) -> None:
    request = DataRequest(Kind.TABLE, "prices", ("close",))
    with pytest.raises(NoVintage):
        await database(place).fetch(request, as_of=date(2024, 1, 15))
    found = await database(place, published={"prices": "known"}).fetch(request, as_of=date(2024, 1, 15))
    assert found.table.column("close").to_pylist() == [1685.01, 1694.0]
    lenient = DataRequest(Kind.TABLE, "prices", ("close",), vintage=Vintage.LATEST)
    assert (await database(place).fetch(lenient, as_of=date(2024, 1, 15))).provenance.revised


async def test_questions_of_experts(place: Path) -> None:
    source = database(place, rows=2)
    found = await source.query(
        "with x as (select code, max(close) as top from prices group by code) select *, ':no :parameter' as t from x"
    )
    assert found.table.to_pydict() == {"code": ["600519"], "top": [1694.0], "t": [":no :parameter"]}
    cut = await source.query("select * from notes")
    assert (cut.table.num_rows, cut.provenance.notes) == (2, ("cut to 2 rows",))
    assert cut.table.column("what").to_pylist() == ["a", "3.5"]
    assert cut.issues[0].column == "what"
    for nonsense in ("", " ", "selec 1", "select * from nowhere", "x" * 100_001):
        with pytest.raises(SqlRefused):
            await source.query(nonsense)


async def test_a_statement_without_end_is_stopped(place: Path) -> None:
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    with pytest.raises(DeadlineExceeded):
        await database(place).query(endless, deadline=time.monotonic() + 0.3)
    with pytest.raises(DeadlineExceeded):
        await database(place, seconds=0.2).query(endless)
    with pytest.raises(DeadlineExceeded):
        await database(place).query("select 1", deadline=time.monotonic() - 1)


async def test_databases_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DependencyFailed):
        await database(tmp_path / "none.db").list_tables()
    assert content(tmp_path) == {}
    (tmp_path / "text.db").write_text("this is no database, only text " * 100)
    with pytest.raises(DependencyFailed):
        await database(tmp_path / "text.db").fetch(DataRequest(Kind.TABLE, "t"))
    for url in ("", "nonsense", "oracle://scott:tiger@h/x", "mssql://u:secret@h/x"):
        with pytest.raises(InvalidField) as invalid:
            SqlDatabase(SqlSource("house", url))
        assert "tiger" not in str(invalid.value)
        assert "secret" not in str(invalid.value)
    assert "secret" not in repr(SqlSource("house", "postgresql://u:secret@h/x"))
