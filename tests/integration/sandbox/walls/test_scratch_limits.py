"""Scratch folders on a disk of the host's are bounded by the watch: in cells, between them, and for callers' files."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from fathom.core.errors import InvalidField, PayloadTooLarge, SessionLost
from fathom.services.sandbox.supervisor import cell as cell_module
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Status
from fathom.services.sandbox.supervisor.session import Session
from tests.integration.sandbox.conftest import make_engine, run
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1 << 20
# Begins when the caller says that the cell has ended, however slow the machine is.
LEFT_RUNNING = """
import os, time
if os.fork() == 0:
    while not os.path.exists("cell has ended"): time.sleep(0.01)
    for number in range(100): open(f"{number}", "w").close()
    time.sleep(600)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Engine]:
    engine = make_engine(
        walls="landlock", min_isolation="landlock", cgroups=False, max_sessions=2, spares=0,
        scratch_bytes=4 * MIB, scratch_files=50,
    )  # fmt: skip
    await engine.start()
    yield engine
    await engine.close()


@pytest_asyncio.fixture(loop_scope="module")
async def session(engine: Engine) -> AsyncIterator[Session]:
    session = await engine.create()
    yield session
    await engine.close_session(session.id)


async def run_short_cells(session: Session) -> None:
    """Run one short cell after the other until the session is lost."""
    while True:
        await run(session, "time.sleep(0.005)")


async def test_files_that_are_allowed_change_nothing(session: Session) -> None:
    code = f"open('full', 'wb').write(bytes({4 * MIB}))\nimport time\ntime.sleep(0.5)\n'done'"
    _, outcome = await run(session, code)
    assert (outcome.status, outcome.result) == (Status.OK, "'done'"), outcome
    await session.check_idle()
    assert session.lost_cause == ""


async def test_many_bytes_in_small_files_end_the_cell(session: Session) -> None:
    code = f"for name in range(40): open(str(name), 'wb').write(bytes({MIB}))\nimport time\ntime.sleep(600)"
    _, outcome = await run(session, code)
    assert (outcome.status, outcome.session_lost) == (Status.DISK_LIMIT, True)
    assert outcome.cause == "more than 4,194,304 bytes in the scratch folder"
    with pytest.raises(SessionLost, match="more than 4,194,304 bytes"):
        await run(session, "1")


async def test_files_made_after_a_cell_end_the_session(engine: Engine, session: Session) -> None:
    assert (await run(session, LEFT_RUNNING))[1].status is Status.OK
    await engine.put_file(session.id, "cell has ended", b"")
    await eventually(lambda: bool(session.lost_cause), within_s=60)
    assert session.lost_cause == "between two cells it had more than 50 files and folders in the scratch folder"


async def test_files_made_beside_short_cells_end_the_session(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine is, each cell is over before its own watch begins.
    monkeypatch.setattr(cell_module, "FIRST_WATCH_S", 600.0)
    monkeypatch.setattr(session, "config", session.config.model_copy(update={"cells": 1_000_000}))
    assert (await run(session, LEFT_RUNNING))[1].status is Status.OK
    await engine.put_file(session.id, "cell has ended", b"")
    with pytest.raises(SessionLost, match="more than 50 files"):
        await run_short_cells(session)


async def test_a_callers_file_that_has_no_room_is_refused_and_costs_the_session_nothing(
    engine: Engine, session: Session
) -> None:
    await engine.put_file(session.id, "first", bytes(3 * MIB))
    with pytest.raises(PayloadTooLarge, match=f"{2 * MIB}|2,097,152"):
        await engine.put_file(session.id, "second", bytes(2 * MIB))
    for number in range(49):
        await engine.put_file(session.id, f"{number}", b"")
    with pytest.raises(InvalidField, match="at most 50 files and folders"):
        await engine.put_file(session.id, "one more", b"")
    await session.check_idle()
    assert (await run(session, "import os\nlen(os.listdir())"))[1].result == "50"
