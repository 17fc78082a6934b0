"""Local cache of published weights: verified downloads, and pruning of versions no longer served."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import shutil
import time
from collections.abc import Collection
from functools import partial
from pathlib import Path

from fathom.core.errors import CorruptData, InvalidField, NotFound
from fathom.core.retry import RetryPolicy, retry
from fathom.domain.weights.manifest import WeightManifest, fetch, holds, read_manifest
from fathom.domain.weights.serving import Share
from fathom.services.policy.serving.shared_versions import SharedVersions
from fathom.transport.store.base import ObjectStore, StoredObject

# Newest downloads kept besides served ones: enough for a rollback without another download.
KEPT_UNSERVED = 2
BASE_POINTER = "fathom-base"
# Prefix of folders that are being deleted; names with a dot are no versions.
REMOVED = ".removed-"
RETRY = RetryPolicy(attempts=None, first_delay_s=0.1, max_delay_s=2.0)
"""Backoff while the store is unreachable; bounded by the time that the caller gives, not by a number of attempts."""


class Downloads:
    """Downloaded versions in folders ``folder/<model>/<version>-<checksum>``, and those in ``shared`` memory."""

    def __init__(self, store: ObjectStore, folder: Path, shared: SharedVersions) -> None:
        self.store, self._folder, self._shared = store, folder, shared
        self._fetching: dict[Path, asyncio.Lock] = {}

    async def share(self, model: str, version: int, ref: StoredObject, percent: int = 100) -> Share:
        """Read the manifest of a published version, check it against the request, and return it as a ``Share``.

        Raises ``NotFound``, ``CorruptData``, or ``InvalidField`` when the manifest is of another model or version.
        """
        listed = await read_manifest(self.store, ref)
        if listed.policy_version != version:
            raise InvalidField("policy_version", f"is {version}, but the manifest carries {listed.policy_version}")
        if listed.model != model:
            raise InvalidField("model", f"is {model!r}, but the manifest is of {listed.model!r}")
        if ref.sha256:
            return Share(version, percent, ref)
        # Without a checksum in the reference, the one that the store recorded is the one that replicas compare.
        stored = await self.store.head(ref.key)
        if stored is None:
            raise NotFound("object", ref.key)
        return Share(version, percent, stored)

    async def find_manifest(self, model: str, version: int) -> StoredObject:
        """Return the manifest published last under a version number; raise ``NotFound`` with the nearest versions."""
        stored = await self.store.list(f"weights/{model}/{version}/manifest-")
        if not stored:
            raise NotFound("weights version", f"{model}/{version}", await self._nearest(model, version))
        # A number may have been published twice, e.g. by a training that was resumed: the last one counts.
        manifests = [(await read_manifest(self.store, ref), ref) for ref in stored]
        return max(manifests, key=lambda pair: pair[0].created)[1]

    async def are_same_weights(self, served: StoredObject, asked: StoredObject) -> bool:
        """Return whether two manifests list the same files; True when the served one cannot be read any more."""
        if served.sha256 == asked.sha256:
            return True
        try:
            one = await read_manifest(self.store, served)
        # What is served from nowhere is mended by the next activation.
        except (NotFound, CorruptData):
            return True
        other = await read_manifest(self.store, asked)
        return one.base == other.base and list_checksums(one) == list_checksums(other)

    async def _nearest(self, model: str, version: int) -> list[str]:
        keys = [stored.key for stored in await self.store.list(f"weights/{model}/")]
        versions = {part for key in keys if "/manifest-" in key and (part := key.split("/")[2]).isdigit()}
        return difflib.get_close_matches(str(version), sorted(versions), 3, 0) or sorted(versions, key=int)[-3:]

    async def fetch(self, model: str, share: Share, budget_s: float = 0.0) -> Path:
        """Download a version completely and return its folder; a version downloaded before is not downloaded again.

        What a learner on this machine shares is not downloaded at all.
        The base weights of an adapter are downloaded too: its file ``BASE_POINTER`` holds the path of their folder, and
        is absent when the base is the model as configured. While the store is unreachable, the download is retried for
        ``budget_s`` seconds. Raises ``InvalidField`` for version 0, ``NotFound``, ``CorruptData`` or the store's error.
        """
        if share.manifest is None:
            raise InvalidField("policy_version", "0 is the configured model, which is not published")
        folder = self._folder / model / share.ident
        # An activation and a prefetch of one version would otherwise write into the same folder.
        async with self._fetching.setdefault(folder, asyncio.Lock()):
            deadline = time.monotonic() + budget_s
            return await retry(partial(self._fetch_once, model, share.ident, share.manifest, folder), RETRY, deadline)

    async def _fetch_once(self, model: str, ident: str, ref: StoredObject, folder: Path) -> Path:
        manifest = await read_manifest(self.store, ref)
        is_here = await asyncio.to_thread(holds, folder, manifest)
        if not is_here and (shared := await asyncio.to_thread(self._shared.take, model, ident, manifest)) is not None:
            folder = shared
        else:
            await fetch(self.store, ref, folder)
        if manifest.adapter and manifest.base is not None:
            await self._fetch_base(manifest.base, folder)
        return folder

    async def _fetch_base(self, ref: StoredObject, adapter: Path) -> None:
        """Download the base weights of an adapter and write the path of their folder into the adapter's folder."""
        listed = await read_manifest(self.store, ref)
        # Merging is done in one step from whole weights; a chain of adapters has none to start from.
        if listed.adapter:
            raise CorruptData(ref.key, "is an adapter itself")
        base = self._folder / listed.model / Share(listed.policy_version, 100, ref).ident
        await fetch(self.store, ref, base)
        await asyncio.to_thread((adapter / BASE_POINTER).write_text, str(base.resolve()))

    async def fetch_ahead(self, model: str, share: Share) -> None:
        """Download a version before it is needed, unless a download of it is running."""
        lock = self._fetching.get(self._folder / model / share.ident)
        if lock is None or not lock.locked():
            await self.fetch(model, share)

    async def prune(self, model: str, served: Collection[str]) -> None:
        """Delete a model's downloaded versions except the newest ones and those in ``served`` (by ``Share.ident``)."""
        await asyncio.to_thread(prune, self._folder / model, served)
        await asyncio.to_thread(self._shared.release, model, served)
        # Locks of removed folders go too, or the mapping would grow with every version ever served.
        for folder in [path for path, lock in self._fetching.items() if not (lock.locked() or path.is_dir())]:
            del self._fetching[folder]

    async def close(self) -> None:
        """Give the memory back that learners have shared."""
        await asyncio.to_thread(self._shared.close)


def prune(folder: Path, served: Collection[str]) -> None:
    """Delete old version folders below ``folder`` except those in ``served``; blocking."""
    if not folder.is_dir():
        return
    # Names with a dot are downloads in progress, which become a version by a rename.
    fetched = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    for path in sorted(fetched, key=read_modification_time, reverse=True)[KEPT_UNSERVED:]:
        if path.name not in served:
            # Deleting files makes a folder look new, so that a prune at the same time (of another replica on this disk,
            # or after the next activation) would keep it in the place of a newer one: it leaves the list first.
            with contextlib.suppress(OSError):
                path.rename(path.with_name(REMOVED + path.name))
    # A leftover of a prune that was cut off is deleted by the next one.
    for path in folder.glob(REMOVED + "*"):
        shutil.rmtree(path, ignore_errors=True)


def read_modification_time(path: Path) -> float:
    """Return the modification time of a folder in seconds; 0 if a concurrent prune has removed it."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def list_checksums(manifest: WeightManifest) -> dict[str, str]:
    """Return the checksums of a version's files by name."""
    return {file.path: file.checksum for file in manifest.files}
