"""An object store in which each tenant sees its own objects only, whatever key it names."""

from __future__ import annotations

import builtins
from dataclasses import replace
from pathlib import Path

from fathom.core.call import DEFAULT_TENANT, current_tenant
from fathom.core.errors import Conflict, NotFound
from fathom.transport.store.base import ObjectStore, StoredObject, make_conflict

PREFIX = "tenants/"


class TenantStore:
    """View of a store bound to the tenant of the call being handled; outside a call, to the default tenant.

    Keys in messages are those of the view: the same key means another object to another tenant, so that a reference
    that was guessed or passed on finds nothing. The default tenant's objects keep plain keys; it cannot name those
    below ``tenants/``.
    """

    def __init__(self, store: ObjectStore) -> None:
        """Create a view of ``store``, which stays its owner's to close."""
        self._store = store

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> StoredObject:
        return replace(await self._store.put(self._bind_key(key), data, content_type), key=key)

    async def create(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> StoredObject:
        try:
            return replace(await self._store.create(self._bind_key(key), data, content_type), key=key)
        except Conflict:
            # The message would name the folder that the tenant is not to know of.
            raise make_conflict(key) from None

    async def get(self, key: str, checksum: str | None = None) -> bytes:
        try:
            return await self._store.get(self._bind_key(key), checksum)
        except NotFound:
            # The message would name the folder that the tenant is not to know of.
            raise NotFound("object", key) from None

    async def put_file(self, key: str, path: Path, checksum: str = "", *, is_given: bool = False) -> StoredObject:
        return replace(await self._store.put_file(self._bind_key(key), path, checksum, is_given=is_given), key=key)

    async def get_file(self, key: str, path: Path, checksum: str | None = None) -> StoredObject:
        try:
            return replace(await self._store.get_file(self._bind_key(key), path, checksum), key=key)
        except NotFound:
            # The message would name the folder that the tenant is not to know of.
            raise NotFound("object", key) from None

    async def head(self, key: str) -> StoredObject | None:
        found = await self._store.head(self._bind_key(key))
        return None if found is None else replace(found, key=key)

    async def list(self, prefix: str) -> list[StoredObject]:
        found = await self._store.list(self._bind_key(prefix))
        return [self._strip_folder(item) for item in found if self._is_own(item.key)]

    async def keys(self, prefix: str, *, after: str = "", limit: int = 0) -> builtins.list[str]:
        start = len(self._folder())
        found = await self._store.keys(self._bind_key(prefix), after=after and self._bind_key(after), limit=limit)
        return [key[start:] for key in found if self._is_own(key)]

    async def delete(self, key: str) -> None:
        await self._store.delete(self._bind_key(key))

    async def close(self) -> None:
        """Do nothing: the store is closed by its owner."""

    def _folder(self) -> str:
        tenant = current_tenant()
        return "" if tenant == DEFAULT_TENANT else f"{PREFIX}{tenant}/"

    def _bind_key(self, key: str) -> str:
        """Return the key in the store; raise ``NotFound`` for one below the folder of tenants."""
        if key.startswith(PREFIX):
            raise NotFound("object", key)
        return self._folder() + key

    def _is_own(self, key: str) -> bool:
        """Return whether a listed key is the tenant's: prefixes such as "" and "t" cover the folder of tenants too."""
        return bool(self._folder()) or not key.startswith(PREFIX)

    def _strip_folder(self, stored: StoredObject) -> StoredObject:
        return replace(stored, key=stored.key[len(self._folder()) :])


async def list_tenants(store: ObjectStore) -> list[str]:
    """Return the names of the tenants that have an object, without the default one; ``store`` is the whole store."""
    found: list[str] = []
    after = ""
    while keys := await store.keys(PREFIX, after=after, limit=1):
        found.append(keys[0].removeprefix(PREFIX).partition("/")[0])
        # Behind all of its keys: "0" is the character after "/".
        after = f"{PREFIX}{found[-1]}0"
    return found
