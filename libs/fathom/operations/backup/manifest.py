"""Manifest of a backup, and the blobs that it refers to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fathom.core.errors import CorruptData, NotFound
from fathom.core.ids import checked_id
from fathom.transport.checksums import digits_of
from fathom.transport.store import ObjectStore, StoredObject

FORMAT = 1
ROOT = "backups"
BLOBS = "blobs"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class StreamCopy:
    """A stream: configuration and state in the server's format, and the blobs with its data in order."""

    config: Mapping[str, Any]
    state: Mapping[str, Any]
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.config["name"])


@dataclass(frozen=True)
class Manifest:
    """One backup. ``created`` is in seconds since the epoch; ``memory`` is a blob, "" when memory was left out."""

    id: str
    created: float
    version: str
    streams: tuple[StreamCopy, ...]
    objects: tuple[StoredObject, ...]
    memory: str = ""

    @property
    def blobs(self) -> frozenset[str]:
        """Checksum of every blob that this backup needs."""
        parts = {part for stream in self.streams for part in stream.parts}
        return frozenset(parts | {stored.checksum for stored in self.objects} | ({self.memory} - {""}))


def blob_key(checksum: str) -> str:
    """Return the key of a content."""
    # 256 folders: a folder store would otherwise have all blobs in one. A key has no colon.
    return f"{BLOBS}/{digits_of(checksum)[:2]}/{checksum.replace(':', '-')}"


def manifest_key(backup_id: str) -> str:
    """Return the key of a backup's manifest; raise ``InvalidField("id")``."""
    return f"{ROOT}/{checked_id('id', backup_id)}/{MANIFEST}"


def encode_manifest(manifest: Manifest) -> bytes:
    """Serialise the manifest."""
    objects = [stored.to_json() for stored in manifest.objects]
    return json.dumps({"format": FORMAT, **asdict(manifest), "objects": objects}, indent=1).encode()


def decode_manifest(data: bytes, key: str) -> Manifest:
    """Parse a stored manifest; raise ``CorruptData``."""
    try:
        said = json.loads(data)
        if said.pop("format") != FORMAT:
            raise ValueError("a format of another version of Fathom")
        streams = tuple(StreamCopy(s["config"], s["state"], tuple(s["parts"])) for s in said.pop("streams"))
        objects = tuple(StoredObject(**item) for item in said.pop("objects"))
        return Manifest(streams=streams, objects=objects, **said)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(key, f"is no manifest: {error}") from error


async def read_manifest(place: ObjectStore, backup_id: str) -> Manifest:
    """Return a backup's manifest; ``latest`` selects the newest. Raises ``NotFound`` with the existing ids."""
    known = await list_backups(place)
    if backup_id == "latest" and known:
        backup_id = known[-1]
    if backup_id not in known:
        raise NotFound("backup", backup_id, known)
    key = manifest_key(backup_id)
    return decode_manifest(await place.get(key), key)


async def list_backups(place: ObjectStore) -> list[str]:
    """Return the ids of complete backups, oldest first."""
    found = await place.list(f"{ROOT}/")
    return sorted(stored.key.split("/")[1] for stored in found if stored.key.endswith(f"/{MANIFEST}"))


async def prune(place: ObjectStore, keep: int) -> Sequence[str]:
    """Remove all but the newest ``keep`` backups, and the blobs that none of those needs; return the removed ids."""
    known = await list_backups(place)
    # In order of creation, since ids begin with the time.
    leaving, staying = known[:-keep], known[-keep:]
    if not leaving:
        return []
    needed = {blob_key(blob) for backup_id in staying for blob in (await read_manifest(place, backup_id)).blobs}
    for backup_id in leaving:
        # The manifests first: an end in between leaves blobs that nothing needs, never a backup that lacks some.
        await place.delete(manifest_key(backup_id))
    for stored in await place.list(f"{BLOBS}/"):
        if stored.key not in needed:
            await place.delete(stored.key)
    return leaving
