"""Both databases of the memory service: a SQLite file, and a PostgreSQL server that is started once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.services.memory.engine import Engine
from tests.support.postgres import serve_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with serve_postgres() as url:
        yield url


@pytest.fixture
def empty_postgres(postgres: str) -> str:
    """Return the URL of a database without tables."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("set client_min_messages = warning")
        connection.execute("drop schema public cascade")
        connection.execute("create schema public")
    return postgres


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Return where a database without rows is: the path of a file, or a URL."""
    if request.param == "sqlite":
        return tmp_path / "memory.sqlite3"
    import psycopg

    url: str = request.getfixturevalue("postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        # Faster than making the tables anew for every test.
        if connection.execute("select to_regclass('conversations')").fetchone() != (None,):
            names = "conversations, sheet_views, turns, feedback, segments, pages, facts, stances, review_items, review_decisions"
            connection.execute(f"truncate {names} restart identity")
    return url


@pytest_asyncio.fixture
async def engine(place: Path | str) -> AsyncIterator[Engine]:
    engine = Engine(place)
    await engine.start()
    yield engine
    await engine.close()
