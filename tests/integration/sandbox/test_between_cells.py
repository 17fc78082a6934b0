"""What a cell has left running is bounded after its end too, also where no control group counts for us."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from fathom.core.errors import SessionLost
from fathom.services.sandbox.supervisor import session as session_module
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Status
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


async def look_until_lost(session: Session) -> str:
    """Look at an idle session as the engine does, until it is lost; return why."""

    async def is_lost() -> bool:
        await session.check_idle()
        return bool(session.lost_cause)

    await eventually(is_lost, within_s=120, every_s=0.1)
    return session.lost_cause


async def test_memory_that_a_child_takes_after_its_cell_ends_the_session(session: Session) -> None:
    code = """
import os, time
if os.fork() == 0:
    time.sleep(0.2)
    block = bytearray(b"x") * (600 << 20)
    time.sleep(600)
"""
    assert (await run(session, code))[1].status is Status.OK
    assert "between two cells it held" in await look_until_lost(session)
    with pytest.raises(SessionLost, match="between two cells it held"):
        await run(session, "1")


async def test_a_thread_that_goes_on_computing_ends_the_session(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "IDLE_CPU_S", 0.3)
    code = "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()"
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
