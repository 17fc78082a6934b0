"""Erasure down to the backups: of an erased user no byte is left once the backups of before are gone."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.core.call import Call, calling
from fathom.core.errors import CorruptData
from fathom.hosting.host import Runtime, dependencies, hosting
from fathom.operations.backup.making import database
from fathom.services.memory.config import Config
from fathom.services.memory.engine import Engine, Judgement, Turn
from fathom.services.memory.server import build
from fathom.transport.store import open_store
from fathom.transport.store.tenant import TenantStore

KEEP = 2
ANNE, BERT = (replace(Call.new(), principal=f"user:{name}") for name in ("anne", "bert"))


@dataclass(frozen=True)
class Site:
    """A memory service with what Anne and Bert have said, the records of their runs, and a place for backups."""

    folder: Path
    address: str

    async def command(self, *words: str) -> str:
        """Run ``fathom`` as a program of its own would, and return what it prints."""
        done = await asyncio.to_thread(CliRunner().invoke, app, list(words))
        assert done.exit_code == 0, f"{done.output}{done.exception or ''}"
        return done.output

    async def back_up(self) -> str:
        store, place = (f"file://{self.folder / name}" for name in ("store", "backups"))
        # Without the bus, whose messages end by age and not by erasure.
        return await self.command(
            "backup", "create", "--at", place, "--store", store, "--bus", "",
            "--memory", str(self.folder / "memory.sqlite3"), "--keep", str(KEEP),
        )  # fmt: skip

    def holders(self, words: str) -> list[Path]:
        """Return the files of the backups that hold some words."""
        files = [path for path in (self.folder / "backups").rglob("*") if path.is_file()]
        return [path for path in files if words.encode() in path.read_bytes()]


async def fill(folder: Path) -> None:
    engine = Engine(folder / "memory.sqlite3")
    await engine.start()
    store = open_store(f"file://{folder / 'store'}")
    for call, name in ((ANNE, "anne"), (BERT, "bert")):
        with calling(call):
            # More than one page of the file, so that whole pages become free as well as parts of some.
            answer = " ".join(f"{name}'s secret is {number}." for number in range(2000))
            await engine.append(f"r-{name}", f"c-{name}", Turn(f"What is {name}'s secret?", "", answer, f"run_{name}"))
            await engine.record_feedback(f"f-{name}", Judgement(f"run_{name}", True, (), f"{name}'s secret, indeed"))
            for key in (f"runs/run_{name}/header.json", f"results/run_{name}/table.arrow"):
                await TenantStore(store).put(key, f"{key}: {name}'s secret".encode())
    await store.close()
    await engine.close()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    await fill(tmp_path)
    runtime = Runtime(log_level="error", grace_s=0.5)
    async with dependencies("memory", runtime) as deps:
        service = build(Config(path=tmp_path / "memory.sqlite3"), deps)
        async with hosting(service, deps, runtime) as hosted:
            await hosted.warm
            yield Site(tmp_path, hosted.url)


async def test_nothing_of_an_erased_user_is_left_when_the_backups_of_before_are_gone(site: Site) -> None:
    await site.back_up()
    first = site.holders("anne's secret")
    assert len(first) == 3, "the database and the two objects of her run"
    said = await site.command(
        "memory", "erase", "--user", "user:anne", "--yes", "--memory", site.address,
        "--bus", "-", "--store", f"file://{site.folder / 'store'}",
    )  # fmt: skip
    assert "1 turns" in said
    assert "until `fathom backup create --keep N` has made N newer ones" in said
    await site.back_up()
    assert site.holders("anne's secret") == first, "in the backup of before alone, and not in the new one"
    said = await site.back_up()
    assert said.count("removed backup_") == 1
    assert site.holders("anne's secret") == []
    assert site.holders("run_anne") == []
    assert len(site.holders("bert's secret")) >= 3, "what others said stays"


def test_what_was_deleted_before_does_not_lie_in_free_pages_of_a_backup(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        # As builds of SQLite do that leave it to the program.
        writer.execute("pragma secure_delete = off")
        writer.execute("create table turns (answer text)")
        writer.executemany("insert into turns values (?)", [("anne's secret " * 1000,), ("bert's",)])
        writer.execute("delete from turns where answer like 'anne%'")
    assert b"anne's secret" in path.read_bytes()
    copy = tmp_path / "copy.sqlite3"
    copy.write_bytes(database(path))
    assert b"anne's secret" not in copy.read_bytes()
    with closing(sqlite3.connect(copy)) as reader:
        assert reader.execute("select answer from turns").fetchall() == [("bert's",)]


async def test_what_is_erased_is_overwritten_in_the_file_itself(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "memory.sqlite3")
    await engine.start()
    asked = await engine.database.run_transaction(lambda db: db.exec_driver_sql("pragma secure_delete").scalar_one())
    await engine.close()
    assert asked == 1, "whatever this build of SQLite does by default"


def test_a_file_that_is_no_database_is_no_backup(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    path.write_bytes(b"these are no pages of a database" * 1000)
    with pytest.raises(CorruptData, match=r"memory\.sqlite3"):
        database(path)
