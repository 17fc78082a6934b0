"""Restoring a backup: objects first, then streams, so that no message returns before the objects it refers to."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from fathom.core.errors import Conflict, FathomError
from fathom.operations.backup.making import AT_ONCE, Say, Sources
from fathom.operations.backup.manifest import Manifest, StreamCopy, blob_key
from fathom.transport.store import ObjectStore, StoredObject


async def restore(manifest: Manifest, place: ObjectStore, targets: Sources, say: Say, *, replace: bool = False) -> None:
    """Restore objects, the memory service's database and streams, while no service runs.

    Objects of the same key are overwritten, others stay. Streams with messages and an existing database raise
    ``Conflict`` unless ``replace``. Raises ``NotFound`` or ``CorruptData`` for a missing or damaged blob.
    """
    if targets.memory and manifest.memory and targets.memory.exists() and not replace:
        raise Conflict(f"{targets.memory} exists already; a restore would throw it away")
    if targets.store:
        await put_objects(manifest.objects, place, targets.store)
        say(f"objects: {len(manifest.objects)}")
    if targets.memory and manifest.memory:
        data = await place.get(blob_key(manifest.memory), manifest.memory)
        await asyncio.to_thread(write_database, targets.memory, data)
        say(f"memory: {len(data):,} bytes")
    if targets.snapshots:
        for stream in manifest.streams:
            held = await targets.snapshots.restore(stream.config, stream.state, parts(stream, place), replace=replace)
            say(f"stream {stream.name}: {held} messages")


async def put_objects(objects: Sequence[StoredObject], place: ObjectStore, store: ObjectStore) -> None:
    slots = asyncio.Semaphore(AT_ONCE)

    async def put(stored: StoredObject) -> None:
        async with slots:
            if stored.blake3:
                await put_weights(stored, place, store)
                return
            data = await place.get(blob_key(stored.checksum), stored.checksum)
            await store.put(stored.key, data, stored.content_type)

    await asyncio.gather(*(put(stored) for stored in objects))


async def put_weights(stored: StoredObject, place: ObjectStore, store: ObjectStore) -> None:
    """Restore an object through a file: unlike bytes it keeps the checksum that manifests of weights name."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "weights"
        await place.get_file(blob_key(stored.checksum), path, stored.checksum)
        await store.put_file(stored.key, path, stored.checksum)


async def parts(stream: StreamCopy, place: ObjectStore) -> AsyncIterator[bytes]:
    for checksum in stream.parts:
        yield await place.get(blob_key(checksum), checksum)


def write_database(path: Path, data: bytes) -> None:
    """Replace the database atomically, removing the old one's journal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.restored")
    partial.write_bytes(data)
    # A journal of the old database, applied to the new one, would corrupt it.
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    partial.replace(path)


async def verify(manifest: Manifest, place: ObjectStore) -> list[str]:
    """Read every blob of a backup; return the errors of those that are missing or damaged."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def wrong(checksum: str) -> str:
        async with slots:
            try:
                await place.get(blob_key(checksum), checksum)
            except FathomError as error:
                return error.message
            return ""

    # All of them, rather than the first: the operator has to know what else is lost.
    return [said for said in await asyncio.gather(*(wrong(blob) for blob in sorted(manifest.blobs))) if said]
