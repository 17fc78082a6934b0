"""Old published versions leave the object store; the newest stay, those that lanes serve, and what either needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fathom.bus.base import KeyValue
from fathom.errors import CorruptData, NotFound
from fathom.protocol.serving import Serving, key_of
from fathom.protocol.weights import WeightManifest, read_manifest
from fathom.store.base import ObjectStore, StoredObject

MANIFEST = re.compile(r"weights/([^/]+)/(\d+)/manifest-[^/]+")


@dataclass(frozen=True)
class Retention:
    """``kept`` newest versions of a model stay, 0 keeps all, and whatever is younger than ``min_age_s`` seconds: an
    activation of it may be under way."""

    store: ObjectStore
    serving: KeyValue
    kept: int
    min_age_s: float
    log: Any

    async def retire(self, model: str) -> list[int]:
        """Removes a model's old versions and gives their numbers.

        Manifests go first, so that nobody begins to serve a version; one that somebody has begun to serve meanwhile
        gets its manifest back. Only then go the files, but for those that a manifest which stays refers to: as part
        of a difference, or of what an adapter stands on. Uploads without a manifest are never touched.
        """
        if not self.kept:
            return []
        manifests = await self._manifests()
        ours = {ref.key: version_of(ref.key) for ref in manifests if model_of(ref.key) == model}
        newest = set(sorted(set(ours.values()), reverse=True)[: self.kept])
        staying = {ref.key for ref in manifests if ours.get(ref.key) in newest or model_of(ref.key) != model}
        staying |= {ref.key for ref, listed in manifests.items() if age_s(listed) < self.min_age_s}
        staying = closed(staying | await self._served(model), {ref.key: listed for ref, listed in manifests.items()})
        leaving = [ref for ref in manifests if ref.key in ours and ref.key not in staying]
        removed = {ref: await self._taken(ref) for ref in leaving}
        for ref in [ref for ref in removed if ref.key in await self._served(model)]:
            await self.store.put(ref.key, removed.pop(ref), ref.content_type)
        kept = {key for ref, listed in manifests.items() if ref not in removed for key in files_of(listed)}
        for key in {key for ref in removed for key in files_of(manifests[ref])} - kept:
            await self.store.delete(key)
        versions = sorted({ours[ref.key] for ref in removed})
        if versions:
            self.log.info("old weights removed", model=model, versions=versions)
        return versions

    async def _manifests(self) -> dict[StoredObject, WeightManifest]:
        """All manifests of all models that can be read: an adapter of one model may stand on another."""
        found = {}
        for ref in await self.store.list("weights/"):
            if MANIFEST.fullmatch(ref.key):
                try:
                    found[ref] = await read_manifest(self.store, ref)
                except (NotFound, CorruptData) as error:  # another replica removes it too, or it serves nobody
                    self.log.info("manifest of weights is skipped", key=ref.key, error=error.message)
        return found

    async def _taken(self, ref: StoredObject) -> bytes:
        """A manifest's bytes; it is no longer in the store."""
        data = await self.store.get(ref.key)
        await self.store.delete(ref.key)
        return data

    async def _served(self, model: str) -> set[str]:
        """Keys of the manifests that lanes are served by."""
        entry = await self.serving.get(key_of(model))
        if entry is None or entry.value is None:
            return set()
        shares = Serving.from_json(entry.value, key_of(model)).shares().values()
        return {share.manifest.key for share in shares if share.manifest is not None}


def model_of(key: str) -> str:
    return key.split("/")[1]


def version_of(key: str) -> int:
    return int(key.split("/")[2])


def age_s(manifest: WeightManifest) -> float:
    """Seconds since it was published; 0 for one that does not say so."""
    try:
        created = datetime.fromisoformat(manifest.created)
    except ValueError:
        return 0.0
    return (datetime.now(UTC) - created.replace(tzinfo=created.tzinfo or UTC)).total_seconds()


def files_of(manifest: WeightManifest) -> Iterable[str]:
    """Keys of its files, and of the whole files that they are differences to."""
    for file in manifest.files:
        yield file.key
        if file.delta is not None:
            yield file.delta[0]


def closed(keys: set[str], known: dict[str, WeightManifest]) -> set[str]:
    """The manifests with all that adapters among them stand on."""
    found, waiting = set(keys), list(keys)
    while waiting:
        listed = known.get(waiting.pop())
        if listed is not None and listed.base is not None and listed.base.key not in found:
            found.add(listed.base.key)
            waiting.append(listed.base.key)
    return found
