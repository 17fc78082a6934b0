"""Test that what a cell has left running is bounded after its end too, also where no control group counts for us."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from fathom.core.errors import SessionLost
from fathom.services.sandbox.supervisor import cell as cell_module
from fathom.services.sandbox.supervisor import session as session_module
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Status
from fathom.services.sandbox.supervisor.host.uids import has_processes
from fathom.services.sandbox.supervisor.session import Session
from tests.integration.sandbox.conftest import make_engine, run
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

MEMORY = 400 << 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Engine]:
    """Start an engine without control groups, as the chart does."""
    engine = make_engine(
        max_sessions=2, spares=0, cgroups=False, memory_bytes=MEMORY, processes=8, interrupt_grace_s=60.0
    )
    await engine.start()
    yield engine
    await engine.close()


@pytest_asyncio.fixture(loop_scope="module")
async def session(engine: Engine) -> AsyncIterator[Session]:
    session = await engine.create()
    yield session
    await engine.close_session(session.id)


async def test_a_session_that_cannot_be_looked_at_keeps_no_other_from_it(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await engine.create()
    looks: list[str] = []

    async def fail() -> None:
        raise OSError("its processes cannot be read")

    async def look() -> None:
        looks.append(other.id)

    monkeypatch.setattr(session, "check_idle", fail)
    monkeypatch.setattr(other, "check_idle", look)
    await eventually(lambda: len(looks) > 2)
    await engine.close_session(other.id)


async def look_until_lost(session: Session) -> str:
    """Look at an idle session as the engine does, until it is lost; return why."""

    async def is_lost() -> bool:
        await session.check_idle()
        return bool(session.lost_cause)

    await eventually(is_lost, within_s=120, every_s=0.1)
    return session.lost_cause


# What a cell has left running begins when it is told that the cell has ended, however slow the machine is.
LEFT_RUNNING = """
import os, time
if os.fork() == 0:
    while not os.path.exists("cell has ended"): time.sleep(0.01)
"""


async def run_and_tell(engine: Engine, session: Session, left_running: str) -> None:
    """Run a cell that leaves a child, and tell the child when the cell has ended."""
    assert (await run(session, LEFT_RUNNING + left_running))[1].status is Status.OK
    await engine.put_file(session.id, "cell has ended", b"")


async def test_memory_that_a_child_takes_after_its_cell_ends_the_session(engine: Engine, session: Session) -> None:
    await run_and_tell(engine, session, '    block = bytearray(b"x") * (600 << 20)\n    time.sleep(600)')
    assert "between two cells it held" in await look_until_lost(session)
    with pytest.raises(SessionLost, match="between two cells it held"):
        await run(session, "1")


async def test_memory_that_a_child_takes_beside_short_cells_ends_the_session(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine is, each cell is over before its own watch begins.
    monkeypatch.setattr(cell_module, "FIRST_WATCH_S", 600.0)
    monkeypatch.setattr(session, "config", session.config.model_copy(update={"cells": 1_000_000}))
    child = "import os, time\nif os.fork() == 0:\n    block = bytearray(b'x') * (600 << 20)\n    time.sleep(600)"
    assert (await run(session, child))[1].status is Status.OK

    async def ask_until_lost() -> str:
        try:
            while not (outcome := (await run(session, "time.sleep(0.005)"))[1]).session_lost:
                pass
        except SessionLost as lost:
            return lost.message
        return outcome.cause

    # Two callers, so that one's cell waits when the other's ends: the session is never idle.
    async with asyncio.timeout(120):
        causes = await asyncio.gather(ask_until_lost(), ask_until_lost())
    assert all("bytes are over" in cause for cause in causes), causes


async def test_a_thread_that_goes_on_computing_ends_the_session(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "IDLE_CPU_S", 0.3)
    code = "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()"
    assert (await run(session, code))[1].status is Status.OK
    assert await look_until_lost(session) == "between two cells it used more than 0.3 s of CPU"


async def test_too_many_processes_after_a_cell_end_the_session(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on kernels where nothing but the watch counts them.
    monkeypatch.setattr(session, "config", session.config.model_copy(update={"processes": 3}))
    await run_and_tell(engine, session, "    os.fork() and os.fork() and os.fork()\n    time.sleep(600)")
    assert await look_until_lost(session) == "between two cells it had more than 3 processes"


async def test_processes_that_go_on_computing_end_the_session(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "IDLE_CPU_S", 0.3)
    code = "import os\nif os.fork() == 0:\n    os.fork()\n    while True: pass"
    assert (await run(session, code))[1].status is Status.OK
    assert await look_until_lost(session) == "between two cells it used more than 0.3 s of CPU"


async def test_what_cells_themselves_use_is_not_counted(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "IDLE_CPU_S", 0.3)
    await run(session, "kept = 1")
    await session.check_idle()
    busy = "import time\nuntil = time.process_time() + 0.5\nwhile time.process_time() < until: pass"
    for _ in range(2):
        await run(session, busy)
        await session.check_idle()
    await session.check_idle()
    assert (await run(session, "kept"))[1].result == "1"


async def test_files_in_memory_cannot_be_made_where_nothing_counts_them(session: Session) -> None:
    # Two gigabytes in such a file, never mapped, were in nobody's resident memory.
    _, outcome = await run(session, "import os\nos.memfd_create('hidden')")
    assert outcome.error_name == "PermissionError"


# The worker's own words for the end of a cell, written by the cell, which then goes on.
FORGED_END = """
import gc, time
channel = next(found for found in gc.get_objects() if type(found).__name__ == "Channel")
channel.send_result({"result": "forged"})
"""


async def test_a_cell_that_reports_its_own_end_has_no_more_time(session: Session) -> None:
    _, outcome = await run(session, FORGED_END + "time.sleep(600)", wall_ms=500)
    assert (outcome.status, outcome.cause) == (Status.TIMEOUT, "the cell ran longer than 0.5 s")
    assert outcome.duration_ms >= 500


async def test_a_cell_that_reports_its_own_end_has_no_more_memory(session: Session) -> None:
    _, outcome = await run(session, FORGED_END + "block = bytearray(b'x') * (600 << 20)\ntime.sleep(600)")
    assert (outcome.status, outcome.session_lost) == (Status.OOM, True)


async def test_what_has_left_a_landlocked_session_ends_with_its_user() -> None:
    """A daemon with an empty environment, whose session's first process ended without telling anybody."""
    if os.geteuid():
        pytest.skip("without root sessions have no users of their own")
    engine = make_engine(max_sessions=1, spares=0, walls="landlock", min_isolation="landlock", cgroups=False)
    await engine.start()
    try:
        session = await engine.create()
        code = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        try:
            os.execve(sys.executable, ["python", "-c", "import time; time.sleep(600)"], {})
        except PermissionError:
            time.sleep(600)  # a Python below root's home cannot be executed again: the environment stays
    os._exit(0)
os.wait()
"""
        outcome = (await run(session, code))[1]
        assert outcome.status is Status.OK, outcome.traceback
        uid = os.stat(f"/proc/{session.worker.pid}").st_uid
        assert has_processes(uid)
        os.kill(session.worker.init_pid, signal.SIGKILL)
        await asyncio.wait_for(session.worker.exited.wait(), 60)
        await eventually(lambda: not has_processes(uid))
    finally:
        await engine.close()
