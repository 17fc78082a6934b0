"""Garbage collection of published weights in the object store."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fathom.core.errors import CorruptData, NotFound
from fathom.domain.weights.manifest import WeightManifest, read_manifest
from fathom.domain.weights.serving import Serving, key_of
from fathom.transport.bus.base import KeyValue
from fathom.transport.store.base import ObjectStore, StoredObject

# Such as ``weights/planner/12/manifest-3f2a9c01d4e5b677.json``: model and version are its groups.
MANIFEST = re.compile(r"weights/([^/]+)/(\d+)/manifest-[^/]+")


@dataclass(frozen=True)
class Retention:
    """Retention policy of published weights.

    Keeps the ``keep_newest`` newest versions of a model (0 keeps all), served versions, their dependencies, and
    versions younger than ``min_age_s`` seconds.
    """

    store: ObjectStore
    serving: KeyValue
    keep_newest: int
    min_age_s: float
    log: Any

    async def retire(self, model: str) -> list[int]:
        """Delete a model's old versions from the store and return their numbers.

        Files that a remaining manifest refers to, as part of a delta or as an adapter's base, are kept. Uploads without
        a manifest are never touched.
        """
        if not self.keep_newest:
            return []
        manifests = await self._manifests()
        ours = {ref.key: parse_version(ref.key) for ref in manifests if parse_model(ref.key) == model}
        newest = set(sorted(set(ours.values()), reverse=True)[: self.keep_newest])
        staying = {ref.key for ref in manifests if ours.get(ref.key) in newest or parse_model(ref.key) != model}
        # A trainer publishes before it activates, so the youngest versions are not served yet.
        staying |= {ref.key for ref, listed in manifests.items() if compute_age_s(listed) < self.min_age_s}
        staying = add_dependencies(
            staying | await self._list_served(model), {ref.key: listed for ref, listed in manifests.items()}
        )
        leaving = [ref for ref in manifests if ref.key in ours and ref.key not in staying]
        # Manifests are deleted before files, so that no replica starts to serve a version that is losing its files; one
        # that a replica has started to serve meanwhile gets its manifest back.
        removed = {ref: await self._take_manifest(ref) for ref in leaving}
        for ref in [ref for ref in removed if ref.key in await self._list_served(model)]:
            await self.store.put(ref.key, removed.pop(ref), ref.content_type)
        # A delta names a file of another version, so a file goes only when no remaining manifest lists it.
        kept = {key for ref, listed in manifests.items() if ref not in removed for key in list_file_keys(listed)}
        for key in {key for ref in removed for key in list_file_keys(manifests[ref])} - kept:
            await self.store.delete(key)
        versions = sorted({ours[ref.key] for ref in removed})
        if versions:
            self.log.info("old weights removed", model=model, versions=versions)
        return versions

    async def _manifests(self) -> dict[StoredObject, WeightManifest]:
        """Return the readable manifests of all models."""
        # All models, since an adapter may be based on another model's weights.
        found = {}
        for ref in await self.store.list("weights/"):
            if MANIFEST.fullmatch(ref.key):
                try:
                    found[ref] = await read_manifest(self.store, ref)
                except (NotFound, CorruptData) as error:  # another replica removes it too, or it serves nobody
                    self.log.info("manifest of weights is skipped", key=ref.key, error=error.message)
        return found

    async def _take_manifest(self, ref: StoredObject) -> bytes:
        """Delete a manifest from the store and return its bytes."""
        data = await self.store.get(ref.key)
        await self.store.delete(ref.key)
        return data

    async def _list_served(self, model: str) -> set[str]:
        """Return the keys of the manifests that lanes of the model are served by."""
        entry = await self.serving.get(key_of(model))
        if entry is None or entry.value is None:
            return set()
        shares = Serving.from_json(entry.value, key_of(model)).shares().values()
        return {share.manifest.key for share in shares if share.manifest is not None}


def parse_model(key: str) -> str:
    return key.split("/")[1]


def parse_version(key: str) -> int:
    return int(key.split("/")[2])


def compute_age_s(manifest: WeightManifest) -> float:
    """Return the seconds since a manifest was published; 0 when its creation time is missing or invalid."""
    try:
        created = datetime.fromisoformat(manifest.created)
    # Without a date it counts as new and stays: deleting too little can be mended.
    except ValueError:
        return 0.0
    return (datetime.now(UTC) - created.replace(tzinfo=created.tzinfo or UTC)).total_seconds()


def list_file_keys(manifest: WeightManifest) -> Iterable[str]:
    """Yield the keys of a manifest's files and of the base files that its deltas apply to."""
    for file in manifest.files:
        yield file.key
        if file.delta is not None:
            yield file.delta[0]


def add_dependencies(keys: set[str], known: dict[str, WeightManifest]) -> set[str]:
    """Return ``keys`` with the manifests that they depend on, transitively, as bases of adapters."""
    found, waiting = set(keys), list(keys)
    while waiting:
        listed = known.get(waiting.pop())
        if listed is not None and listed.base is not None and listed.base.key not in found:
            found.add(listed.base.key)
            waiting.append(listed.base.key)
    return found
