"""A store and a bus in memory that write down what is asked of them."""

from __future__ import annotations

import builtins
from collections.abc import Mapping

from fathom.transport.bus.memory import MemoryBus
from fathom.transport.store import StoredObject
from fathom.transport.store.memory import MemoryStore


class CountingStore(MemoryStore):
    """A store whose operations are in ``operations``, as name and key, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[str, str]] = []

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> StoredObject:
        self.operations.append(("put", key))
        return await super().put(key, data, content_type)

    async def get(self, key: str, sha256: str | None = None) -> bytes:
        self.operations.append(("get", key))
        return await super().get(key, sha256)

    async def head(self, key: str) -> StoredObject | None:
        self.operations.append(("head", key))
        return await super().head(key)

    async def list(self, prefix: str) -> builtins.list[StoredObject]:
        self.operations.append(("list", prefix))
        return await super().list(prefix)

    async def keys(self, prefix: str, *, after: str = "", limit: int = 0) -> builtins.list[str]:
        self.operations.append(("keys", prefix))
        return await super().keys(prefix, after=after, limit=limit)

    async def delete(self, key: str) -> None:
        self.operations.append(("delete", key))
        await super().delete(key)


class CountingBus(MemoryBus):
    """A bus whose publications are in ``published``, as subjects, in order."""

    published: builtins.list[str]

    async def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        message_id: str,
        headers: Mapping[str, str] | None = None,
        expected: int | None = None,
    ) -> int:
        self.published = [*getattr(self, "published", []), subject]
        return await super().publish(subject, payload, message_id=message_id, headers=headers, expected=expected)
