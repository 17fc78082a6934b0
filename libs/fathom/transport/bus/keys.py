"""In-memory key-value bucket, and the checks and errors shared by all buckets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

from fathom.core.errors import Conflict, InvalidField, NotReady, Overloaded, PayloadTooLarge
from fathom.transport.bus.base import Entry
from fathom.transport.bus.streams import Bucket, checked_key

# Buckets hold pointers and leases; what is larger belongs into the object store.
MAX_VALUE_BYTES = 65_536
# Seconds that a publisher should wait when a queue is full.
FULL_RETRY_S = 1.0


def checked_put(key: str, value: bytes, revision: int | None) -> None:
    """Raise ``InvalidField`` or ``PayloadTooLarge`` for arguments that no bucket accepts."""
    checked_key(key)
    if revision is not None and revision < 0:
        raise InvalidField("revision", "must be 0 or more")
    if len(value) > MAX_VALUE_BYTES:
        raise PayloadTooLarge(len(value), MAX_VALUE_BYTES)


def changed_meanwhile(bucket: str, key: str, revision: int) -> Conflict:
    """Return the error of a compare-and-set whose key is no longer at ``revision``."""
    return Conflict(
        f"{bucket}/{key} is no longer at revision {revision}: somebody else changed it",
        metadata={"bucket": bucket, "key": key, "revision": str(revision)},
    )


def written_meanwhile(subject: str, expected: int) -> Conflict:
    """Return the error of a publication whose ``expected`` is no longer the last message of its subject."""
    return Conflict(
        f"message {expected} is no longer the last of {subject}: somebody else wrote there",
        metadata={"subject": subject, "expected": str(expected)},
    )


def full(stream: str) -> Overloaded:
    """Return the error of a publication to a full work queue."""
    return Overloaded(f"{stream} is full: its work waits to be done", FULL_RETRY_S)


class MemoryKeyValue:
    """An in-memory ``KeyValue`` that ends with its process."""

    def __init__(self, bucket: Bucket, clock: Callable[[], float] = time.monotonic) -> None:
        """Create the bucket; ``clock`` returns seconds."""
        self._clock = clock
        self._name, self._max_age_s, self._max_values = bucket.name, bucket.max_age_s, bucket.max_values
        self._entries: dict[str, Entry] = {}
        self._written: dict[str, float] = {}
        self._last = 0
        self._changed = asyncio.Condition()
        self._closed = False

    async def get(self, key: str) -> Entry | None:
        self._check_open()
        self._forget()
        entry = self._entries.get(checked_key(key))
        return None if entry is None or entry.value is None else entry

    async def put(self, key: str, value: bytes, *, revision: int | None = None) -> int:
        return await self._set(key, value, revision)

    async def delete(self, key: str, *, revision: int | None = None) -> int:
        return await self._set(key, None, revision)

    async def _set(self, key: str, value: bytes | None, revision: int | None) -> int:
        self._check_open()
        checked_put(key, value or b"", revision)
        known = self._entries.get(key)
        present = known.revision if known is not None and known.value is not None else 0
        if revision is not None and revision != present:
            raise changed_meanwhile(self._name, key, revision)
        self._last += 1
        self._entries[key] = Entry(key, value, self._last)
        # Taken out and put in again, so that the order of the dictionary is that of the writes.
        self._written.pop(key, None)
        self._written[key] = self._clock()
        self._forget()
        async with self._changed:
            self._changed.notify_all()
        return self._last

    def _forget(self) -> None:
        """Remove expired values and the oldest ones above the limit."""
        horizon = self._clock() - self._max_age_s
        while self._written:
            key = next(iter(self._written))
            old = self._max_age_s and self._written[key] <= horizon
            if not old and not (self._max_values and len(self._written) > self._max_values):
                return
            del self._written[key], self._entries[key]

    async def keys(self) -> list[str]:
        self._check_open()
        self._forget()
        return sorted(self._entries)

    async def watch(self) -> AsyncGenerator[Entry, None]:
        after = 0
        while not self._closed:
            news = [entry for entry in self._entries.values() if entry.revision > after]
            if not news:
                async with self._changed:
                    # Checked again under the lock: a change between looking and waiting would otherwise be slept
                    # through.
                    if self._last == after and not self._closed:
                        await self._changed.wait()
                continue
            entry = min(news, key=lambda item: item.revision)
            after = entry.revision
            yield entry

    async def close(self) -> None:
        """End all watches."""
        self._closed = True
        async with self._changed:
            self._changed.notify_all()

    def _check_open(self) -> None:
        if self._closed:
            raise NotReady("the bus is closed")
