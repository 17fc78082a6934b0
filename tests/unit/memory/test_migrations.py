"""Databases of earlier releases are taken over with all that they hold; those of later ones are left alone."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from fathom.core import errors
from fathom.core.call import Call, calling
from fathom.services.memory.engine import Conversation, Engine, Judgement, Turn
from fathom.services.memory.migrating import FOLDER, HEAD, REVISION_TABLE
from fathom.services.memory.schema import METADATA
from tests.unit.memory.judgements import list_judgements

# The tables as they were released: those of version 1, and what version 2 added.
FIRST = """
create table conversations (
 id text primary key, title text not null, pinned integer not null default 0, updated real not null);
create table turns (
 conversation text not null references conversations(id) on delete cascade, number integer not null,
 request text not null unique, question text not null, rewritten text not null, answer text not null,
 run text not null, ended real not null, bullets text not null, primary key (conversation, number));
create table feedback (
 request text primary key, run text not null, helpful integer not null, tags text not null,
 comment text not null, created real not null);
"""
SECOND = "alter table feedback add column edited text not null default ''"
# What stood before the names of a tenant's rows.
PREFIXES = {"default": "", "fund-7": "fund-7=", "fund-8": "fund-8="}


def write_old_file(path: Path, version: int) -> None:
    """Write a file as version 1 or 2 did: for each of three tenants two conversations, three turns, two judgements."""
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(FIRST)
        if version == 2:
            db.execute(SECOND)
        for tenant, prefix in PREFIXES.items():
            for name, pinned, updated in (("c1", 1, 5.25), ("c2", 0, 7.5)):
                row = (prefix + name, f"{name} of {tenant}", pinned, updated)
                db.execute("insert into conversations values (?, ?, ?, ?)", row)
            for name, number, run in (("c1", 1, "run_1"), ("c1", 4, ""), ("c2", 1, "run_3")):
                ids = (prefix + name, number, f"{prefix}{name}-{number}")
                said = ("a=b?", "what is a=b?", f"清楚 {tenant} {number}", run and prefix + run, 9.5, '["p=q"]')
                db.execute("insert into turns values (?, ?, ?, ?, ?, ?, ?, ?, ?)", ids + said)
            # Out of the order of their names: judgements are listed as they came.
            for request in ("f2", "f1"):
                row = (prefix + request, f"{prefix}run_1", 1, '["clear"]', f"of {tenant}", 3.5)
                db.execute(f"insert into feedback values (?, ?, ?, ?, ?, ?{', ?' if version == 2 else ''})",
                           row + (("x = 2",) if version == 2 else ()))  # fmt: skip
        db.execute(f"pragma user_version = {version}")


@pytest.mark.parametrize("version", [1, 2])
async def test_a_file_of_an_earlier_release_is_taken_over_with_all_that_it_holds(tmp_path: Path, version: int) -> None:
    path = tmp_path / "memory.sqlite3"
    write_old_file(path, version)
    for _ in range(2):  # the second time there is nothing to upgrade
        engine = Engine(path)
        await engine.start()
        for tenant in PREFIXES:
            with calling(Call.new(tenant=tenant)):
                assert (await engine.list_conversations())[0] == [
                    Conversation("c1", f"c1 of {tenant}", 2, 5.25, True, 1),
                    Conversation("c2", f"c2 of {tenant}", 1, 7.5, False, 1),
                ]
                for name, numbers in (("c1", {1: "run_1", 4: ""}), ("c2", {1: "run_3"})):
                    assert (await engine.list_turns(name))[0] == [
                        Turn("a=b?", "what is a=b?", f"清楚 {tenant} {number}", run, ("p=q",), number, 9.5, number - 1)
                        for number, run in numbers.items()
                    ]
                edited = "x = 2" if version == 2 else ""
                said = Judgement("run_1", True, ("clear",), f"of {tenant}", edited, 3.5)
                assert (await list_judgements(engine)) == [said, said]
        await engine.close()


async def test_what_was_taken_over_can_be_written_on(tmp_path: Path) -> None:
    write_old_file(tmp_path / "memory.sqlite3", 2)
    engine = Engine(tmp_path / "memory.sqlite3")
    await engine.start()
    with calling(Call.new(tenant="fund-7")):
        # The request of before is known still, and a new one follows the largest number.
        known = Turn("a=b?", "what is a=b?", "清楚 fund-7 4", "", ("p=q",))
        assert (await engine.append("c1-4", "c1", known)).number == 4
        assert (await engine.append("new", "c1", known)).number == 5
        await engine.record_feedback("f3", Judgement("run_3", False))
        assert await engine.delete("c1") == 3
        assert [item.run for item in (await list_judgements(engine))] == ["run_3"]
    with calling(Call.new(tenant="fund-8")):
        assert len((await engine.list_turns("c1"))[0]) == len(await list_judgements(engine)) == 2
    await engine.close()


async def test_a_takeover_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    write_old_file(path, 2)
    with closing(sqlite3.connect(path)) as db, db:
        # In the way of the last table, when the first ones have their new names.
        db.execute("create table old_feedback (x)")
    with closing(sqlite3.connect(path)) as db:
        before = list(db.iterdump())
    with pytest.raises(errors.FathomError):
        await Engine(path).start()
    with closing(sqlite3.connect(path)) as db:
        assert list(db.iterdump()) == before
        assert db.execute("pragma user_version").fetchone() == (2,)


async def test_a_database_ahead_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    engine = Engine(path)
    await engine.start()
    await engine.append("r", "c", Turn("why?", "", "so", ""))
    await engine.close()
    with closing(sqlite3.connect(path)) as db, db:
        # Releases before Alembic know no revision, but refuse a file by this number.
        assert db.execute("pragma user_version").fetchone() == (3,)
        db.execute(f"update {REVISION_TABLE} set version_num = '99'")
    with pytest.raises(errors.FailedPrecondition, match="is of revision 99, and this version of Fathom knows 9"):
        await Engine(path).start()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(f"select version_num from {REVISION_TABLE}").fetchall() == [("99",)]
        assert db.execute("select count(*) from turns").fetchone() == (1,)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_tables_that_belie_their_version_are_left_alone(tmp_path: Path, version: int) -> None:
    path = tmp_path / "memory.sqlite3"
    write_old_file(path, 2 if version == 1 else 1)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"pragma user_version = {version}")
    with pytest.raises(errors.CorruptData, match="is no memory"):
        await Engine(path).start()


async def test_the_revisions_make_the_tables_of_the_schema(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "memory.sqlite3")
    await engine.start()

    def compare(db: Connection) -> list[object]:
        context = MigrationContext.configure(db, opts={"version_table": REVISION_TABLE})
        return list(compare_metadata(context, METADATA))

    assert await engine.database.run_transaction(compare) == []
    await engine.close()


def test_the_newest_revision_is_the_one_that_a_start_compares_with() -> None:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


OPENED = """
import asyncio, sys
from pathlib import Path
from fathom.services.memory.database import Database
import fathom.services.memory.server

async def main():
    database = Database(Path(sys.argv[1]))
    await database.open()
    await database.close()
    print("alembic" in sys.modules)

asyncio.run(main())
"""


def test_a_start_without_anything_to_migrate_does_not_load_alembic(tmp_path: Path) -> None:
    """A quarter of the imports of memory's start, during which nobody has a memory, was that."""
    said = []
    # The first start makes the tables.
    for _ in range(2):
        command = [sys.executable, "-c", OPENED, str(tmp_path / "memory.sqlite3")]
        said.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    assert said == ["True", "False"]
