"""Sessions leave nothing behind, at both levels and as both users; ``tests.bench leftovers`` does it a thousand times."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
