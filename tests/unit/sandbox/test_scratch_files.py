"""Files of a scratch folder whose owner is hostile; judged by what is on the disk outside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fathom.core import errors
from fathom.services.sandbox.supervisor.files import (
    MAX_FILE_BYTES,
    MAX_FILES,
    list_files,
    read_file,
    remove_tree,
    validate_path,
    write_file,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def at(root: Path) -> int:
    """The folder as the supervisor holds it."""
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY)


@pytest.mark.parametrize(
    "path",
    # Absolute, upwards, empty parts, line breaks and nulls, too deep, too long, a half surrogate.
    ["", "/", "/etc/passwd", "..", "../x", "a/../../x", ".", "a\nb", "a\0b", "a/" * 9 + "b", "x" * 513, "\ud800" * 9],
)
def test_paths_that_are_refused(path: str) -> None:
    with pytest.raises(errors.InvalidField):
        validate_path(path)


def test_round_trip_in_folders(root: Path) -> None:
    (root / "a").mkdir()
    assert write_file(at(root), "a/价.txt", b"hello") == 5
    # The second write is shorter: nothing of the first may be left behind it.
    assert write_file(at(root), "a/价.txt", b"hi") == 2
    assert read_file(at(root), "a/价.txt") == b"hi"
    assert [(file.path, file.size_bytes) for file in list_files(at(root))] == [("a/价.txt", 2)]


def test_links_lead_nowhere(root: Path) -> None:
    outside = root.parent / "canary"
    outside.write_text("secret")
    (root / "file").symlink_to(outside)
    (root / "folder").symlink_to(root.parent)
    # A hard link has no target that could be looked at; its count of links gives it away.
    os.link(outside, root / "hard")
    for path in ("file", "folder/canary"):
        with pytest.raises(errors.NotFound):
            read_file(at(root), path)
        with pytest.raises(errors.NotFound):
            write_file(at(root), path, b"overwritten")
    for act in (lambda: read_file(at(root), "hard"), lambda: write_file(at(root), "hard", b"overwritten")):
        with pytest.raises(errors.InvalidField):
            act()
    assert outside.read_text() == "secret"
    assert [file.path for file in list_files(at(root))] == ["hard"]


def test_what_is_no_regular_file_is_refused_without_waiting(root: Path) -> None:
    # Opening a pipe for reading waits for a writer, for ever.
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    for path in ("pipe", "folder"):
        with pytest.raises((errors.InvalidField, errors.NotFound)):
            read_file(at(root), path)
        with pytest.raises((errors.InvalidField, errors.NotFound)):
            write_file(at(root), path, b"x")


def test_sizes_are_bounded(root: Path) -> None:
    with open(root / "sparse", "wb") as file:
        # A sparse file says its size and takes no room, which is how code would make a large one.
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(errors.InvalidField):
        read_file(at(root), "sparse")
    with pytest.raises(errors.PayloadTooLarge):
        write_file(at(root), "large", bytes(MAX_FILE_BYTES + 1))


def test_listing_is_bounded_in_number_and_depth(root: Path) -> None:
    for number in range(MAX_FILES + 50):
        (root / f"{number:04}").touch()
    assert len(list_files(at(root))) == MAX_FILES
    # Deeper than a listing goes: code can nest folders until a walk overflows.
    deep = root / "/".join("d" * 12)
    deep.mkdir(parents=True)
    (deep / "unseen").touch()
    (root / "bad\nname").touch()
    assert not [file.path for file in list_files(at(root)) if "unseen" in file.path or "\n" in file.path]


def test_a_tree_is_removed_however_deep(root: Path) -> None:
    outside = root.parent / "kept"
    outside.mkdir()
    (outside / "file").touch()
    here = os.getcwd()
    os.chdir(root)
    try:
        # Deeper than Python's stack, and longer than a path may be.
        for _ in range(1_500):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    # The link's target must survive the removal of the link.
    (root / "link").symlink_to(outside)
    (root / "locked").mkdir()
    (root / "locked" / "file").touch()
    # A folder without rights for its own owner.
    (root / "locked").chmod(0)
    remove_tree(str(root))
    assert not root.exists()
    assert (outside / "file").exists()
