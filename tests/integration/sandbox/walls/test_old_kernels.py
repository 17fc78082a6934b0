"""Level ``landlock`` on kernels with an older Landlock, as root and as nobody: what it says, and what it keeps from cells."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fathom.services.sandbox.inside.jail import landlock

PROGRAM = Path(__file__).parents[1] / "programs" / "old_kernels.py"
NOBODY = 65_534
REFUSED = (
    "supervisor",
    "neighbour",
    "first process",
    "everybody",
    "child",
    "handle",
    "TCP",
    "abstract",
    "reading",
    "writing",
)
UIDS = pytest.mark.parametrize(
    "uid",
    [
        os.geteuid(),
        pytest.param(NOBODY, marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")),
    ],
)


async def run_program(abi: int, uid: int) -> dict[str, Any]:
    """Return what the program has seen as a user, in a process of its own, which cannot become root again."""
    if landlock.find_abi() < landlock.SCOPES:
        pytest.skip("this kernel has not what is to be taken away here")
    command = [sys.executable, str(PROGRAM), str(abi), str(uid if uid == NOBODY else 0)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@UIDS
@pytest.mark.parametrize("abi", [5, 3, 1])
async def test_before_linux_6_12_the_filter_keeps_signals_in_and_the_report_says_so(abi: int, uid: int) -> None:
    seen = await run_program(abi, uid)
    assert seen["uid"] == uid
    assert f"landlock ABI {abi}" in seen["layers"]
    assert any(text.startswith(f"signals: Landlock ABI {abi} does not") for text in seen["missing"])
    assert seen["status"] == "OK"
    attempts = seen["attempts"]
    assert {name: attempts.get(name) for name in REFUSED} == dict.fromkeys(REFUSED, "PermissionError")
    assert {attempts["own file"], attempts["renaming"]} == {"went through"}
    # What SECURITY.md says of the oldest ones: nothing moves between folders, and truncation is not theirs to refuse.
    assert attempts["moving"] == ("OSError" if abi < 2 else "went through")
    assert attempts["truncating"] == ("went through" if abi < 3 else "PermissionError")
    # What it may not signal itself goes with its session all the same.
    assert (seen["started"], seen["left"], seen["neighbour"]) == (2, 0, "2")


@UIDS
async def test_without_landlock_the_level_is_refused_by_name(uid: int) -> None:
    assert "Landlock is not offered by this kernel" in (await run_program(0, uid))["refused"]
