"""Object store in a local folder, one file per object, and one more for the bytes of a large one.

Metadata and bytes become visible by a single rename: a crash leaves the old object or the new one, never one's bytes
under the other's checksum. ``folder_files.py`` has the files.
"""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fathom.core.errors import DependencyFailed
from fathom.core.ids import sha256 as digest
from fathom.transport.checksums import algorithm_of, hash_file
from fathom.transport.store.base import (
    StoredObject,
    checked_key,
    checked_prefix,
    compare,
    make_conflict,
    read_chunks,
    verify,
    write_hashed,
)
from fathom.transport.store.folder_files import (
    LARGE_BYTES,
    SUFFIX,
    Record,
    find_data,
    link_data,
    open_object,
    read_record,
    sync_folder,
    write_data,
    write_object,
)

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

    async def get(self, key: str, checksum: str | None = None) -> bytes:
        return await in_thread(self._get, key, checksum)

    async def put_file(self, key: str, path: Path, checksum: str = "", *, is_given: bool = False) -> StoredObject:
        return await in_thread(partial(self._put_file, is_given=is_given), key, path, checksum)

    async def get_file(self, key: str, path: Path, checksum: str | None = None) -> StoredObject:
        return await in_thread(self._get_file, key, path, checksum)

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
            write_object(path, Record(stored), data, create=create)
        except FileExistsError:
            if self._get(key, None) != data:
                raise make_conflict(key) from None
        sync_folder(path.parent)
        return stored

    def _put_file(self, key: str, source: Path, checksum: str, *, is_given: bool) -> StoredObject:
        path, size = self._path(key), source.stat().st_size
        stored = StoredObject.of(key, size, checksum or hash_file(source))
        if size < LARGE_BYTES:
            with source.open("rb") as file:
                write_object(path, Record(stored), file)
        else:
            data = write_data(path, source, is_given=is_given)
            try:
                write_object(path, Record(stored, data.name), b"")
            # Also when it is cancelled: nobody would ever name what is half written.
            except BaseException:
                data.unlink(missing_ok=True)
                raise
        sync_folder(path.parent)
        return stored

    def _get(self, key: str, checksum: str | None) -> bytes:
        with open_object(key, self._path(key)) as (record, file):
            return verify(key, file.read(), record.stored.checksum, checksum)

    def _get_file(self, key: str, target: Path, checksum: str | None) -> StoredObject:
        path = self._path(key)
        with open_object(key, path) as (record, file):
            algorithm = algorithm_of(checksum or record.stored.checksum)
            # Another name for the same bytes where that can be: then they are read once, to verify them.
            if record.data_name and link_data(path.parent / record.data_name, target):
                actual = hash_file(target, algorithm)
            else:
                actual = write_hashed(read_chunks(file), target, algorithm)[1]
            compare(key, actual, record.stored.checksum, checksum)
            return record.stored

    def _head(self, key: str) -> StoredObject | None:
        try:
            with self._path(key).open("rb") as file:
                return read_record(key, file).stored
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
        path = self._path(key)
        data = find_data(key, path)
        path.unlink(missing_ok=True)
        # After its record: a reader that comes between finds the object gone.
        if data is not None:
            data.unlink(missing_ok=True)


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
