"""Level ``landlock`` on kernels with an older Landlock, as root and as nobody: what it says, and what it keeps from cells."""

from __future__ import annotations

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
ABIS = (5, 3, 1, 0)


@pytest.fixture(
    scope="module",
    params=[
        os.geteuid(),
        pytest.param(NOBODY, marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")),
    ],
)
def observations(request: pytest.FixtureRequest) -> dict[int, dict[str, Any]]:
    """Return what the program has seen as a user under each ABI, in a process that cannot become root again."""
    if landlock.find_abi() < landlock.SCOPES:
        pytest.skip("this kernel has not what is to be taken away here")
    uid = request.param
    command = [sys.executable, str(PROGRAM), str(uid if uid == NOBODY else 0), *map(str, ABIS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    found = {int(abi): one for abi, one in json.loads(done.stdout).items()}
    assert {one["uid"] for one in found.values() if "uid" in one} == {uid}
    return found


@pytest.mark.parametrize("abi", ABIS[:-1])
def test_before_linux_6_12_the_filter_keeps_signals_in_and_the_report_says_so(
    abi: int, observations: dict[int, dict[str, Any]]
) -> None:
    one = observations[abi]
    assert f"landlock ABI {abi}" in one["layers"]
    assert any(text.startswith(f"signals: Landlock ABI {abi} does not") for text in one["missing"])
    assert one["status"] == "OK"
    attempts = one["attempts"]
    assert {name: attempts.get(name) for name in REFUSED} == dict.fromkeys(REFUSED, "PermissionError")
    assert {attempts["own file"], attempts["renaming"]} == {"went through"}
    # What SECURITY.md says of the oldest ones: nothing moves between folders, and truncation is not theirs to refuse.
    assert attempts["moving"] == ("OSError" if abi < 2 else "went through")
    assert attempts["truncating"] == ("went through" if abi < 3 else "PermissionError")
    # What it may not signal itself goes with its session all the same.
    assert (one["started"], one["left"], one["neighbour"]) == (2, 0, "2")


def test_without_landlock_the_level_is_refused_by_name(observations: dict[int, dict[str, Any]]) -> None:
    assert "Landlock is not offered by this kernel" in observations[0]["refused"]
