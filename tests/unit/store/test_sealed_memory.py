"""Files in sealed memory between processes: whole, unchangeable, gone with their last holder."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fathom.core.errors import FailedPrecondition
from fathom.transport.sealed_memory import SealedFile, SealedFiles, SealedWriter, take_file
from tests.support.waiting import wait_until

DATA = b"weights" * 10_000
OWNER = """
import sys
from pathlib import Path
from fathom.transport.sealed_memory import SealedFiles, SealedWriter
writer = SealedWriter("weights")
writer.write(b"weights" * 10_000)
owner = SealedFiles(Path(sys.argv[1]))
owner.offer({"model.safetensors": writer.seal()})
print("offered", flush=True)
sys.stdin.read()
"""


def seal(*parts: bytes) -> SealedFile:
    writer = SealedWriter("weights")
    for part in parts:
        writer.write(part)
    return writer.seal()


@pytest.fixture
def meeting(tmp_path: Path) -> Path:
    """A folder whose path is longer than the address of a socket may be."""
    return tmp_path / ("long" * 30) / "meeting"


@pytest.fixture
def owner(meeting: Path) -> Iterator[SealedFiles]:
    made = SealedFiles(meeting)
    yield made
    made.close()


def test_a_file_is_taken_as_it_was_written_and_outlives_the_offer(owner: SealedFiles, meeting: Path) -> None:
    file = seal(DATA[:100], DATA[100:])
    assert (file.checksum, file.size_bytes) == (hashlib.sha256(DATA).hexdigest(), len(DATA))
    owner.offer({"a": file})
    assert not owner.is_taken
    taken = take_file(meeting, file.checksum, len(DATA))
    assert taken is not None
    # The owner's thread notes it once it has sent the file.
    wait_until(lambda: owner.is_taken)
    owner.offer({})
    assert take_file(meeting, file.checksum, len(DATA)) is None, "it is not offered any more"
    assert taken.read() == DATA
    taken.close()


def test_nobody_can_change_a_sealed_file(owner: SealedFiles, meeting: Path) -> None:
    file = seal(DATA)
    owner.offer({"a": file})
    for change in (lambda: os.write(file.descriptor, b"x"), lambda: os.ftruncate(file.descriptor, 1)):
        with pytest.raises(OSError, match="not permitted"):
            change()
    taken = take_file(meeting, file.checksum, len(DATA))
    assert taken is not None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(taken.descriptor, b"x")
    taken.close()


def test_what_is_not_sealed_or_has_another_size_is_not_taken(owner: SealedFiles, meeting: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(DATA)
    digest = hashlib.sha256(DATA).hexdigest()
    owner.offer({"a": SealedFile(os.open(tmp_path / "file", os.O_RDONLY), len(DATA), digest)})
    assert take_file(meeting, digest, len(DATA)) is None
    file = seal(DATA)
    owner.offer({"a": file})
    assert take_file(meeting, file.checksum, len(DATA) - 1) is None
    assert take_file(meeting, "0" * 64, len(DATA)) is None
    assert take_file(meeting, "no checksum", len(DATA)) is None


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for use in (lambda: SealedFiles(tmp_path), lambda: take_file(tmp_path, "0" * 64, 1)):
        with pytest.raises(FailedPrecondition, match="no folder of this user alone"):
            use()
    assert take_file(tmp_path / "none", "0" * 64, 1) is None


def test_of_a_killed_owner_what_was_taken_stays_and_nothing_else(meeting: Path) -> None:
    digest = hashlib.sha256(DATA).hexdigest()
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(meeting)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "offered\n"
        taken = take_file(meeting, digest, len(DATA))
        assert taken is not None
        process.kill()
    assert len(list(meeting.iterdir())) == 1, "the socket of the dead"
    assert take_file(meeting, digest, len(DATA)) is None
    assert list(meeting.iterdir()) == []
    assert taken.read() == DATA
    taken.close()
