"""Creating a backup: streams first, then objects, since the objects a message refers to were stored before it."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fathom import __version__
from fathom.core.errors import CorruptData, DependencyFailed, NotFound
from fathom.core.ids import new_id
from fathom.operations.backup.manifest import Manifest, StreamCopy, blob_key, encode_manifest, manifest_key
from fathom.transport.checksums import SHA256, algorithm_of, hash_bytes
from fathom.transport.store import ObjectStore, StoredObject

if TYPE_CHECKING:
    from fathom.transport.bus.nats.snapshots import Snapshots

# A stream is cut into blobs of this size, so that it is never in memory as a whole.
PART_BYTES = 8 * 1024**2
# Maximum number of objects copied concurrently; each is held in memory as a whole.
AT_ONCE = 4

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sources:
    """Parts to back up; None leaves one out. ``memory`` is the SQLite file of the memory service."""

    snapshots: Snapshots | None
    store: ObjectStore | None
    memory: Path | None


async def back_up(sources: Sources, place: ObjectStore, say: Say) -> Manifest:
    """Copy everything into ``place`` while the services run, and return the manifest.

    ``say`` gets a line per stream and one for the objects. Raises the errors of the stores and the bus; an end before
    the manifest leaves blobs that the next backup reuses and ``prune`` removes.
    """
    backup_id, created = new_id("backup"), time.time()
    streams = tuple([await copy_stream(sources.snapshots, name, place, say) for name in await names(sources)])
    memory = await keep(place, await asyncio.to_thread(database, sources.memory)) if sources.memory else ""
    objects = await copy_objects(sources.store, place, say) if sources.store else ()
    # Written last: whoever lists backups sees this one only now that everything it names is there.
    manifest = Manifest(backup_id, created, __version__, streams, objects, memory)
    await place.put(manifest_key(backup_id), encode_manifest(manifest), "application/json")
    return manifest


async def names(sources: Sources) -> list[str]:
    return await sources.snapshots.names() if sources.snapshots else []


async def keep(place: ObjectStore, data: bytes, algorithm: str = SHA256) -> str:
    """Store a content unless it exists already; return its checksum."""
    checksum = hash_bytes(data, algorithm)
    # Contents are keyed by their checksum: what is there is what would be written.
    if await place.head(blob_key(checksum)) is None:
        await place.put(blob_key(checksum), data)
    return checksum


async def copy_stream(snapshots: Snapshots | None, name: str, place: ObjectStore, say: Say) -> StreamCopy:
    """Copy one stream, in parts of at most ``PART_BYTES`` plus one chunk."""
    assert snapshots is not None
    parts: list[str] = []
    async with snapshots.of(name) as snapshot:
        gathered = bytearray()
        async for piece in snapshot.pieces:
            gathered += piece
            if len(gathered) >= PART_BYTES:
                parts.append(await keep(place, bytes(gathered)))
                gathered.clear()
        if gathered:
            parts.append(await keep(place, bytes(gathered)))
    say(f"stream {name}: {snapshot.state['messages']} messages")
    return StreamCopy(snapshot.config, snapshot.state, tuple(parts))


async def copy_objects(store: ObjectStore, place: ObjectStore, say: Say) -> tuple[StoredObject, ...]:
    """Copy every object that ``place`` lacks; leave out one that is deleted meanwhile."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def copy_object(stored: StoredObject) -> StoredObject | None:
        async with slots:
            if await place.head(blob_key(stored.checksum)) is not None:
                return stored
            try:
                data = await store.get(stored.key)
            except NotFound:
                return None
            # What was replaced since it was listed goes in as what it is now.
            checksum = await keep(place, data, algorithm_of(stored.checksum))
            return StoredObject.of(stored.key, len(data), checksum, stored.content_type)

    found = await asyncio.gather(*(copy_object(stored) for stored in await store.list("")))
    whole = tuple(stored for stored in found if stored is not None)
    say(f"objects: {len(whole)}, {sum(stored.size_bytes for stored in whole):,} bytes")
    return whole


def database(path: Path) -> bytes:
    """Return a consistent copy of a SQLite database that is being written to, without what was deleted from it.

    Raises ``NotFound``, ``CorruptData`` for a file that is no database or a damaged one, and ``DependencyFailed``
    when it cannot be read.
    """
    if not path.is_file():
        raise NotFound("database", str(path))
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy.sqlite3"
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as source:
                # One transaction of SQLite's own: a copy of the file could catch it between two pages, and lacks what
                # stands in the -wal file. Unlike a copy of all pages it has no free ones, where what users had erased
                # would stay for as long as there are backups.
                source.execute("vacuum into ?", (str(copy),))
        except sqlite3.OperationalError as error:
            raise DependencyFailed(str(path), str(error)) from error
        except sqlite3.DatabaseError as error:
            raise CorruptData(str(path), f"{error}; restore a backup of before") from error
        return copy.read_bytes()
