"""Files of a folder store: an object's record and bytes, and what a killed writer has left.

A file ``NAME~`` is one line of JSON with size, checksum and media type, then the object's bytes: ``tail -n +2 FILE``
prints them. Large objects have their bytes in a file of their own, ``.NAME.TOKEN.data``, which the record names: it
can be linked to, and a file that is given to the store becomes one by a rename. It is written before the record and
never changed, so readers see one object or the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fathom.core.errors import CorruptData, NotFound
from fathom.transport.store.base import StoredObject

# "~" is no character of a key, so the object "a" (file "a~") never collides with the folder of "a/b".
SUFFIX = "~"
# A leading dot is in no key, so neither these nor an orphan of a crash is ever listed.
TEMPORARY, DATA, SCRATCH = ".tmp", ".data", ".scratch"
DATA_NAME = re.compile(r"\.([^/\0]+)\.[0-9a-f]{16}\.data")
# Far more than size, checksum and media type take; a file that is no object has perhaps no line break at all.
MAX_RECORD_BYTES = 4096
# From this size on a copy costs more than another file.
LARGE_BYTES = 1 << 20
# Reads of a record whose file was replaced between record and bytes; each time another writer has to come between.
MAX_READS = 5
# No write takes a day; what is older belongs to a writer that has died.
ORPHAN_AGE_S = 86_400.0


@dataclass(frozen=True)
class Record:
    """An object's metadata, and the name of the file beside it with the bytes; empty where they follow the record."""

    stored: StoredObject
    data_name: str = ""

    def to_line(self) -> bytes:
        """Return the first line of the object's file."""
        fields = {name: value for name, value in self.stored.to_json().items() if name != "key"}
        return json.dumps(fields | ({"data": self.data_name} if self.data_name else {})).encode() + b"\n"


def read_record(key: str, file: BinaryIO) -> Record:
    """Read the first line, leaving ``file`` behind it; raise ``CorruptData`` when it is malformed."""
    line = file.readline(MAX_RECORD_BYTES)
    try:
        record = json.loads(line)
        size, kind, blake3 = int(record["size_bytes"]), str(record["content_type"]), str(record.get("blake3", ""))
        stored = StoredObject(key, size, str(record["sha256"]), kind, blake3)
        name = str(record.get("data", ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptData(key, "its record cannot be read") from error
    # A plain name of that form only: it is opened.
    if name and not DATA_NAME.fullmatch(name):
        raise CorruptData(key, "its record names no file of bytes")
    return Record(stored, name)


@contextmanager
def open_object(key: str, path: Path) -> Iterator[tuple[Record, BinaryIO]]:
    """Open an object at its bytes; raises ``NotFound`` or ``CorruptData``."""
    for _ in range(MAX_READS):
        try:
            with path.open("rb") as file:
                record = read_record(key, file)
                if not record.data_name:
                    yield record, file
                    return
        except FileNotFoundError:
            raise NotFound("object", key) from None
        try:
            data = (path.parent / record.data_name).open("rb")
        except FileNotFoundError:
            # Replaced since: the record is another one now.
            continue
        with data:
            yield record, data
        return
    raise CorruptData(key, "the file with its bytes is gone")


def find_data(key: str, path: Path) -> Path | None:
    """Return the file with an object's bytes, None where there is none of its own."""
    try:
        with path.open("rb") as file:
            name = read_record(key, file).data_name
    except (FileNotFoundError, CorruptData):
        return None
    return path.parent / name if name else None


def write_object(path: Path, record: Record, data: bytes | BinaryIO, *, create: bool = False) -> None:
    """Write an object's file as a whole or not at all; with ``create`` raise ``FileExistsError`` where there is one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{secrets.token_hex(8)}{TEMPORARY}"
    try:
        # Exclusively: two writers of one key have two files, and the rename that comes last wins as a whole.
        with temporary.open("xb") as file:
            file.write(record.to_line())
            if isinstance(data, bytes):
                file.write(data)
            else:
                shutil.copyfileobj(data, file, LARGE_BYTES)
            file.flush()
            # Before the rename: otherwise a power failure could leave the new name with an empty file.
            os.fsync(file.fileno())
        if create:
            # A link, unlike a rename, fails when the name is there: of two writers one gets it.
            os.link(temporary, path)
        else:
            replaced = find_data(record.stored.key, path)
            temporary.replace(path)
            if replaced is not None:
                replaced.unlink(missing_ok=True)
    finally:
        temporary.unlink(missing_ok=True)


def write_data(path: Path, source: Path, *, is_given: bool) -> Path:
    """Put a file's bytes beside the object's file at ``path``; a given file is moved there, flushed by its giver."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = path.parent / f".{path.name.removesuffix(SUFFIX)}.{secrets.token_hex(8)}{DATA}"
    if is_given and move_file(source, data):
        return data
    try:
        with source.open("rb") as old, data.open("xb") as new:
            shutil.copyfileobj(old, new, LARGE_BYTES)
            new.flush()
            os.fsync(new.fileno())
        make_read_only(data)
    # Also when it is cancelled: nobody would ever name what is half written.
    except BaseException:
        data.unlink(missing_ok=True)
        raise
    return data


def move_file(source: Path, target: Path) -> bool:
    """Move a file to a new name; return False where it lies on another disk, or is no plain file."""
    if source.is_symlink():
        return False
    try:
        source.rename(target)
    except OSError:
        return False
    make_read_only(target)
    return True


def make_read_only(data: Path) -> None:
    """Take the right to write from a file to which others will link: it is all of theirs."""
    data.chmod(0o444)


def link_data(data: Path, target: Path) -> bool:
    """Let ``target`` be another name of an object's bytes; return False where the file system has no such names."""
    try:
        target.unlink(missing_ok=True)
        os.link(data, target)
    except OSError:
        return False
    return True


def make_scratch(root: Path) -> Path:
    """Return a folder on the store's own disk, for files that are to be given to it."""
    folder = root / SCRATCH
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def remove_orphans(root: Path, now_s: float | None = None) -> int:
    """Delete what writers that were killed a day ago or earlier have left; return the number of files."""
    before, removed = (time.time() if now_s is None else now_s) - ORPHAN_AGE_S, 0
    for folder, _, names in os.walk(root):
        is_scratch = SCRATCH in Path(folder).relative_to(root).parts
        for path in (Path(folder, name) for name in names if is_scratch or name.startswith(".")):
            # Another process may delete it at the same moment.
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < before and (is_scratch or is_orphan(path)):
                    path.unlink()
                    removed += 1
        if is_scratch and not names:
            # Of a writer's own folder in there; one that is in use, or has folders in it, is not removed.
            with contextlib.suppress(OSError):
                if Path(folder).stat().st_mtime < before:
                    Path(folder).rmdir()
    return removed


def is_orphan(path: Path) -> bool:
    """Return whether a store's hidden file belongs to no object."""
    if path.name.endswith(TEMPORARY):
        return True
    found = DATA_NAME.fullmatch(path.name)
    if found is None:
        return False
    return find_data(found[1], path.parent / f"{found[1]}{SUFFIX}") != path


def sync_folder(folder: Path) -> None:
    """Flush the directory so that a rename in ``folder`` survives a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
