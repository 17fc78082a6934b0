"""In-memory object store for unit tests and services that run alone."""

from __future__ import annotations

import asyncio
import builtins
from pathlib import Path

from fathom.core.errors import NotFound
from fathom.core.ids import sha256 as digest
from fathom.transport.store.base import StoredObject, checked_key, checked_prefix, make_conflict, verify


class MemoryStore:
    """An ``ObjectStore`` that ends with its process."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[StoredObject, bytes]] = {}

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> StoredObject:
        data = bytes(data)
        stored = StoredObject(checked_key(key), len(data), digest(data), content_type)
        self._objects[key] = (stored, data)
        return stored

    async def create(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> StoredObject:
        if checked_key(key) in self._objects and self._objects[key][1] != bytes(data):
            raise make_conflict(key)
        return await self.put(key, data, content_type)

    async def get(self, key: str, checksum: str | None = None) -> bytes:
        if checked_key(key) not in self._objects:
            raise NotFound("object", key)
        stored, data = self._objects[key]
        return verify(key, data, stored.checksum, checksum)

    async def put_file(self, key: str, path: Path, checksum: str = "", *, is_given: bool = False) -> StoredObject:
        data = await asyncio.to_thread(path.read_bytes)
        stored = StoredObject.of(checked_key(key), len(data), checksum or digest(data))
        self._objects[key] = (stored, data)
        return stored

    async def get_file(self, key: str, path: Path, checksum: str | None = None) -> StoredObject:
        await asyncio.to_thread(path.write_bytes, await self.get(key, checksum))
        return self._objects[key][0]

    async def head(self, key: str) -> StoredObject | None:
        entry = self._objects.get(checked_key(key))
        return entry[0] if entry else None

    async def list(self, prefix: str) -> builtins.list[StoredObject]:
        checked_prefix(prefix)
        return [self._objects[key][0] for key in sorted(self._objects) if key.startswith(prefix)]

    async def keys(self, prefix: str, *, after: str = "", limit: int = 0) -> builtins.list[str]:
        checked_prefix(prefix)
        found = sorted(key for key in self._objects if key.startswith(prefix) and key > after)
        return found[: limit or None]

    async def delete(self, key: str) -> None:
        self._objects.pop(checked_key(key), None)

    async def close(self) -> None:
        """Do nothing: there are no connections to free."""
