"""The file: made once, refused when it is another one, all or nothing, out of reach told from damaged."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from fathom.core import errors
from fathom.services.memory import database
from fathom.services.memory.database import Database


def insert(db: Connection) -> None:
    db.execute(text("insert into conversations (tenant, id, title, updated) values ('default', 'c', 't', 0)"))


def count(db: Connection) -> int:
    return int(db.execute(text("select count(*) from conversations")).scalar_one())


async def test_the_file_and_its_folder_are_made_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "memory.sqlite3"
    # Made the first time, found the second.
    for expected in (0, 1):
        found = Database(path)
        await found.open()
        assert await found.run_transaction(count) == expected
        if not expected:
            await found.run_transaction(insert)
        await found.close()
        # Closing twice is what happens when a start fails in its middle.
        await found.close()


async def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    found = Database(tmp_path / "memory.sqlite3")
    await found.open()

    def half(db: Connection) -> None:
        insert(db)
        raise errors.NotFound("thing", "x")

    with pytest.raises(errors.NotFound):
        await found.run_transaction(half)
    assert await found.run_transaction(count) == 0
    await found.close()
    with pytest.raises(errors.DependencyFailed, match="not open"):
        await found.run_transaction(count)


async def test_services_may_start_on_one_file_at_once(tmp_path: Path) -> None:
    # Eight times four, since the race is between creating tables and switching the log on.
    for turn in range(8):
        many = [Database(tmp_path / f"memory-{turn}.sqlite3") for _ in range(4)]
        await asyncio.gather(*(found.open() for found in many))
        await many[0].run_transaction(insert)
        assert await many[1].run_transaction(count) == 1
        await asyncio.gather(*(found.close() for found in many))


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\x00" + b"\x01" * 4096])
async def test_a_file_that_is_no_database_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "memory.sqlite3"
    path.write_bytes(content)
    with pytest.raises(errors.CorruptData, match=r"memory\.sqlite3"):
        await Database(path).open()
    assert path.read_bytes() == content, "a damaged file is left for its owner to look at"


async def test_a_damaged_page_is_found_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    found = Database(path)
    await found.open()
    await found.close()
    data = bytearray(path.read_bytes())
    # In the second page: the header is whole, so that only a check of the pages finds it.
    data[4096 + 1 : 4096 + 200] = b"\xff" * 199
    path.write_bytes(data)
    with pytest.raises(errors.CorruptData):
        await Database(path).open()


@pytest.mark.parametrize("statements", ["create table other (x)", "pragma user_version = 9", "pragma user_version = 1"])
async def test_another_programs_database_is_left_alone(tmp_path: Path, statements: str) -> None:
    path = tmp_path / "memory.sqlite3"
    with sqlite3.connect(path) as other:
        other.execute(statements)
    other.close()
    with pytest.raises(errors.CorruptData, match="is no memory"):
        await Database(path).open()


async def test_what_cannot_be_reached_is_not_called_corrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "memory.sqlite3"):
        with pytest.raises(errors.DependencyFailed):
            await Database(path).open()
    monkeypatch.setattr(database, "BUSY_S", 0.01)
    found = Database(tmp_path / "memory.sqlite3")
    await found.open()
    holder = sqlite3.connect(tmp_path / "memory.sqlite3", isolation_level=None)
    holder.execute("begin immediate")
    with pytest.raises(errors.DependencyFailed, match="locked"):
        await found.run_transaction(count)
    holder.execute("rollback")
    holder.close()
    assert await found.run_transaction(count) == 0
    await found.close()
