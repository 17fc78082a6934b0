"""Scratch folders: a supervisor that was killed leaves some behind, and the next one removes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fathom.services.sandbox.supervisor.host.scratch import ScratchFolders

KILLED = """
import os, signal, sys
from pathlib import Path
from fathom.services.sandbox.supervisor.host.scratch import ScratchFolders
folder = ScratchFolders(sys.argv[1]).create(-1)
Path(folder, "deep").mkdir()
Path(folder, "deep", "data").write_bytes(b"x" * 1000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_supervisor_leaves_is_removed_and_a_living_ones_stays(tmp_path: Path) -> None:
    living, next_one = ScratchFolders(str(tmp_path)), ScratchFolders(str(tmp_path))
    kept = Path(living.create(-1))
    (kept / "data").write_text("still needed")
    assert next_one.sweep() == 0
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    assert next_one.sweep() == 1
    assert (kept / "data").read_text() == "still needed"
    living.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_lock_is_nobodys_to_remove(tmp_path: Path) -> None:
    stranger = tmp_path / "fathom-sessions-mine"
    stranger.mkdir()
    (stranger / "lock").symlink_to(tmp_path / "elsewhere")
    assert ScratchFolders(str(tmp_path)).sweep() == 0
    assert stranger.is_dir()
