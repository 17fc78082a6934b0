"""Walls on a machine that is short of memory: the kernel drops what it can read again, and the rules have to hold."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Status
from tests.integration.sandbox.conftest import run_cell

pytestmark = pytest.mark.asyncio(loop_scope="module")

DROP_CACHES = Path("/proc/sys/vm/drop_caches")
LOOK = """
import os
print(len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd')) > 0)
for path in ('/proc/self/status', '/proc/self/maps', '/proc/cpuinfo', '/proc/meminfo'):
    print(path, len(open(path).read()) > 0)
"""


@pytest.mark.skipif(not os.access(DROP_CACHES, os.W_OK), reason="only root may ask the kernel to drop its caches")
async def test_a_session_reads_its_own_entries_after_the_kernel_has_dropped_them(walled_engine: Engine) -> None:
    session = await walled_engine.create()
    before, _ = await run_cell(session, LOOK)
    # Entries and inodes of file systems: what the kernel does by itself when memory is short.
    await asyncio.to_thread(DROP_CACHES.write_text, "2")
    after, outcome = await run_cell(session, LOOK)
    await walled_engine.close_session(session.id)
    assert (outcome.status, after) == (Status.OK, before), outcome
    assert before.count("True") == 5
