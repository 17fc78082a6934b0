"""A middle-term memory on both databases, whose background work the tests do themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import Connection, text

from fathom.services.memory.engine import Engine, Turn
from fathom.services.memory.segments.filing import Bounds
from fathom.services.memory.segments.middle import MiddleTerm
from fathom.services.memory.segments.searching import Found, Wanted
from fathom.services.memory.segments.summarising import Writer
from tests.unit.memory.segments.vectors import WordVectors

DAY = 86_400.0
# 1 January 2026.
START = 1_767_225_600.0


@dataclass
class Memory:
    """Engine and middle-term memory with a clock that tests set."""

    engine: Engine
    vectors: WordVectors
    now: list[float]
    middle: MiddleTerm = field(init=False)

    def __post_init__(self) -> None:
        self.middle = self.make()

    def make(self, bounds: Bounds | None = None, writer: Writer | None = None) -> MiddleTerm:
        return MiddleTerm(self.engine.database, self.vectors, writer, bounds, clock=lambda: self.now[0])

    async def say(self, question: str, answer: str, conversation: str = "c", days: float = 0.0) -> Turn:
        """Append a turn; ``days`` pass before it."""
        self.now[0] += days * DAY or 1.0
        request = f"r{round(self.now[0] * 10)}-{conversation}"
        return await self.engine.append(request, conversation, Turn(question, "", answer, "run_1"))

    async def file(self) -> None:
        while await self.middle.file_all():
            pass

    async def search(self, question: str, **wanted: object) -> Found:
        return await self.middle.search(Wanted(question, **wanted))  # type: ignore[arg-type]

    async def count(self, table: str) -> int:
        def work(db: Connection) -> int:
            return int(db.execute(text(f"select count(*) from {table}")).scalar_one())

        return await self.engine.database.run_transaction(work)


@pytest.fixture
def clock() -> list[float]:
    return [START]


@pytest_asyncio.fixture
async def memory(place: Path | str, clock: list[float]) -> AsyncIterator[Memory]:
    tick: Callable[[], float] = lambda: clock[0]  # noqa: E731
    engine = Engine(place, clock=tick)
    await engine.start()
    yield Memory(engine, WordVectors(), clock)
    await engine.close()
