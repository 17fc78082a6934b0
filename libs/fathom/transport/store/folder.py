"""Object store in a local folder, one file per object.

A file is one line of JSON with size, SHA-256 and media type, then the object's bytes. Metadata and bytes in one file
make a write atomic with a single rename: a crash leaves the old object or the new one, never one's bytes under the
other's checksum. ``tail -n +2 FILE`` prints the bytes.
"""

from __future__ import annotations

import asyncio
import builtins
import json
import os
import secrets
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from fathom.core.errors import CorruptData, DependencyFailed, NotFound
from fathom.core.ids import sha256 as digest
from fathom.transport.store.base import (
    StoredObject,
    checked_key,
    checked_prefix,
    compare,
    hash_file,
    make_conflict,
    read_chunks,
    verify,
    write_hashed,
)

# "~" is no character of a key, so the object "a" (file "a~") never collides with the folder of "a/b".
SUFFIX = "~"
# Far more than size, checksum and media type take; a file that is no object has perhaps no line break at all.
MAX_RECORD_BYTES = 4096

R = TypeVar("R")


class FolderStore:
    """An ``ObjectStore`` in ``root``, which is created on the first write."""

    def __init__(self, root: Path) -> None:
        self._root = root

    # The thread's own coroutine: every episode of a training passes here.
    def put(
        self, key: str, data: bytes, content_type: str = "application/octet-stream"
    ) -> Coroutine[Any, Any, StoredObject]:
        return in_thread(self._put, key, bytes(data), content_type)

    async def create(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> StoredObject:
        return await in_thread(partial(self._put, create=True), key, bytes(data), content_type)

    async def get(self, key: str, sha256: str | None = None) -> bytes:
        return await in_thread(self._get, key, sha256)

    async def put_file(self, key: str, path: Path, sha256: str = "") -> StoredObject:
        return await in_thread(self._put_file, key, path, sha256)

    async def get_file(self, key: str, path: Path, sha256: str | None = None) -> StoredObject:
        return await in_thread(self._get_file, key, path, sha256)

    async def head(self, key: str) -> StoredObject | None:
        return await in_thread(self._head, key)

    async def list(self, prefix: str) -> builtins.list[StoredObject]:
        return await in_thread(self._list, checked_prefix(prefix))

    async def keys(self, prefix: str, *, after: str = "", limit: int = 0) -> builtins.list[str]:
        checked_prefix(prefix)
        found = await in_thread(lambda: sorted(key for key in self._keys(prefix) if key > after))
        return found[: limit or None]

    async def delete(self, key: str) -> None:
        await in_thread(self._delete, key)

    async def close(self) -> None:
        """Do nothing: there are no connections to free."""

    def _path(self, key: str) -> Path:
        return self._root / (checked_key(key) + SUFFIX)

    def _put(self, key: str, data: bytes, content_type: str, *, create: bool = False) -> StoredObject:
        path = self._path(key)
        stored = StoredObject(key, len(data), digest(data), content_type)
        try:
            self._write(path, stored, iter((data,)), create=create)
        except FileExistsError:
            if self._get(key, None) != data:
                raise make_conflict(key) from None
        sync_folder(path.parent)
        return stored

    def _put_file(self, key: str, source: Path, sha256: str) -> StoredObject:
        path, size = self._path(key), source.stat().st_size
        stored = StoredObject(key, size, sha256 or hash_file(source), "application/octet-stream")
        with source.open("rb") as file:
            self._write(path, stored, read_chunks(file))
        sync_folder(path.parent)
        return stored

    def _write(self, path: Path, stored: StoredObject, chunks: Iterator[bytes], *, create: bool = False) -> None:
        """Write an object as a whole or not at all; with ``create`` raise ``FileExistsError`` where there is one."""
        record = {"size_bytes": stored.size_bytes, "sha256": stored.sha256, "content_type": stored.content_type}
        path.parent.mkdir(parents=True, exist_ok=True)
        # A leading dot is in no key, so an orphan of a crash is never listed.
        temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
        try:
            # Exclusively: two writers of one key have two files, and the rename that comes last wins as a whole.
            with temporary.open("xb") as file:
                file.write(json.dumps(record).encode() + b"\n")
                file.writelines(chunks)
                file.flush()
                # Before the rename: otherwise a power failure could leave the new name with an empty file.
                os.fsync(file.fileno())
            if create:
                # A link, unlike a rename, fails when the name is there: of two writers one gets it.
                os.link(temporary, path)
            else:
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def _get(self, key: str, sha256: str | None) -> bytes:
        try:
            with self._path(key).open("rb") as file:
                stored = read_record(key, file)
                data = file.read()
        except FileNotFoundError:
            raise NotFound("object", key) from None
        return verify(key, data, stored.sha256, sha256)

    def _get_file(self, key: str, target: Path, sha256: str | None) -> StoredObject:
        try:
            file = self._path(key).open("rb")
        except FileNotFoundError:
            raise NotFound("object", key) from None
        with file:
            stored = read_record(key, file)
            compare(key, write_hashed(read_chunks(file), target)[1], stored.sha256, sha256)
        return stored

    def _head(self, key: str) -> StoredObject | None:
        try:
            with self._path(key).open("rb") as file:
                return read_record(key, file)
        except FileNotFoundError:
            return None

    def _list(self, prefix: str) -> builtins.list[StoredObject]:
        # An object that is deleted between the two is left out.
        found = (self._head(key) for key in sorted(self._keys(prefix)))
        return [stored for stored in found if stored is not None]

    def _keys(self, prefix: str) -> Iterator[str]:
        start = len(os.path.join(self._root, ""))
        for folder, _, names in os.walk(self._root / prefix.rpartition("/")[0], onerror=raise_unless_missing):
            for name in names:
                if name.endswith(SUFFIX):
                    # Cut as text: a Path per object takes longer than all else of a listing.
                    key = os.path.join(folder, name)[start:].removesuffix(SUFFIX)
                    if key.startswith(prefix):
                        yield key

    def _delete(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)


async def in_thread(work: Callable[..., R], *arguments: object) -> R:
    """Run file work outside the event loop; raise ``DependencyFailed`` when the disk fails."""
    try:
        # File systems have no asynchronous interface; a slow disk must not stop the event loop.
        return await asyncio.to_thread(work, *arguments)
    except OSError as error:
        # Without the file's name, which is the server's own affair; the log has it as the cause.
        raise DependencyFailed("object store", error.strerror or type(error).__name__) from error


def raise_unless_missing(error: OSError) -> None:
    """Raise an error of a listing unless its folder does not exist: a disk that fails must not look empty."""
    if not isinstance(error, FileNotFoundError):
        raise error


def read_record(key: str, file: BinaryIO) -> StoredObject:
    """Read the first line, leaving ``file`` at the object's bytes; raise ``CorruptData`` when it is malformed."""
    line = file.readline(MAX_RECORD_BYTES)
    try:
        record = json.loads(line)
        return StoredObject(key, int(record["size_bytes"]), str(record["sha256"]), str(record["content_type"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(key, "its record cannot be read") from error


def sync_folder(folder: Path) -> None:
    """Flush the directory so that a rename in ``folder`` survives a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
