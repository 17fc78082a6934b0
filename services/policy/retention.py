"""Garbage collection of published weights in the object store."""

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
    """Retention policy of published weights.

    Keeps the ``kept`` newest versions of a model (0 keeps all), served versions, and their dependencies. Versions
    younger than ``min_age_s`` seconds are kept in any case, because one may be about to be activated.
    """

    store: ObjectStore
    serving: KeyValue
    kept: int
    min_age_s: float
    log: Any

    async def retire(self, model: str) -> list[int]:
        """Delete a model's old versions from the store and return their numbers.

        Files that a remaining manifest refers to, as part of a delta or as an adapter's base, are kept. Uploads without
        a manifest are never touched.
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
        # Manifests are deleted before files, so that no replica starts to serve a version that is losing its files; one
        # that a replica has started to serve meanwhile gets its manifest back.
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
        """Return the readable manifests of all models; an adapter may be based on another model's weights."""
        found = {}
        for ref in await self.store.list("weights/"):
            if MANIFEST.fullmatch(ref.key):
                try:
                    found[ref] = await read_manifest(self.store, ref)
                except (NotFound, CorruptData) as error:  # another replica removes it too, or it serves nobody
                    self.log.info("manifest of weights is skipped", key=ref.key, error=error.message)
        return found

    async def _taken(self, ref: StoredObject) -> bytes:
        """Delete a manifest from the store and return its bytes."""
        data = await self.store.get(ref.key)
        await self.store.delete(ref.key)
        return data

    async def _served(self, model: str) -> set[str]:
        """Return the keys of the manifests that lanes of the model are served by."""
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
    """Return the seconds since a manifest was published; 0 when its creation time is missing or invalid."""
    try:
        created = datetime.fromisoformat(manifest.created)
    except ValueError:
        return 0.0
    return (datetime.now(UTC) - created.replace(tzinfo=created.tzinfo or UTC)).total_seconds()


def files_of(manifest: WeightManifest) -> Iterable[str]:
    """Yield the keys of a manifest's files and of the base files that its deltas apply to."""
    for file in manifest.files:
        yield file.key
        if file.delta is not None:
            yield file.delta[0]


def closed(keys: set[str], known: dict[str, WeightManifest]) -> set[str]:
    """Return ``keys`` with the manifests that they depend on, transitively, as bases of adapters."""
    found, waiting = set(keys), list(keys)
    while waiting:
        listed = known.get(waiting.pop())
        if listed is not None and listed.base is not None and listed.base.key not in found:
            found.add(listed.base.key)
            waiting.append(listed.base.key)
    return found
