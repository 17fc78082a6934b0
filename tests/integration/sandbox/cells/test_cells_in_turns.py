"""Cells that compute for long are paused while others begin, and notice nothing but the time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from fathom.core.call import Lane
from fathom.services.sandbox.supervisor import engine as engine_module
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Status
from fathom.services.sandbox.supervisor.host.resting import read_state
from fathom.services.sandbox.supervisor.session import Session
from tests.integration.sandbox.conftest import begin_cell, descendants, make_engine, run
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Two that compute until a file comes, the second with a child.
UNTIL_FILE = "import os\nwhile not os.path.exists('enough'): pass\n'done'"
WITH_CHILD = f"import os\nif os.fork() == 0:\n    while True: pass\n{UNTIL_FILE}"
# An orphan in a session of its own, which no signal to the worker's group reaches.
WITH_DAEMON = f"""
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True: pass
    os._exit(0)
os.wait()
{UNTIL_FILE}
"""


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[("namespace", True), ("namespace", False), ("landlock", False)],
    ids=["group", "no group", "landlock"],
)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    """Start an engine that takes the machine for one with a single processor."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_module, "count_cores", lambda: 1)
        walls, cgroups = request.param
        engine = make_engine(
            max_sessions=3, reserved_sessions=0, spares=0, walls=walls, min_isolation=walls, cgroups=cgroups
        )
        await engine.start()
    yield engine
    await engine.close()


@asynccontextmanager
async def short_cells(engine: Engine) -> AsyncIterator[None]:
    """Run one short cell after the other in a session for the duration of the context."""
    session = await engine.create()

    async def repeat() -> None:
        while True:
            outcome = (await run(session, "1"))[1]
            assert outcome.status is Status.OK
            session.cells = 0  # as if restarted: they are many

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await engine.close_session(session.id)


@pytest_asyncio.fixture(loop_scope="module")
async def sessions(engine: Engine) -> AsyncIterator[list[Session]]:
    found = [await engine.create() for _ in range(2)]
    yield found
    for session in found:
        await engine.close_session(session.id)


def is_paused(session: Session) -> bool:
    return read_state(session.worker.pid) == b"T"


async def test_cells_that_are_paused_in_turns_end_as_others_do(engine: Engine, sessions: list[Session]) -> None:
    tasks = [await begin_cell(session, code) for session, code in zip(sessions, (UNTIL_FILE, WITH_CHILD), strict=True)]
    async with short_cells(engine):
        for session in (*sessions, *sessions):
            await eventually(lambda session=session: is_paused(session))  # type: ignore[arg-type, misc]
            await eventually(lambda session=session: not is_paused(session))  # type: ignore[arg-type, misc]
        for session in sessions:
            await engine.put_file(session.id, "enough", b"")
        for _, outcome in await asyncio.gather(*tasks):
            assert (outcome.status, outcome.result) == (Status.OK, "'done'")
        # What a session runs next is as quick as ever, and what it has left running goes on.
        assert not any(map(is_paused, sessions))
        assert (await run(sessions[0], "1 + 1"))[1].result == "2"


async def test_what_has_left_the_group_of_its_worker_is_paused_with_it(engine: Engine, sessions: list[Session]) -> None:
    tasks = [await begin_cell(session, code) for session, code in zip(sessions, (WITH_DAEMON, UNTIL_FILE), strict=True)]

    def read_states() -> list[bytes]:
        return [read_state(pid) for pid in descendants(sessions[0].worker.init_pid)]

    async with short_cells(engine):
        await eventually(lambda: read_states() == [b"T", b"T"])
        await eventually(lambda: len(read_states()) == 2 and b"T" not in read_states())
        await eventually(lambda: read_states() == [b"T", b"T"])
        for session in sessions:
            await engine.put_file(session.id, "enough", b"")
        for _, outcome in await asyncio.gather(*tasks):
            assert (outcome.status, outcome.result) == (Status.OK, "'done'")
    await eventually(lambda: b"T" not in read_states())


async def test_a_paused_cell_hears_an_interrupt_and_keeps_its_variables(
    engine: Engine, sessions: list[Session]
) -> None:
    await run(sessions[0], "x = 42")
    tasks = [await begin_cell(session, UNTIL_FILE) for session in sessions]
    async with short_cells(engine):
        await eventually(lambda: is_paused(sessions[0]))
        assert await sessions[0].interrupt()
        outcome = (await tasks[0])[1]
        assert (outcome.status, outcome.session_lost) == (Status.INTERRUPTED, False)
        assert (await run(sessions[0], "x"))[1].result == "42"
    # One that is alone with those that begin needs no pause; its end while it computes is as quick.
    assert await sessions[1].interrupt()
    assert (await tasks[1])[1].status is Status.INTERRUPTED


async def test_a_paused_cell_that_is_closed_leaves_nothing(engine: Engine, sessions: list[Session]) -> None:
    tasks = [await begin_cell(session, WITH_CHILD) for session in sessions]
    async with short_cells(engine):
        await eventually(lambda: is_paused(sessions[0]))
        worker = sessions[0].worker
        await sessions[0].restart(await engine._take_worker())
        assert (await tasks[0])[1].status is Status.KILLED
        assert worker.exited.is_set()
        await eventually(lambda: read_state(worker.pid) in (b"", b"Z"))
    assert await sessions[1].interrupt()
    await tasks[1]


async def test_a_person_who_opens_a_session_finds_the_others_paused(engine: Engine, sessions: list[Session]) -> None:
    tasks = [await begin_cell(session, UNTIL_FILE) for session in sessions]

    async def open_and_look() -> bool:
        opened = await engine.create(lane=Lane.INTERACTIVE)
        is_one_paused = any(map(is_paused, sessions))
        await engine.close_session(opened.id)
        return is_one_paused

    # Not the first time, perhaps: they may not have computed for long enough.
    found: bool = await eventually(open_and_look)
    assert found
    for session, task in zip(sessions, tasks, strict=True):
        assert await session.interrupt()
        assert (await task)[1].status is Status.INTERRUPTED
