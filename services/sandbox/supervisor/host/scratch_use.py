"""Use of a scratch folder that lies on a disk of the host, where no file system of its own bounds it."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fathom.services.sandbox.supervisor.files import FOLDER, Entry, walk_entries

# One walk holds two descriptors for each level. Archives and caches have fewer.
MAX_NESTING = 32
# One file may be as large as the folder, and blocks of the disk hold more than the bytes of their files.
SLACK_BYTES = 1 << 20
# Unit of st_blocks, whatever the file system's own blocks are: stat(2).
BLOCK_BYTES = 512


@dataclass(frozen=True)
class ScratchLimits:
    """Most bytes of a scratch folder, and most files and folders in it."""

    size_bytes: int
    files: int


@dataclass(frozen=True)
class ScratchUse:
    """Bytes and number of what lies in a scratch folder, counted until one is over its limit.

    ``excess`` says which and why; it is empty where nothing is. ``cost_s`` is the processor time of the counting.
    """

    files: int = 0
    size_bytes: int = 0
    excess: str = ""
    cost_s: float = 0.0


def measure_scratch(folder: str, pids: Iterable[int], limits: ScratchLimits) -> ScratchUse:
    """Return the use of a scratch folder, with removed files that one of these processes has open. Blocks.

    The number of entries that are looked at is bounded by the limits. A folder that is gone is empty.
    """
    begun, files, size, excess = time.thread_time(), 0, 0, ""
    known = set[int]()
    for status, flaw in list_statuses(folder, pids):
        files += 1
        # Several names of one file take its blocks once.
        if status.st_ino not in known and not stat.S_ISDIR(status.st_mode):
            known.add(status.st_ino)
            size += status.st_blocks * BLOCK_BYTES
        if excess := flaw or describe_excess(files, size, limits):
            break
    return ScratchUse(files, size, excess, time.thread_time() - begun)


def describe_excess(files: int, size_bytes: int, limits: ScratchLimits) -> str:
    """Return which limit is passed, "" for none."""
    if files > limits.files:
        return f"more than {limits.files:,} files and folders in the scratch folder"
    if size_bytes > limits.size_bytes + SLACK_BYTES:
        return f"more than {limits.size_bytes:,} bytes in the scratch folder"
    return ""


def list_statuses(folder: str, pids: Iterable[int]) -> Iterator[tuple[os.stat_result, str]]:
    """Yield the status of each entry, with what about it keeps others from being counted."""
    try:
        root = os.open(folder, FOLDER)
    except OSError:  # the session has just ended
        return
    try:
        for entry in walk_entries(root, lambda entry: entry.depth < MAX_NESTING):
            yield entry.status, describe_flaw(entry)
    finally:
        os.close(root)
    for status in list_removed_files(folder, pids):
        yield status, ""


def describe_flaw(entry: Entry) -> str:
    if entry.is_closed:
        return "a folder in the scratch folder that may not be read"
    if entry.depth == MAX_NESTING and stat.S_ISDIR(entry.status.st_mode):
        return f"folders in the scratch folder that are more than {MAX_NESTING - 1} deep"
    return ""


def list_removed_files(folder: str, pids: Iterable[int]) -> Iterator[os.stat_result]:
    """Yield the status of each file of a folder that has no name any more and that one of the processes has open.

    Processes that cannot be looked at have none.
    """
    known = set[int]()
    for pid in pids:
        try:
            opened = os.scandir(f"/proc/{pid}/fd")
        except OSError:
            continue
        with opened:
            for link in opened:
                try:
                    target = os.readlink(link.path)
                    # The kernel's own mark; see proc(5). A name may end like that, and then still has links.
                    if target.startswith(f"{folder}/") and target.endswith(" (deleted)"):
                        status = os.stat(link.path)
                        if status.st_nlink == 0 and status.st_ino not in known:
                            known.add(status.st_ino)
                            yield status
                except OSError:  # it was closed meanwhile
                    continue
