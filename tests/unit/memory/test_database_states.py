"""A database that is full, slow, or one revision behind, and two tabs and an eleventh turn on both databases."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text

from fathom.core import errors
from fathom.core.call import Call, calling
from fathom.services.memory import database
from fathom.services.memory.engine import Engine, Turn
from fathom.services.memory.migrating import FOLDER, REVISION_TABLE


async def test_the_eleventh_turn_pushes_out_the_first(engine: Engine) -> None:
    for number in range(1, 13):
        await engine.append(f"r{number}", "c", Turn(f"Q{number}", "", f"It rose {number}.5%.", ""))
        window, omitted = await engine.get_window("c", 2, 10)
        assert omitted == max(0, number - 10)
        assert [turn.number for turn in window] == list(range(max(1, number - 9), number + 1))
        assert [bool(turn.answer) for turn in window] == [turn.number > number - 2 for turn in window]


async def test_of_edits_from_two_tabs_the_second_is_told(engine: Engine) -> None:
    await engine.append("r", "c", Turn("why?", "", "so", ""))
    await engine.update("c", "of the first tab", None, 1)
    with pytest.raises(errors.Conflict) as refused:
        await engine.update("c", "of the second tab", None, 1)
    assert refused.value.metadata["version"] == "2"
    assert (await engine.list_conversations())[0][0].title == "of the first tab"


async def test_a_full_database_refuses_the_turn_and_keeps_what_it_has(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "memory.sqlite3")
    await engine.start()
    await engine.append("r1", "c", Turn("why?", "", "so", ""))

    def fill(db: Connection) -> None:
        pages = db.execute(text("pragma page_count")).scalar_one()
        db.execute(text(f"pragma max_page_count = {pages}"))

    await engine.database.run_transaction(fill)
    with pytest.raises(errors.DependencyFailed, match="full"):
        await engine.append("r2", "c", Turn("why?", "", "so " * 100_000, ""))
    await engine.database.run_transaction(lambda db: db.execute(text("pragma max_page_count = 100000")))
    assert [turn.number for turn in (await engine.list_turns("c"))[0]] == [1]
    assert (await engine.append("r2", "c", Turn("why?", "", "so", ""))).number == 2
    await engine.close()


FILL = """
create function refuse() returns trigger language plpgsql as $$
begin raise exception 'could not extend file "base/1/2": No space left on device' using errcode = 'disk_full'; end $$;
create trigger full_disk before insert on turns for each row execute function refuse();
"""


async def test_a_full_disk_of_postgresql_refuses_the_turn_as_a_full_file_does(
    empty_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "RETRY_S", 0.1)
    engine = Engine(empty_postgres)
    await engine.start()
    await engine.append("r1", "c", Turn("why?", "", "so", ""))
    # The server's own error with its SQLSTATE; a disk that is full for one table needs no rights of root this way.
    await engine.database.run_transaction(lambda db: db.exec_driver_sql(FILL))
    with pytest.raises(errors.DependencyFailed, match="disk is full") as refused:
        await engine.append("r2", "c", Turn("why?", "", "so", ""))
    assert "base/1/2" not in refused.value.message, "files of the server are the operator's affair"
    assert [turn.number for turn in (await engine.list_turns("c"))[0]] == [1], "what is there can be read"
    await engine.database.run_transaction(lambda db: db.exec_driver_sql("drop trigger full_disk on turns"))
    assert (await engine.append("r2", "c", Turn("why?", "", "so", ""))).number == 2
    await engine.close()


async def test_a_call_whose_deadline_has_passed_writes_nothing(engine: Engine) -> None:
    await engine.append("r1", "c", Turn("why?", "", "so", ""))
    with calling(Call.new(timeout_s=0.0)), pytest.raises(errors.DeadlineExceeded):
        await engine.append("r2", "c", Turn("why?", "", "so", ""))
    assert len((await engine.list_turns("c"))[0]) == 1


async def test_a_file_that_another_process_writes_gives_typed_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each attempt waits longer for the lock than the second caller has time.
    monkeypatch.setattr(database, "BUSY_S", 0.2)
    path = tmp_path / "memory.sqlite3"
    engine = Engine(path)
    await engine.start()

    async def append(request: str, timeout_s: float) -> Turn:
        with calling(Call.new(timeout_s=timeout_s)):
            return await engine.append(request, "c", Turn("why?", "", "so", ""))

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        first, second = await asyncio.gather(append("r1", 0.3), append("r2", 0.1), return_exceptions=True)
        assert isinstance(first, errors.DependencyFailed)
        assert "locked" in first.message
        assert isinstance(second, errors.DeadlineExceeded), "it waited behind the first one"
        other.execute("rollback")
    assert (await engine.append("r1", "c", Turn("why?", "", "so", ""))).number == 1
    await engine.close()


async def test_a_statement_that_hangs_is_ended_by_postgresql(
    empty_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0.1)
    monkeypatch.setattr(database, "RETRY_S", 0.1)
    engine = Engine(empty_postgres)
    await engine.start()
    with pytest.raises(errors.DependencyFailed):
        await engine.database.run_transaction(lambda db: db.execute(text("select pg_sleep(60)")))
    await engine.append("r1", "c", Turn("why?", "", "so", ""))
    await engine.close()


SCRIPTS = ScriptDirectory(str(FOLDER))
HEAD = SCRIPTS.get_current_head()


@pytest.fixture(params=["sqlite", "postgres"])
def empty_place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Return where a database without tables is: the path of a file, or a URL."""
    if request.param == "sqlite":
        return tmp_path / "memory.sqlite3"
    url: str = request.getfixturevalue("empty_postgres")
    return url


# The one before the newest first. Rows before revision 3 had another form, and PostgreSQL came with it.
@pytest.mark.parametrize("revision", [one.revision for one in SCRIPTS.walk_revisions("3", "head")][1:])
async def test_a_database_of_an_earlier_revision_is_upgraded_with_its_turns(
    empty_place: Path | str, revision: str
) -> None:
    url = f"sqlite:///{empty_place}" if isinstance(empty_place, Path) else database.parse_url(empty_place)
    made = create_engine(url)
    with made.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(FOLDER))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.execute(
            text("insert into conversations (tenant, id, title, updated) values ('default', 'c', 't', 1)")
        )
        connection.execute(
            text(
                "insert into turns (tenant, conversation, number, request, question, rewritten, answer, run, ended,"
                " bullets) values ('default', 'c', 1, 'r1', 'why?', '', 'so', '', 1, '[]')"
            )
        )
    engines = [Engine(empty_place) for _ in range(2)]
    await asyncio.gather(*(engine.start() for engine in engines))
    (turn,), _ = await engines[0].list_turns("c")
    assert turn.answer == "so"
    assert (await engines[1].append("r2", "c", Turn("and?", "", "so", ""))).number == 2
    for engine in engines:
        await engine.close()
    with made.connect() as connection:
        assert connection.execute(text(f"select version_num from {REVISION_TABLE}")).scalars().all() == [HEAD]
    made.dispose()
