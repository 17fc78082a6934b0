"""Sessions leave nothing behind, at both levels and as both users; ``tests.bench leftovers`` does it a thousand times."""

from __future__ import annotations

import asyncio
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fathom.services.sandbox.supervisor.host.scratch import PREFIX
from tests.integration.sandbox.conftest import make_engine
from tests.unit.sandbox.test_scratch_folders import KILLED

PROGRAM = Path(__file__).parent / "programs" / "leftovers.py"
NOBODY = 65_534


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("uid", [0, NOBODY])
@pytest.mark.parametrize("level", ["namespace", "landlock"])
async def test_sessions_leave_no_process_descriptor_or_byte(level: str, uid: int) -> None:
    command = [sys.executable, str(PROGRAM), level, str(uid), "8"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout)
    assert seen == {"ok": 8, "open": 0, "groups": 0, "processes": 0, "descriptors": 0, "bytes": 0}


async def test_an_engine_removes_at_its_start_what_a_killed_supervisor_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    command = (sys.executable, "-c", KILLED, str(tmp_path))
    killed = await asyncio.create_subprocess_exec(*command)
    assert await killed.wait() == -signal.SIGKILL
    (left,) = list_sessions(tmp_path)
    engine = make_engine(max_sessions=1, spares=0)
    await engine.start()
    try:
        assert left not in list_sessions(tmp_path)
    finally:
        await engine.close()


def list_sessions(parent: Path) -> list[str]:
    """Return the scratch folders of sessions of all supervisors."""
    return glob.glob(f"{parent}/{PREFIX}*/session-*")
