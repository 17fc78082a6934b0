"""Access of the supervisor to the files of a session's scratch folder.

The folder belongs to hostile code: no link is followed, and no name is trusted.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

from fathom.core.errors import InvalidField, NotFound, PayloadTooLarge

# A file travels in memory and in one message; results of a cell are far smaller.
MAX_FILE_BYTES = 32 * 1024 * 1024
# A listing is read by a model.
MAX_FILES = 200
# Bounds the time that a folder made by hostile code takes to list.
MAX_ENTRIES = 4096
# Each level is one open; deeper paths are not made by honest code.
MAX_DEPTH = 8
# Well below PATH_MAX, so that no operation fails half-way for its length.
MAX_PATH = 512
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True)
class File:
    """Path and size of a file in the scratch folder."""

    path: str
    size_bytes: int


def validate_path(path: str) -> PurePosixPath:
    """Return a relative path without "..", of at most ``MAX_DEPTH`` parts; raise ``InvalidField("path")``."""
    parts = PurePosixPath(path).parts
    if not path or path.startswith("/") or not 1 <= len(parts) <= MAX_DEPTH or ".." in parts:
        raise InvalidField("path", f"must be relative, without '..', of 1 to {MAX_DEPTH} parts")
    if not path.isprintable() or len(path.encode("utf-8", "replace")) > MAX_PATH:
        raise InvalidField("path", f"must have at most {MAX_PATH} bytes of printable characters")
    return PurePosixPath(path)


def open_beneath(root: int, path: PurePosixPath, flags: int) -> int:
    """Open ``path`` below the folder ``root`` part by part, following no symbolic link; raise ``NotFound``."""
    folder = os.open(".", FOLDER, dir_fd=root)
    try:
        for part in path.parts[:-1]:
            inner = os.open(part, FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        # O_NONBLOCK, or the open of a named pipe would wait for a writer that never comes.
        return os.open(path.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=folder)
    except OSError as error:
        raise NotFound("file", str(path)) from error
    finally:
        os.close(folder)


def open_regular(root: int, path: str, flags: int) -> int:
    """Open a regular file and return its descriptor.

    Raise ``NotFound``, or ``InvalidField("path")`` for anything else, for a file with several hard links, and for one
    over ``MAX_FILE_BYTES``.
    """
    descriptor = open_beneath(root, validate_path(path), flags)
    status = os.fstat(descriptor)
    # A second hard link may be a file outside that the session itself could not read or write.
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > MAX_FILE_BYTES:
        os.close(descriptor)
        raise InvalidField("path", f"{path!r} is not a regular file of at most {MAX_FILE_BYTES:,} bytes")
    return descriptor


def read_file(root: int, path: str) -> bytes:
    """Return the content of a regular file; raise ``NotFound`` or ``InvalidField("path")``."""
    with os.fdopen(open_regular(root, path, os.O_RDONLY), "rb") as file:
        return file.read(MAX_FILE_BYTES)


def write_file(root: int, path: str, content: bytes) -> int:
    """Write a regular file into the scratch folder or an existing folder below it; return its size in bytes.

    The file belongs to the session's user. Raise ``PayloadTooLarge``, also when the folder's quota does not hold it
    (the file is emptied then), ``NotFound`` for a missing folder, ``InvalidField("path")``.
    """
    if len(content) > MAX_FILE_BYTES:
        raise PayloadTooLarge(len(content), MAX_FILE_BYTES)
    owner, room = os.fstat(root), os.fstatvfs(root)
    with os.fdopen(open_regular(root, path, os.O_WRONLY | os.O_CREAT), "wb", buffering=0) as file:
        # Not before: an open that truncates could empty a file elsewhere that a hard link names.
        file.truncate(0)
        # A file of root's with mode 600 would be closed to the session.
        if os.geteuid() == 0:
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        try:
            view = memoryview(content)
            while view:
                view = view[file.write(view) :]
        except OSError as error:
            file.truncate(0)
            raise PayloadTooLarge(len(content), room.f_bavail * room.f_frsize) from error
        return len(content)


def list_files(root: int) -> list[File]:
    """Return the regular files of the scratch folder, sorted by path.

    At most ``MAX_FILES`` are returned, found within ``MAX_ENTRIES`` entries and ``MAX_DEPTH`` levels.
    """

    def is_entered(entry: Entry) -> bool:
        return is_plain(entry.path) and entry.depth < MAX_DEPTH

    found = [
        File(entry.path, entry.status.st_size)
        for entry in islice(walk_entries(root, is_entered), MAX_ENTRIES)
        if is_plain(entry.path) and stat.S_ISREG(entry.status.st_mode)
    ]
    return sorted(found, key=lambda file: file.path)[:MAX_FILES]


def is_plain(path: str) -> bool:
    """Return whether the last part of a path is a name to show: printable, and without a leading dot."""
    return path.isprintable() and not path.rpartition("/")[2].startswith(".")


class Entry(NamedTuple):
    """An entry of a folder: its path below the root and the number of its parts.

    ``is_closed`` says of a folder that it may not be read.
    """

    path: str
    depth: int
    status: os.stat_result
    is_closed: bool = False


def walk_entries(folder: int, is_entered: Callable[[Entry], bool], above: str = "", depth: int = 1) -> Iterator[Entry]:
    """Yield the entries below an open folder, each before what is in it; follow no link.

    Only folders for which ``is_entered`` are walked through, and those on the way are held open. Who takes the entries
    bounds their number.
    """
    with os.scandir(folder) as names:
        for name in names:
            try:
                entry = Entry(f"{above}{name.name}", depth, name.stat(follow_symlinks=False))
            except OSError:  # it was removed meanwhile
                continue
            inner = -1
            if stat.S_ISDIR(entry.status.st_mode) and is_entered(entry):
                try:
                    inner = os.open(name.name, FOLDER, dir_fd=folder)
                except PermissionError:
                    entry = entry._replace(is_closed=True)
                except OSError:  # it was removed or replaced meanwhile
                    continue
            try:
                yield entry
                if inner >= 0:
                    yield from walk_entries(inner, is_entered, f"{entry.path}/", depth + 1)
            finally:
                if inner >= 0:
                    os.close(inner)


def remove_tree(root: str) -> None:
    """Remove a folder of any depth; raise ``OSError`` when something stays.

    To be called when no process of the session is left.
    """
    folders = [root]
    while folders:
        folder = folders.pop()
        os.chmod(folder, 0o700)
        with os.scandir(folder) as listing:
            entries = list(listing)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)
                # Inner folders are moved to the top, so that no path gets too long.
                top = os.path.join(root, secrets.token_hex(16))
                os.rename(entry.path, top)
                folders.append(top)
            else:
                os.unlink(entry.path)
        if folder != root:
            os.rmdir(folder)
    os.rmdir(root)
