"""Two engines on one PostgreSQL, as two replicas have it, and a database that is away for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

import pytest
import pytest_asyncio

from fathom.core import errors
from fathom.services.memory import database
from fathom.services.memory.database import Database
from fathom.services.memory.engine import Engine, Judgement, Turn
from fathom.services.memory.migrating import REVISION_TABLE
from tests.unit.memory.judgements import list_judgements

psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")
TURN = Turn("why?", "", "It rose by 1.5%.", "run_1")


@pytest_asyncio.fixture
async def two(empty_postgres: str) -> AsyncIterator[tuple[Engine, Engine]]:
    engines = Engine(empty_postgres), Engine(empty_postgres)
    # At once: one of them makes the tables, and the other waits for them.
    await asyncio.gather(*(engine.start() for engine in engines))
    yield engines
    for engine in engines:
        await engine.close()


async def test_turns_of_two_replicas_are_numbered_without_gaps(two: tuple[Engine, Engine]) -> None:
    stored = await asyncio.gather(*(two[n % 2].append(f"r{n}", "c", TURN) for n in range(20)))
    listed, _ = await two[0].list_turns("c", 100)
    assert [turn.number for turn in listed] == list(range(1, 21))
    assert sorted(turn.number for turn in stored) == list(range(1, 21))


async def test_equal_requests_to_two_replicas_are_one_turn(two: tuple[Engine, Engine]) -> None:
    stored = await asyncio.gather(*(two[n % 2].append("same", "c", TURN) for n in range(10)))
    assert len(set(stored)) == 1
    assert (await two[1].list_turns("c"))[0] == [stored[0]]
    await asyncio.gather(*(two[n % 2].record_feedback("same", Judgement("run_1", True)) for n in range(10)))
    assert len(await list_judgements(two[0])) == 1


async def test_equal_requests_for_two_conversations_are_a_conflict(two: tuple[Engine, Engine]) -> None:
    said = await asyncio.gather(*(two[n % 2].append("same", f"c{n}", TURN) for n in range(6)), return_exceptions=True)
    assert sum(isinstance(item, Turn) for item in said) == 1
    assert sum(isinstance(item, errors.Conflict) for item in said) == 5
    # The conversations of the refused ones were undone with them.
    assert len((await two[0].list_conversations())[0]) == 1


async def test_of_two_edits_of_one_version_one_is_stored(two: tuple[Engine, Engine]) -> None:
    await two[0].append("r", "c", TURN)
    said = await asyncio.gather(*(two[n].update("c", f"of {n}", None, 1) for n in (0, 1)), return_exceptions=True)
    (refused,) = (item for item in said if isinstance(item, BaseException))
    assert isinstance(refused, errors.Conflict)
    assert refused.code == "ABORTED"
    (edited,) = (item for item in said if not isinstance(item, BaseException))
    assert (await two[0].list_conversations())[0] == [edited]


async def test_a_database_that_is_away_is_unavailable_and_comes_back(two: tuple[Engine, Engine], postgres: str) -> None:
    engine = two[0]
    await engine.append("r1", "c", TURN)
    with closing(psycopg.connect(postgres, dbname="template1", autocommit=True)) as server:
        name = psycopg.conninfo.conninfo_to_dict(postgres)["dbname"]
        states = engine.database.watch(probe_s=0.01)
        try:
            server.execute(f'alter database "{name}" allow_connections false')
            server.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
            with pytest.raises(errors.DependencyFailed, match="memory's database") as away:
                await engine.append("r2", "c", TURN)
            assert away.value.code == "UNAVAILABLE"
            # An answer's address is nobody's affair.
            assert name not in str(away.value)
            assert await anext(states) is False
        finally:
            server.execute(f'alter database "{name}" allow_connections true')
        assert await anext(states) is True
        await states.aclose()  # type: ignore[attr-defined]
    assert (await engine.append("r2", "c", TURN)).number == 2


async def test_connections_that_the_server_closed_are_made_anew(two: tuple[Engine, Engine], postgres: str) -> None:
    await two[0].append("r1", "c", TURN)
    with closing(psycopg.connect(postgres, autocommit=True)) as server:
        server.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
    assert (await two[0].append("r2", "c", TURN)).number == 2


async def test_a_server_that_never_comes_ends_the_start(empty_postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "START_S", 0.01)
    address = f"{empty_postgres.partition('?')[0].rpartition('/')[0]}/none?{empty_postgres.partition('?')[2]}"
    with pytest.raises(errors.DependencyFailed, match="none"):
        await Database(address).open()


async def test_a_server_ahead_is_refused_and_left_alone(two: tuple[Engine, Engine], postgres: str) -> None:
    with closing(psycopg.connect(postgres, autocommit=True)) as server:
        ((own,),) = server.execute(f"select version_num from {REVISION_TABLE}").fetchall()
        server.execute(f"update {REVISION_TABLE} set version_num = '99'")
        with pytest.raises(errors.FailedPrecondition, match="is of revision 99"):
            await Engine(postgres).start()
        assert server.execute(f"select version_num from {REVISION_TABLE}").fetchall() == [("99",)]
        # The tables serve the tests that follow.
        server.execute(f"update {REVISION_TABLE} set version_num = %s", (own,))


@pytest.mark.parametrize("place", ["mysql://host/db", "postgresql://host", "no url", "sqlite:///x"])
def test_an_address_that_is_no_postgresql_is_refused(place: str) -> None:
    with pytest.raises(errors.InvalidField, match="database_url"):
        Database(place)
