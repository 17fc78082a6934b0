"""Counting of a scratch folder whose owner wants its files to be overlooked."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fathom.services.sandbox.supervisor.host.scratch_use import (
    MAX_NESTING,
    SLACK_BYTES,
    ScratchLimits,
    ScratchUse,
    measure_scratch,
)

LIMITS = ScratchLimits(size_bytes=4 << 20, files=20)
NOBODY = 65_534


def measure(folder: Path, pids: tuple[int, ...] = (), limits: ScratchLimits = LIMITS) -> ScratchUse:
    return measure_scratch(str(folder), pids, limits)


def test_files_and_folders_of_all_names_and_depths_count(tmp_path: Path) -> None:
    (tmp_path / "a" / ".hidden").mkdir(parents=True)
    (tmp_path / "a" / ".hidden" / "new\nline").write_bytes(bytes(1 << 20))
    (tmp_path / "link").symlink_to("/")
    use = measure(tmp_path)
    assert (use.files, use.excess) == (4, "")
    assert 1 << 20 <= use.size_bytes < 2 << 20
    # Nothing is behind a link, and nothing is left of a session that has ended.
    assert measure(tmp_path / "none").files == 0


def test_one_file_too_many_is_too_many(tmp_path: Path) -> None:
    for number in range(LIMITS.files):
        (tmp_path / f"{number}").touch()
    assert measure(tmp_path).excess == ""
    (tmp_path / "more").mkdir()
    assert measure(tmp_path).excess == "more than 20 files and folders in the scratch folder"
    # However many there are, no more of them are looked at.
    for number in range(LIMITS.files):
        (tmp_path / "more" / f"{number}").touch()
    assert measure(tmp_path).files == LIMITS.files + 1


def test_bytes_are_those_on_the_disk(tmp_path: Path) -> None:
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 40)
    # A second name takes nothing.
    (tmp_path / "full").write_bytes(bytes(LIMITS.size_bytes))
    os.link(tmp_path / "full", tmp_path / "again")
    assert measure(tmp_path).excess == ""
    (tmp_path / "more").write_bytes(bytes(2 * SLACK_BYTES))
    assert measure(tmp_path).excess == "more than 4,194,304 bytes in the scratch folder"


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[int]:
    """A process that has a file of six megabytes open, twice, which has no name any more."""
    code = (
        "import os\nfile = open('held', 'wb')\nfile.write(bytes(6 << 20))\nfile.flush()\nos.dup(file.fileno())\n"
        "os.unlink('held')\nprint('ready', flush=True)\ninput()"
    )
    command = (sys.executable, "-c", code)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate("\n")


def test_a_removed_file_counts_once_as_long_as_it_is_open(tmp_path: Path, holder: int) -> None:
    use = measure(tmp_path, (holder,), ScratchLimits(size_bytes=8 << 20, files=20))
    assert use.files == 1
    assert 6 << 20 <= use.size_bytes < 7 << 20
    assert measure(tmp_path, (holder,)).excess == "more than 4,194,304 bytes in the scratch folder"
    # A process that has ended, or that is somebody else's, has none.
    assert measure(tmp_path, (2**22 + 1,)).excess == ""


def test_folders_in_folders_end_somewhere(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"d" * (MAX_NESTING - 1))
    deep.mkdir(parents=True)
    limits = ScratchLimits(size_bytes=4 << 20, files=100)
    before = len(os.listdir("/proc/self/fd"))
    assert measure(tmp_path, limits=limits).excess == ""
    (deep / "d").mkdir()
    assert measure(tmp_path, limits=limits).excess == "folders in the scratch folder that are more than 31 deep"
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_a_folder_that_its_owner_closes_hides_nothing() -> None:
    """Root reads every folder; a service without privileges says that it cannot."""
    # Not pytest's folder, which nobody else may enter.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        closed = Path(folder) / "closed"
        closed.mkdir()
        (closed / "file").touch()
        os.chown(closed, NOBODY, NOBODY)
        closed.chmod(0)
        assert (measure(Path(folder)).files, measure(Path(folder)).excess) == (2, "")
        os.seteuid(NOBODY)
        try:
            assert measure(Path(folder)).excess == "a folder in the scratch folder that may not be read"
        finally:
            os.seteuid(0)
